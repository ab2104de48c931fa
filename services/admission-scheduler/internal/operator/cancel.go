package operator

import (
	"context"
	"fmt"
	"net/http"

	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/telemetry"
)

// quantityMax bounds a told quantity, as that of a place is bounded.
const quantityMax = 1000

// Bound tells the place command of an order that is bound in the line and not judged, as far as Redis knows.
type Bound func(ctx context.Context, p product.ID, id order.ID) (command []byte, found bool, err error)

// cancel takes an order back. It is accepted here and judged in the product's log (F6, F21): a confirmed order gives its units back,
// once. Whose order it is, the books say; for an order that they do not know yet the caller must, and then the cancel may overtake
// it, so that it never buys anything. The caller is not believed against what the line has bound.
func (d *Desk) cancel(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error) {
	members, err := readBody(r, true)
	if err != nil {
		return ledger.ActionResult{}, nil, err
	}
	var f faults
	id, err := order.ParseID(r.PathValue("order"))
	splitFaults(err, &f)
	var user string
	var quantity int
	if take(members, &f, "user", &user) {
		_, err := product.ParseUserID(user)
		splitFaults(err, &f)
	}
	if take(members, &f, "quantity", &quantity) && (quantity < 1 || quantity > quantityMax) {
		f.add("quantity", "expected a whole number from 1 to %d", quantityMax)
	}
	refuseUnknown(members, &f)
	if err := f.err(); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	c := ledger.Cancellation{
		OrderID: id, User: product.UserID(user), Quantity: quantity,
		Traceparent: telemetry.ContinueTraceparent(r.Header.Get(telemetry.TraceparentHeader)).String(),
	}
	if c.Command, err = d.cancelCommand(r, a, c); err != nil {
		return ledger.ActionResult{}, nil, err
	}
	result, err := d.Ledger.Cancel(r.Context(), a, c)
	return result, nil, err
}

// cancelCommand makes the signed cancel. Its id is the request's, so that however often it is sent, it gives the units back once.
func (d *Desk) cancelCommand(r *http.Request, a ledger.Action, c ledger.Cancellation) ([]byte, error) {
	user, quantity := c.User, c.Quantity
	rows, err := d.Ledger.OrdersByID(r.Context(), []order.ID{c.OrderID})
	if err != nil {
		return nil, err
	}
	row, found := rows[c.OrderID]
	switch {
	case found && row.Product != a.Product:
		return nil, fmt.Errorf("cancel %s: %w", c.OrderID, ledger.ErrUnknownOrder)
	case found && row.UserID != "" && user != "" && row.UserID != user:
		return nil, faults{{Name: "user", Detail: "expected the order's own, or none"}}
	case found && row.UserID != "":
		user, quantity = row.UserID, row.Quantity
	case found && user == "": // voided: only the hash of its user was known
		return nil, fmt.Errorf("cancel %s: it is %s: %w", c.OrderID, row.State, ledger.ErrOrderState)
	case user == "":
		return nil, fmt.Errorf("cancel %s: %w; to take back one that is still on its way, name its user", c.OrderID, ledger.ErrUnknownOrder)
	case !found:
		if err := d.checkOwner(r.Context(), a.Product, c); err != nil {
			return nil, err
		}
	}
	command, err := order.Command{
		Kind: order.KindCancel, ID: a.RequestID, Product: a.Product, OrderID: c.OrderID, User: user, Quantity: quantity,
		AtMS: d.Now().UnixMilli(), Traceparent: c.Traceparent,
	}.Sign(d.Commands)
	if err != nil {
		return nil, fmt.Errorf("sign cancel %s: %w", a.RequestID, err)
	}
	return command.Encode()
}

// checkOwner holds the user that a caller names against the order's own place command. A tombstone of another user would stop the order all
// the same, but nobody could read it: not its owner, whose it is not, and who would be told for ever that it is on its way.
func (d *Desk) checkOwner(ctx context.Context, p product.ID, c ledger.Cancellation) error {
	ctx, cancel := context.WithTimeout(ctx, liveWithin)
	defer cancel()
	command, found, err := d.Bound(ctx, p, c.OrderID)
	if err != nil {
		return fmt.Errorf("cancel %s: %w", c.OrderID, err)
	}
	if !found {
		return nil
	}
	place, _ := order.DecodeCommand(command) // one that cannot be judged, and is parked, tells its user all the same
	if place.User != "" && place.User != c.User {
		return faults{{Name: "user", Detail: "expected the order's own"}}
	}
	return nil
}
