package ledger

import (
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Batch is what one fetch of one partition gave, in log order.
type Batch struct {
	Topic      string
	Partition  int
	NextOffset int64 // the offset behind the last record
	Commands   []Input
}

// Input is one record. Either Command is a verified command and User the hash of its user, or Park says why it cannot be judged.
type Input struct {
	Offset  int64
	At      time.Time // the record's own timestamp, which a deadline is compared with (F10)
	Key     []byte    // of the record
	Raw     []byte    // the record's value
	Command order.Command
	User    product.UserHash
	Park    *Park
}

// Park says that a record goes to the dead letters. Ids are set only where the command verified, so that a forged one blocks nobody's
// id; at most one of OrderID (a place) and CommandID (any other kind) is set.
type Park struct {
	Reason    string // a short constant word, snake_case
	Product   product.ID
	OrderID   order.ID
	CommandID string
}

// The reasons of dead letters that the ledger finds itself; fulfil adds its own.
const (
	ParkNoStock    = "unknown_product" // the product has no stock row
	ParkUnstorable = "unstorable"      // a text that Postgres cannot hold (a zero byte)
	ParkPlaceTaken = "place_taken"     // another order id was judged for the same product, user and place: the order key was changed in a sale
	ParkForeign    = "foreign_order"   // the order id belongs to another product
)

// Outcome is what the batch did with a record.
type Outcome string

// The outcomes. Known and StillParked change nothing: they are copies.
const (
	Judged      Outcome = "judged"
	Known       Outcome = "known"
	Parked      Outcome = "parked"
	StillParked Outcome = "still_parked"
)

// Verdict is the answer to one record. Order is set when the record concerned an order that has a row now (its own verdict for a
// place, the order's for a cancel or a void). Command is set for a judged or known command that is no place.
type Verdict struct {
	Outcome Outcome
	Kind    order.Kind // "" for a record that was parked unread
	Product product.ID
	Park    string // reason, for Parked
	Order   *OrderRow
	Command *CommandRow
}

// Settlement is one product's stock after the batch, for the decrement in Redis.
type Settlement struct {
	Product product.ID
	Base    int64 // total − sold
	Seq     int64
	Load    bool // a load_stock was in the batch: the decrement may create the stock (F11)
}

// Result is what a batch came to: one verdict per record, in the batch's order, and one settlement per product that has stock, sorted
// by product.
type Result struct {
	Verdicts    []Verdict
	Settlements []Settlement
}
