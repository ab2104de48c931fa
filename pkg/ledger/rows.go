package ledger

import (
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// ProductRow is a product with its stock, as operators and the scheduler see it.
type ProductRow struct {
	ID        product.ID       `json:"product"`
	Settings  product.Settings `json:"settings"`
	SettingsV int64            `json:"settings_v"` // rises with every change of the settings
	LineInc   int              `json:"line_inc"`   // 0 until the line was opened for the first time
	OpenedUS  int64            `json:"opened_us"`  // first opening, microseconds since 1970; 0 before it
	Front     product.Place    `json:"front"`      // highest admitted place that was persisted; 0 for none
	ActiveN   int              `json:"active_n"`   // active passes when front_at was taken
	FrontAt   time.Time        `json:"front_at"`   // zero: the open line was never looked at
	PassEpoch int64            `json:"pass_epoch"`
	BansV     int64            `json:"bans_v"` // rises with every change of the bans
	Total     int64            `json:"total"`
	Sold      int64            `json:"sold"`
	Seq       int64            `json:"seq"`
}

// Stock is a product's stock. Left is what Redis calls base.
type Stock struct {
	Total, Sold int64
	Seq         int64 // number of the product's last event; gapless
}

// Left is total − sold.
func (s Stock) Left() int64 { return s.Total - s.Sold }

// OrderRow is one order as it was judged last.
type OrderRow struct {
	OrderID     order.ID
	Product     product.ID
	UserID      product.UserID // "" where only the hash was known (void)
	User        product.UserHash
	Place       product.Place // 0 for void, drop and tombstones
	Quantity    int           // 0 for void, drop and tombstones
	State       order.State   // confirmed, rejected or cancelled
	Reason      order.Reason
	Version     int // 1 verdict, 2 cancelled
	IdemKey     string
	Digest      string   // "" for void and tombstones
	DuplicateOf order.ID // the order that has the key, for duplicate_key
	Seq         int64    // the event of the row's last change
	JudgedAt    time.Time
}

// Status is what the order's user reads; its version is the row's + 1 (F43).
func (r OrderRow) Status() order.Status {
	return order.Status{
		Version: r.Version + 1, State: r.State, Reason: r.Reason,
		Product: r.Product, User: r.User, Quantity: r.Quantity, Digest: r.Digest,
	}
}

// Cursor is where a page of OrdersJudgedSince ended.
type Cursor struct {
	At time.Time
	ID order.ID
}

// Cursor is the row's own.
func (r OrderRow) Cursor() Cursor { return Cursor{r.JudgedAt, r.OrderID} }

// The results of commands.
const (
	CommandDone    = "done"    // it changed something, or, for a load_stock, was met
	CommandNothing = "nothing" // there was nothing to change: an order of another verdict, a void of a known id
	CommandRefused = "refused" // an adjust that would have put the total below what is sold
)

// CommandRow is one judged command other than a place.
type CommandRow struct {
	CommandID string
	Product   product.ID
	Kind      order.Kind
	Result    string
	Seq       int64 // 0 where it made no event
	JudgedAt  time.Time
}

// The states of dead letters.
const (
	LetterParked   = "parked"
	LetterRedriven = "redriven" // sent again by an operator; parked once more if that fails
	LetterDropped  = "dropped"  // given up by an operator
)

// LetterRow is one dead letter.
type LetterRow struct {
	ID         int64 // what operators call it by
	Topic      string
	Partition  int
	Offset     int64
	Product    product.ID // "" where the record named none
	OrderID    order.ID   // "" where it did not verify, or was no place
	CommandID  string
	Reason     string
	State      string
	RecordedAt time.Time // the first record's own timestamp
	ParkedAt   time.Time
}

// OutboxRow is one outbox row, without what the relay keeps for itself.
type OutboxRow struct {
	ID          string
	N           int64
	Topic       string
	Product     product.ID
	Seq         int64 // 0 for rows that are no events
	Type        string
	Subject     string // what it is about: the order, or else the product
	Payload     []byte
	Traceparent string
	LeftAfter   int64
	CreatedAt   time.Time // of an event: read under the stock row's lock, so it never goes back from seq to seq
	Published   bool
}
