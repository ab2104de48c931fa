package order

import (
	"encoding/json"
	"fmt"
	"time"

	"hanjul/pkg/product"
)

// The types of outbox rows that are no events.
const (
	TypeCommand    EventType = "hanjul.command.queued" // a command on its way to the topic orders
	TypeDeadLetter EventType = "hanjul.command.parked" // a dead letter
)

// deadLetterVersion is the version of the dead letters' JSON that this build writes.
const deadLetterVersion = 1

// payloadMax bounds the copy of the record in a dead letter, so that the letter itself always fits into Kafka. The ledger keeps all of it.
const payloadMax = 256 << 10

// DeadLetter is the value of one record on the topic for dead letters: where the command stood, why it could not be processed, and its
// bytes (base64 in JSON). Ids are set only where the command verified.
type DeadLetter struct {
	Version    int        `json:"v"`
	Reason     string     `json:"reason"`
	Topic      string     `json:"topic"`
	Partition  int        `json:"partition"`
	Offset     int64      `json:"offset"`
	RecordedAt time.Time  `json:"recorded_at"` // the record's own timestamp
	Product    product.ID `json:"product,omitempty"`
	OrderID    ID         `json:"order_id,omitempty"`
	CommandID  string     `json:"command_id,omitempty"`
	Key        []byte     `json:"key"`
	Payload    []byte     `json:"payload"`
	Truncated  bool       `json:"truncated,omitempty"` // key or payload was cut; the ledger has it whole
}

// Encode is the dead letter's JSON, the same bytes for the same letter.
func (d DeadLetter) Encode() ([]byte, error) {
	d.Version = deadLetterVersion
	if len(d.Payload) > payloadMax {
		d.Payload, d.Truncated = d.Payload[:payloadMax], true
	}
	if len(d.Key) > payloadMax {
		d.Key, d.Truncated = d.Key[:payloadMax], true
	}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode dead letter %s/%d/%d: %w", d.Topic, d.Partition, d.Offset, err)
	}
	return b, nil
}
