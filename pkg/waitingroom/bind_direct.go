package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// DirectRequest is an order without a pass, which its user's Idempotency-Key stands for (F16).
type DirectRequest struct {
	Product  product.ID
	User     product.UserHash
	OrderID  order.ID // order.DeriveDirectID
	Digest   string   // order.Digest of the quantity and the Idempotency-Key; holds no "|"
	Quantity int      // 1 to the product's max_quantity
	Command  []byte   // the bytes to send; kept as the intent until the order is judged
}

// BindDirect takes an order without a pass while the queue is off, under the same bounds as one with a pass: units are held, and no more
// orders are in flight than the product allows, nor more than one of this user. Who stood in the line or held a pass ends there, at their
// place, as this order (F17). Whether the queue is off is the slot's to say, at that instant. The same order with the same digest is
// answered with the bytes kept at first, also once the queue is on again. Outcomes are BindBound, BindConflict, BindJudged, BindQueueOn,
// BindPending, BindHalted, BindSoldOut, BindBusy, and BindRefused with ReasonBanned; the errors besides a fault of the connection
// ErrNotReady, ErrNotOpen and ErrClosed. Safe to repeat.
func (r *Room) BindDirect(ctx context.Context, b DirectRequest) (BindResult, error) {
	k := r.keys.Product(b.Product)
	answer, err := r.run(ctx, r.scripts.bindDirect, b.Product, []string{
		k.Settings, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Judged, k.Intents, k.Ordering, k.Stock, k.Tally, k.Bans, k.Slots, k.Changes,
	}, string(b.User), string(b.OrderID), b.Digest, strconv.Itoa(b.Quantity), b.Command, r.keys.GateHints(), string(b.Product))
	if err != nil {
		return BindResult{}, fmt.Errorf("bind order %s: %w", b.OrderID, err)
	}
	result, code := BindResult{}, answer.Text(0)
	switch code {
	case "absent":
		err = ErrNotReady
	case "not_open":
		err = ErrNotOpen
	case "closed":
		err = ErrClosed
	case "banned":
		result = BindResult{Outcome: BindRefused, Reason: ReasonBanned}
	case "bound":
		result = BindResult{Outcome: BindBound, First: answer.Int(1) == 1, Command: b.Command}
		if !result.First {
			result.Command = []byte(answer.Text(2))
		}
	case "pending":
		result = BindResult{Outcome: BindPending, Pending: order.ID(answer.Text(1))}
	case "conflict", "judged", "queue_on", "halted", "sold_out", "busy":
		result.Outcome = BindOutcome(code)
	default:
		return BindResult{}, broken(b.Product, fmt.Errorf("bind order %s: unknown code %q", b.OrderID, code))
	}
	if err != nil {
		return BindResult{}, fmt.Errorf("bind order %s: product %s: %w", b.OrderID, b.Product, err)
	}
	if err := answer.Err(); err != nil {
		return BindResult{}, broken(b.Product, fmt.Errorf("bind order %s: %w", b.OrderID, err))
	}
	return result, nil
}
