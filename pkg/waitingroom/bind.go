package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// BindRequest is a pass, verified by the caller, that becomes an order.
type BindRequest struct {
	Product   product.ID
	User      product.UserHash
	Place     product.Place
	OrderID   order.ID // the pass's jti
	ExpiresMS int64    // the pass's exp in milliseconds since 1970
	Epoch     int64    // the pass's pass_epoch
	Digest    string   // order.Digest of the quantity and the Idempotency-Key; holds no "|"
	Quantity  int      // 1 to the product's max_quantity
	Command   []byte   // the bytes to send; kept as the intent until the order is judged
}

// BindOutcome is what bind decided (JOINT 2.3).
type BindOutcome string

// The outcomes of a bind.
const (
	BindBound    BindOutcome = "bound"    // the intent is kept, now or before: send BindResult.Command
	BindConflict BindOutcome = "conflict" // bound before with another digest: nothing is to be sent
	BindJudged   BindOutcome = "judged"   // has its verdict; the status tells which
	BindHalted   BindOutcome = "halted"   // orders are halted; the pass is still good, and its time stands still
	BindSoldOut  BindOutcome = "sold_out" // not enough units free; the pass is still good
	BindBusy     BindOutcome = "busy"     // stock not loaded, or too many orders in flight; the pass is still good
	BindClosed   BindOutcome = "closed"   // no settings, or not open
	BindRefused  BindOutcome = "refused"  // the pass is no longer good; see Reason
	BindUnknown  BindOutcome = "unknown"  // of an incarnation before a loss: an order may exist that the slot forgot
	BindQueueOn  BindOutcome = "queue_on" // without a pass only: orders need one
	BindPending  BindOutcome = "pending"  // without a pass only: another order of the user has no verdict yet; see Pending
)

// BindReason is why a pass is refused.
type BindReason string

// The reasons of BindRefused and, for information, of BindUnknown.
const (
	ReasonLapsed     BindReason = "lapsed"     // its time was over unused, here or (called) before a loss
	ReasonExpired    BindReason = "expired"    // its time is over and the slot knows no record of the user
	ReasonLeft       BindReason = "left"       // given up
	ReasonEvicted    BindReason = "evicted"    // removed by an operator
	ReasonBanned     BindReason = "banned"     // banned by an operator
	ReasonRevoked    BindReason = "revoked"    // of an earlier pass_epoch
	ReasonSuperseded BindReason = "superseded" // the user stands at a newer place, or has ordered with one
)

// BindResult is the outcome and what belongs to it.
type BindResult struct {
	Outcome BindOutcome
	First   bool       // of BindBound: this call bound it, so Command is the request's
	Command []byte     // of BindBound: the stored bytes, which are the ones to send
	Reason  BindReason // of BindRefused and BindUnknown
	Pending order.ID   // of BindPending: the order that has no verdict yet
}

// Bind turns a pass into an order: its units are held and its command is kept, in one step, before anything is sent (U7,
// 2.3). The same pass with the same digest is answered with the bytes kept at first. Outcomes are no errors. Safe to repeat.
func (r *Room) Bind(ctx context.Context, b BindRequest) (BindResult, error) {
	k := r.keys.Product(b.Product)
	answer, err := r.run(ctx, r.scripts.bind, b.Product, []string{
		k.Settings, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Judged, k.Intents, k.Ordering, k.Stock, k.Tally, k.Bans, k.Slots, k.Changes,
	}, string(b.User), b.Place.String(), string(b.OrderID), strconv.FormatInt(b.ExpiresMS, 10), strconv.FormatInt(b.Epoch, 10),
		b.Digest, strconv.Itoa(b.Quantity), b.Command, r.keys.GateHints(), string(b.Product))
	if err != nil {
		return BindResult{}, fmt.Errorf("bind order %s: %w", b.OrderID, err)
	}
	result := BindResult{Outcome: BindOutcome(answer.Text(0))}
	switch result.Outcome {
	case BindBound:
		result.First = answer.Int(1) == 1
		result.Command = b.Command
		if !result.First {
			result.Command = []byte(answer.Text(2))
		}
	case BindRefused, BindUnknown:
		result.Reason = BindReason(answer.Text(1))
	case BindConflict, BindJudged, BindHalted, BindSoldOut, BindBusy, BindClosed:
	default:
		return BindResult{}, broken(b.Product, fmt.Errorf("bind order %s: unknown code %q", b.OrderID, result.Outcome))
	}
	if err := answer.Err(); err != nil {
		return BindResult{}, broken(b.Product, fmt.Errorf("bind order %s: %w", b.OrderID, err))
	}
	return result, nil
}
