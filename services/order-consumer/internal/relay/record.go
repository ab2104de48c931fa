package relay

import (
	"strconv"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/outbox"
	"hanjul/pkg/telemetry"
)

const contentType = "application/json"

// Record makes the Kafka record of a row; its key is the product. An event is a CloudEvent in binary mode, whose id and sequence are
// the row's; a command or a dead letter goes as it is. The trace goes on in a span of its own.
func Record(row outbox.Row) kafka.Record {
	headers := []kafka.Header{{Key: order.HeaderContentType, Value: []byte(contentType)}}
	add := func(key, value string) { headers = append(headers, kafka.Header{Key: key, Value: []byte(value)}) }
	if row.IsEvent() {
		add(order.HeaderSpecVersion, "1.0")
		add(order.HeaderID, row.ID)
		add(order.HeaderSource, order.Source(row.Product))
		add(order.HeaderType, row.Type)
		add(order.HeaderSubject, row.AggregateID)
		add(order.HeaderTime, row.CreatedAt.UTC().Format(time.RFC3339Nano))
		add(order.HeaderSequence, strconv.FormatInt(row.Seq, 10))
	}
	if parent, err := telemetry.ParseTraceparent(row.Traceparent); err == nil {
		add(order.HeaderTraceparent, parent.Child().String())
	}
	return kafka.Record{Topic: row.Topic, Key: []byte(row.Product), Value: row.Payload, Headers: headers}
}
