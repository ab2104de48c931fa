package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// errOtherOrder says that a payment's id was used for another order.
var errOtherOrder = errors.New("the payment is of another order")

// lockOrder holds back whoever else bills, cancels or pays the order until the transaction ends: a payment must not miss the bill that
// is being written beside it.
func lockOrder(ctx context.Context, tx pgx.Tx, order string) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bookkeeper order ' || $1, 0))`, order)
	return err
}

// owe is what an event means for the order's bill.
func (p *page) owe(ctx context.Context, e event) error {
	switch e.Type {
	case confirmed:
		return p.bill(ctx, e)
	case rejected, cancelled:
		return p.settle(ctx, e)
	}
	return nil
}

// bill makes the order's bill, in the transaction of its confirmed event: a repeat of the event makes no second one. The time to pay
// begins now and not with the verdict, so that nobody loses an order because we were away. What was paid already pays it.
func (p *page) bill(ctx context.Context, e event) error {
	if err := lockOrder(ctx, p.tx, e.OrderID); err != nil {
		return err
	}
	paid, err := p.tx.Exec(ctx, `
UPDATE bookkeeper.payments SET state = 'taken' WHERE payment_id =
  (SELECT payment_id FROM bookkeeper.payments WHERE order_id = $1 AND state <> 'refund' ORDER BY state = 'early', received_at, payment_id LIMIT 1)`, e.OrderID)
	if err != nil {
		return err
	}
	state := "unpaid"
	if paid.RowsAffected() > 0 {
		state = "paid"
	}
	_, err = p.tx.Exec(ctx, `INSERT INTO bookkeeper.bills (order_id, product, state, due) VALUES ($1, $2, $3, now() + $4)`, e.OrderID, p.product, state, p.payWithin)
	if err != nil {
		return err
	}
	_, err = p.tx.Exec(ctx, `UPDATE bookkeeper.payments SET state = 'refund' WHERE order_id = $1 AND state = 'early'`, e.OrderID)
	return err
}

// settle ends what an order owes, in the transaction of the event that says that it holds nothing: rejected, or cancelled by whomever.
// Whatever was paid is to be given back.
func (p *page) settle(ctx context.Context, e event) error {
	if err := lockOrder(ctx, p.tx, e.OrderID); err != nil {
		return err
	}
	if _, err := p.tx.Exec(ctx, `UPDATE bookkeeper.bills SET state = 'cancelled' WHERE order_id = $1`, e.OrderID); err != nil {
		return err
	}
	_, err := p.tx.Exec(ctx, `UPDATE bookkeeper.payments SET state = 'refund' WHERE order_id = $1`, e.OrderID)
	return err
}

// pay notes a payment and returns what became of it: taken, refund or early. A repeat of the payment's id returns what it is by now.
// Late, or a second one of the order: refund. Crashed before the answer: the provider says it again. errOtherOrder when the
// payment's id is known under another order.
func (b *books) pay(ctx context.Context, order, payment string) (state string, err error) {
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if err := lockOrder(ctx, tx, order); err != nil {
			return err
		}
		var of string
		err := tx.QueryRow(ctx, `SELECT order_id, state FROM bookkeeper.payments WHERE payment_id = $1`, payment).Scan(&of, &state)
		switch {
		case err == nil && of != order:
			return fmt.Errorf("payment %s: %w", payment, errOtherOrder)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		// Here the payment and the decision that it comes too late meet at the bill's row: one of the two finds it unpaid.
		paid, err := tx.Exec(ctx, `UPDATE bookkeeper.bills SET state = 'paid' WHERE order_id = $1 AND state = 'unpaid'`, order)
		if err != nil {
			return err
		}
		var judged bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM bookkeeper.orders WHERE order_id = $1)`, order).Scan(&judged); err != nil {
			return err
		}
		switch {
		case paid.RowsAffected() > 0:
			state = "taken"
		case judged: // overdue, cancelled, rejected, or paid already
			state = "refund"
		default:
			state = "early"
		}
		_, err = tx.Exec(ctx, `INSERT INTO bookkeeper.payments (payment_id, order_id, state) VALUES ($1, $2, $3)`, payment, order, state)
		return err
	})
	return state, err
}

// debt is an overdue bill.
type debt struct{ Order, Product string }

// overdue decides which bills were not paid in time, and returns those whose cancel is still to be asked for: of this decision, of one
// before a crash, and again of those that were asked for a while ago without a cancelled event since.
func (b *books) overdue(ctx context.Context) ([]debt, error) {
	// Rows that a payment or an event is about to change are left for the next time.
	_, err := b.pool.Exec(ctx, `
UPDATE bookkeeper.bills SET state = 'overdue' WHERE state = 'unpaid' AND order_id IN
  (SELECT order_id FROM bookkeeper.bills WHERE state = 'unpaid' AND due <= now() ORDER BY due LIMIT 100 FOR UPDATE SKIP LOCKED)`)
	if err != nil {
		return nil, err
	}
	rows, err := b.pool.Query(ctx, `
SELECT order_id, product FROM bookkeeper.bills WHERE state = 'overdue' AND (asked_at IS NULL OR asked_at < now() - interval '30 seconds')
ORDER BY due LIMIT 100`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[debt])
}

// asked notes that the cancel is on its way. Crashed before: it is asked for again, which changes nothing.
func (b *books) asked(ctx context.Context, order string) error {
	_, err := b.pool.Exec(ctx, `UPDATE bookkeeper.bills SET asked_at = now() WHERE order_id = $1 AND state = 'overdue'`, order)
	return err
}
