package order

import "hanjul/pkg/product"

// State is what an order's user reads.
type State string

// The states of an order. Pending: nobody can say yet (outcome of the send unknown). Accepted: in the log, will be judged.
const (
	StatePending   State = "pending"
	StateAccepted  State = "accepted"
	StateConfirmed State = "confirmed"
	StateRejected  State = "rejected"
	StateCancelled State = "cancelled"
)

// Reason is why an order was rejected or cancelled. The list is closed.
type Reason string

// The reasons. Empty for confirmed orders.
const (
	ReasonSoldOut         Reason = "sold_out"                // no unit was left at its turn in the log
	ReasonLimit           Reason = "limit"                   // the user would hold more than the limit
	ReasonExpired         Reason = "expired"                 // sent after its deadline, or voided
	ReasonDuplicateKey    Reason = "duplicate_key"           // another order of the user carries the same Idempotency-Key
	ReasonFailed          Reason = "failed"                  // parked, then dropped by an operator
	ReasonOperator        Reason = "operator"                // cancelled by an operator
	ReasonCancelledBefore Reason = "cancelled_before_judged" // the cancel overtook its order
)

// Reasons is the closed list, in the order of the documentation.
func Reasons() []Reason {
	return []Reason{ReasonSoldOut, ReasonLimit, ReasonExpired, ReasonDuplicateKey, ReasonFailed, ReasonOperator, ReasonCancelledBefore}
}

// The versions of a status in Redis: a write of a lower or equal version changes nothing. They are the row's version + 1 (F43).
const (
	VersionPending   = 0
	VersionAccepted  = 1
	VersionVerdict   = 2
	VersionCancelled = 3
)

// Status is one order's status as Redis keeps it: a cache of the ledger that is written again when asked for (F3).
type Status struct {
	Version  int
	State    State
	Reason   Reason
	Product  product.ID
	User     product.UserHash
	Quantity int // 0 where unknown (void)
	Digest   string
}
