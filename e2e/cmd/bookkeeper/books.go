package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed books.sql
var schema string

const (
	confirmed = "hanjul.order.confirmed"
	rejected  = "hanjul.order.rejected"
	cancelled = "hanjul.order.cancelled"
	adjusted  = "hanjul.stock.adjusted"
)

// books are the bookkeeper's tables. Safe for concurrent use, by several processes too: the product's row is the lock.
type books struct {
	pool      *pgxpool.Pool
	log       *slog.Logger
	payWithin time.Duration // 0: nothing is billed
}

// prepare makes the tables where they are not there. Safe to repeat and to run beside another.
func (b *books) prepare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		// Two CREATE ... IF NOT EXISTS at once can both find nothing.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bookkeeper', 0))`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		return err
	})
}

// enter takes events of one product, in the order they were read, in one transaction: what they change and how far the product is now.
// Crashed before the commit: nothing happened, and they are read again. Crashed after it: they are read again and found entered. An
// errStop changes nothing; any other error may pass, and the same call is right again.
func (b *books) enter(ctx context.Context, product string, events []event) error {
	var gaps []gap
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO bookkeeper.products (product) VALUES ($1) ON CONFLICT DO NOTHING`, product); err != nil {
			return err
		}
		p := &page{tx: tx, product: product, payWithin: b.payWithin}
		// Whoever else reads this product, after a rebalance say, waits here and then sees what we entered.
		row := tx.QueryRow(ctx, `SELECT seq, total, sold FROM bookkeeper.products WHERE product = $1 FOR UPDATE`, product)
		if err := row.Scan(&p.seq, &p.total, &p.sold); err != nil {
			return err
		}
		for _, e := range events {
			if err := p.take(ctx, e); err != nil {
				return fmt.Errorf("event %s, seq %d of %s: %w", e.id, e.Seq, product, err)
			}
		}
		gaps = p.gaps
		_, err := tx.Exec(ctx, `UPDATE bookkeeper.products SET seq = $2, total = $3, sold = $4 WHERE product = $1`, product, p.seq, p.total, p.sold)
		return err
	})
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains("22 23 42", refusal.Code[:2]) {
		return fmt.Errorf("%w: %w", errStop, err) // data, constraint, statement: what waiting does not mend
	}
	if err != nil {
		return err
	}
	for _, g := range gaps { // told after the commit: what was rolled back is met again
		b.tell(g)
	}
	return nil
}

// page is one product's books within a transaction.
type page struct {
	tx        pgx.Tx
	product   string
	payWithin time.Duration

	seq, total, sold int64
	gaps             []gap
}

// take decides what an event is: known, next, or too early.
func (p *page) take(ctx context.Context, e event) error {
	known, err := p.known(ctx, e)
	switch {
	case err != nil:
		return err
	case known: // a repeat: the relay's, a replay's, or our own second reading
		return nil
	case e.Seq <= p.seq: // a repeat whose id was deleted long ago
		return nil
	case e.Seq > p.seq+1:
		return p.wait(ctx, e)
	}
	if err := p.apply(ctx, e); err != nil {
		return err
	}
	return p.follow(ctx)
}

// known dedupes by the event's id. An id that comes back under another number, or a number under another id, is no repeat but a
// mistake at the source.
func (p *page) known(ctx context.Context, e event) (bool, error) {
	rows, err := p.tx.Query(ctx, `SELECT event_id, product, seq FROM bookkeeper.entered WHERE event_id = $1 OR (product = $2 AND seq = $3)`, e.id, p.product, e.Seq)
	if err != nil {
		return false, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		ID, Product string
		Seq         int64
	}])
	if err != nil {
		return false, err
	}
	for _, f := range found {
		if f.ID != e.id || f.Product != p.product || f.Seq != e.Seq {
			return false, fmt.Errorf("event %s is seq %d of %s already: %w", f.ID, f.Seq, f.Product, errStop)
		}
	}
	return len(found) > 0, nil
}

// apply enters the product's next event.
func (p *page) apply(ctx context.Context, e event) error {
	if _, err := p.tx.Exec(ctx, `INSERT INTO bookkeeper.entered (event_id, product, seq) VALUES ($1, $2, $3)`, e.id, p.product, e.Seq); err != nil {
		return err
	}
	var err error
	switch e.Type {
	case confirmed:
		p.sold += units(e)
		err = p.judge(ctx, e, "confirmed")
	case rejected:
		err = p.judge(ctx, e, "rejected")
	case cancelled:
		err = p.cancel(ctx, e)
	case adjusted:
		p.total += e.Delta
	default: // A type of a later release changes nothing here, but its number counts.
	}
	if err == nil && p.payWithin > 0 {
		err = p.owe(ctx, e)
	}
	if err != nil {
		return err
	}
	if p.seq = e.Seq; p.total-p.sold != e.LeftAfter {
		return fmt.Errorf("%d units of %d are sold here, but %d are left there: %w", p.sold, p.total, e.LeftAfter, errStop)
	}
	return nil
}

func units(e event) int64 {
	if e.Quantity == nil {
		return 0
	}
	return *e.Quantity
}

func (p *page) judge(ctx context.Context, e event, state string) error {
	_, err := p.tx.Exec(ctx, `INSERT INTO bookkeeper.orders (order_id, product, state, reason, quantity) VALUES ($1, $2, $3, nullif($4, ''), $5)`,
		e.OrderID, p.product, state, e.Reason, e.Quantity)
	return err
}

// cancel gives back what a confirmed order held. A cancel that overtook its order finds none, and none will come.
func (p *page) cancel(ctx context.Context, e event) error {
	var held int64
	err := p.tx.QueryRow(ctx, `
UPDATE bookkeeper.orders SET state = 'cancelled', reason = nullif($2, '') WHERE order_id = $1 AND state = 'confirmed'
RETURNING quantity`, e.OrderID, e.Reason).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		return p.judge(ctx, e, "cancelled")
	}
	p.sold -= held
	return err
}
