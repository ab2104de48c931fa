package main

import (
	"encoding/json"
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
)

// errStop marks what waiting does not mend and guessing would make worse: somebody has to look. Nothing of it was entered.
var errStop = errors.New("the books stop here")

// event is what the bookkeeper needs of an event; docs/schema describes all of it. Fields it does not know are ignored.
type event struct {
	id   string
	data []byte

	Version   int    `json:"v"`
	Type      string `json:"type"`
	Product   string `json:"product"`
	Seq       int64  `json:"seq"`
	OrderID   string `json:"order_id"` // "" where null
	Quantity  *int64 `json:"quantity"`
	Reason    string `json:"reason"`
	Delta     int64  `json:"delta"`
	LeftAfter int64  `json:"left_after"`
}

// decode reads a record. A version that it does not know is an errStop: skipping it would lose a fact, and reading it might misread one.
func decode(message kafka.Message) (event, error) {
	id := ""
	for _, header := range message.Headers {
		if header.Key == "ce_id" {
			id = string(header.Value)
		}
	}
	e, err := decodeData(id, message.Value)
	if err == nil && e.Product != string(message.Key) {
		err = fmt.Errorf("product %q under the key %q: %w", e.Product, message.Key, errStop)
	}
	if err != nil {
		return event{}, fmt.Errorf("record %s/%d/%d: %w", message.Topic, message.Partition, message.Offset, err)
	}
	return e, nil
}

func decodeData(id string, data []byte) (event, error) {
	e := event{id: id, data: data}
	if err := json.Unmarshal(data, &e); err != nil {
		return event{}, fmt.Errorf("%w: %w", errStop, err)
	}
	switch {
	case e.Version != 1:
		return event{}, fmt.Errorf("v: expected 1, got %d: %w", e.Version, errStop)
	case id == "":
		return event{}, fmt.Errorf("ce_id: expected the event's id: %w", errStop)
	case e.Seq < 1:
		return event{}, fmt.Errorf("seq: expected 1 or more, got %d: %w", e.Seq, errStop)
	}
	return e, nil
}
