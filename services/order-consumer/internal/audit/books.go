// Package audit proves from the outside that a product's books balance. It reads one cut of the ledger, both topics, the
// line in Redis and, where there is one, the buyers' journal (load*.go, in the order of docs/joint.md, 2.7), then holds
// them against the promises I1–I10 (check*.go, pure). It writes nothing anywhere. Its neighbours are the owners whose
// books it reads; nothing imports it but the subcommand.
package audit

import (
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// Books is one cut through everything that is known about a product. It is a plain value: tests copy it, break one thing and
// see which promise tells.
type Books struct {
	Product  product.ID
	Settings product.Settings
	Inc      int // incarnation of the line; above 1: Redis lost something since the opening
	Ledger   Ledger
	Log      Log
	Events   []EventRecord
	EventLog Start // of their partition
	Line     Line
	Journal  []journal.Entry
	Passes   map[string]pass.Pass // by their text, those of the journal whose signature verifies
	Hash     func(product.UserID) product.UserHash
}

// Ledger is the product's part of one REPEATABLE READ snapshot.
type Ledger struct {
	Total, Sold, Seq int64
	Orders           []ledger.OrderRow
	Commands         []ledger.CommandRow
	Outbox           []OutboxRow // events only
	Kept             ledger.Kept // what retention left of the outbox
	Unsent           int         // commands and dead letters that wait in the outbox
	DeadLetters      []ledger.LetterRow
}

// OutboxRow is a row of outbox that is an event of the product.
type OutboxRow struct {
	ID        string
	Seq       int64
	Type      order.EventType
	Event     order.Event
	LeftAfter int64
	At        time.Time
	Published bool
}

// Start is where a partition of a topic begins. Retention takes records away from there.
type Start struct {
	First int64
	At    time.Time // the first record's own; zero when there is none
	Cut   bool      // records of the product may be among those that were taken away
}

// Log is the product's part of the topic orders: its partition's offsets and its own records.
type Log struct {
	Partition      int
	Start          Start
	Committed, End int64
	Judged         int64 // where the judge is, by the ledger's word
	Records        []LogRecord
}

// LogRecord is one command of the product in the log.
type LogRecord struct {
	Offset   int64
	Kind     order.Kind
	OrderID  order.ID
	ID       string
	Verified bool // the pass or the MAC verifies
	Decoded  bool // every field is in range; one that verifies and is not has its ids all the same
}

// EventRecord is one record of the product on order-events.
type EventRecord struct {
	Offset int64
	ID     string
	Seq    int64
	Event  order.Event
}

// Line is what Redis knows of the product.
type Line struct {
	Known                   bool // settings are there
	StockKnown              bool
	Base, Seq, Held         int64
	HeldParked              int64 // of Held: units of orders that are parked
	IntentUnits             int64
	Intents                 int64
	Waiting, Away, Active   int64
	Ordering, Ended, Joined int64
	Graces, Back            int64 // people away whose grace runs; returns from away since the line began
	Capacity, Burst         int64
	Rate                    float64
	Admits                  map[int64]int64 // admissions by second, the last 120
	Users                   map[product.UserHash]int
	EqualPlaces             []product.Place // places that two people of the line share
	Statuses                map[order.ID]order.Status
	TakenAt                 time.Time
}
