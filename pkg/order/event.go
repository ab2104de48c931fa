package order

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 defines the name-based UUID of version 5 over SHA-1; it protects nothing here.
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"hanjul/pkg/product"
)

// EventVersion is the version of the events' JSON that this build writes. Readers ignore fields they do not know.
const EventVersion = 1

// EventType is the CloudEvents type of a fact on order-events.
type EventType string

// The facts that leave through the outbox.
const (
	Confirmed     EventType = "hanjul.order.confirmed"
	Rejected      EventType = "hanjul.order.rejected"
	Cancelled     EventType = "hanjul.order.cancelled"
	StockAdjusted EventType = "hanjul.stock.adjusted"
)

// EventTypes lists the facts that leave through the outbox.
func EventTypes() []EventType { return []EventType{Confirmed, Rejected, Cancelled, StockAdjusted} }

// Event is the data of one record on order-events. Seq is gapless per product: a reader that has seen seq n takes n+1
// next, and drops what is at or below n as a repeat. Pointers are null where the fact has no such value.
type Event struct {
	Version   int             `json:"v"`
	Type      EventType       `json:"type"`
	Product   product.ID      `json:"product"`
	Seq       int64           `json:"seq"`
	OrderID   *ID             `json:"order_id"`
	User      *product.UserID `json:"user"`
	Place     *product.Place  `json:"place"`
	Quantity  *int            `json:"quantity"`
	Reason    *Reason         `json:"reason"`
	Delta     *int64          `json:"delta"`      // units added to the total, for StockAdjusted
	CommandID *string         `json:"command_id"` // the command that made the fact, where it was not a place
	LeftAfter int64           `json:"left_after"` // total − sold after this fact
	At        time.Time       `json:"at"`
}

// Encode is the event's JSON, the same bytes for the same event.
func (e Event) Encode() ([]byte, error) {
	e.Version = EventVersion
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %s of %s: %w", e.Type, e.Product, err)
	}
	return b, nil
}

// DecodeEvent reads an event's JSON; ErrVersion when it is of a version this build does not know.
func DecodeEvent(b []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(b, &e); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if e.Version != EventVersion {
		return Event{}, fmt.Errorf("decode event: version %d: %w", e.Version, ErrVersion)
	}
	return e, nil
}

// The Kafka headers of an event: CloudEvents 1.0 in binary mode, with the sequence extension.
const (
	HeaderContentType = "content-type"
	HeaderSpecVersion = "ce_specversion"
	HeaderID          = "ce_id"
	HeaderSource      = "ce_source"
	HeaderType        = "ce_type"
	HeaderSubject     = "ce_subject"
	HeaderTime        = "ce_time"
	HeaderSequence    = "ce_sequence"
	HeaderTraceparent = "traceparent"
	// Of an event that an operator had published again: the replay's id, and which run of it, from 1.
	HeaderReplayID      = "ce_replayid"
	HeaderReplayAttempt = "ce_replayattempt"
)

// Source is the CloudEvents source of a product's events.
func Source(p product.ID) string { return "/hanjul/products/" + string(p) }

// namespace is the UUID that event ids are derived under; it was drawn once and never changes.
func namespace() [16]byte {
	return [16]byte{0x1d, 0x4b, 0x5c, 0x0e, 0x92, 0x3a, 0x4f, 0x61, 0xa7, 0xd8, 0x30, 0x6e, 0x55, 0xc2, 0x9b, 0x14}
}

// OrderEventID is the id of an order's event: a UUIDv5 of the order id and the row's version (1 verdict, 2 cancelled),
// so that a redone transaction writes the same id.
func OrderEventID(id ID, version int) string {
	return uuid5("order|" + string(id) + "|" + strconv.Itoa(version))
}

// CommandEventID is the id of the event or outbox row that a command made.
func CommandEventID(commandID string) string { return uuid5("command|" + commandID) }

// OutboxCommandID is the id of the outbox row that carries a command to the topic orders.
func OutboxCommandID(commandID string) string { return uuid5("send|" + commandID) }

// DeadLetterID is the id of the outbox row that carries a dead letter.
func DeadLetterID(topic string, partition int, offset int64) string {
	return uuid5("dead|" + topic + "|" + strconv.Itoa(partition) + "|" + strconv.FormatInt(offset, 10))
}

// VoidID is the command id of the void of an order: the same for every ask, so that one id is voided once.
func VoidID(id ID) string { return uuid5("void|" + string(id)) }

func uuid5(name string) string {
	ns := namespace()
	sum := sha1.Sum(append(ns[:], name...)) //nolint:gosec // see the import
	var b [16]byte
	copy(b[:], sum[:16])
	b[6] = 0x50 | b[6]&0x0f
	b[8] = 0x80 | b[8]&0x3f
	return format(b)
}
