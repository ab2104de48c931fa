package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Cancellation is an order that an operator takes back. Command is the encoded, signed cancel whose command_id is the action's RequestID.
// User and Quantity are what the caller was told of an order that has no row yet, and zero where the books know it.
type Cancellation struct {
	OrderID     order.ID
	User        product.UserID
	Quantity    int
	Command     []byte
	Traceparent string
}

// Cancel queues the cancel of an order. It is judged in the product's log: a confirmed order gives its units back, once; one that has
// no row when the cancel arrives never buys anything. Errors: ErrUnknownProduct, ErrUnknownOrder (no row, and no user was
// told; or another product's), ErrOrderState (it is rejected, or cancelled already), ErrInvalid, ErrRequestReused.
func (l *Ledger) Cancel(ctx context.Context, a Action, c Cancellation) (ActionResult, error) {
	body := struct {
		OrderID  order.ID       `json:"order_id"`
		User     product.UserID `json:"user,omitempty"`
		Quantity int            `json:"quantity,omitempty"`
	}{c.OrderID, c.User, c.Quantity}
	cmd := &command{c.Command, c.Traceparent, "a cancel of " + string(c.OrderID), func(cmd order.Command) bool {
		return cmd.Kind == order.KindCancel && cmd.OrderID == c.OrderID && (c.User == "" || cmd.User == c.User)
	}}
	return l.act(ctx, call{Action: a, name: "cancel", body: body, command: cmd, do: func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error) {
		if row == nil {
			return ActionResult{}, ErrUnknownProduct
		}
		rows, err := tx.Query(ctx, `SELECT `+orderColumns+` FROM orders WHERE order_id = $1::text::uuid`, string(c.OrderID))
		about, err := one(rows, err, scanOrder, ErrUnknownOrder)
		switch {
		case errors.Is(err, ErrUnknownOrder) && c.User != "":
		case err != nil:
			return ActionResult{}, err
		case about.Product != a.Product:
			return ActionResult{}, ErrUnknownOrder
		case about.State != order.StateConfirmed:
			return ActionResult{}, fmt.Errorf("it is %s: %w", about.State, ErrOrderState)
		}
		return ActionResult{Product: *row}, nil
	}})
}
