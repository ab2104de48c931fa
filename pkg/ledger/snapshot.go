package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

// Snapshot is one moment of one product's books. It lives inside the function given to Ledger.Snapshot; one Each runs at a time.
type Snapshot struct {
	ctx     context.Context //nolint:containedctx // it is the transaction's, and ends with it
	tx      pgx.Tx
	product product.ID
}

// Snapshot calls fn with one REPEATABLE READ, read-only moment of the product's books, without the pool's limit on the length of a
// statement. It is not retried: fn may have been fed partly. fn's own error is returned as it is.
func (l *Ledger) Snapshot(ctx context.Context, p product.ID, fn func(*Snapshot) error) error {
	op := "snapshot of " + string(p)
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return classify(op, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing was written
	if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
		return classify(op, err)
	}
	// Before the moment is chosen: the rows of a partition that is dropped meanwhile are gone from every moment, its name only from later ones.
	if _, err := tx.Exec(ctx, `LOCK TABLE outbox IN ACCESS SHARE MODE`); err != nil {
		return classify(op, err)
	}
	return fn(&Snapshot{ctx: ctx, tx: tx, product: p})
}

// Product is the product's row with its stock, or ErrUnknownProduct.
func (s *Snapshot) Product() (ProductRow, error) {
	rows, err := s.tx.Query(s.ctx, selectProduct+`WHERE p.id = $1`, string(s.product))
	row, err := one(rows, err, scanProduct, ErrUnknownProduct)
	return row, classify("read product "+string(s.product), err)
}

// Kept says which of a product's outbox rows can still be there.
type Kept struct {
	Since time.Time   // when the product was made: none of its rows is older
	Days  []time.Time // the days, in UTC, that have a partition of the outbox, ascending; they are dropped whole when they are old
}

// Kept reads it.
func (s *Snapshot) Kept() (Kept, error) {
	var k Kept
	err := s.tx.QueryRow(s.ctx, `
SELECT created_at, ARRAY(SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'outbox'::regclass AND c.relname ~ '^outbox_[0-9]{8}$' ORDER BY 1)
FROM products WHERE id = $1`, string(s.product)).Scan(&k.Since, &k.Days)
	if errors.Is(err, pgx.ErrNoRows) {
		return k, ErrUnknownProduct
	}
	return k, classify("read what is kept of "+string(s.product), err)
}

// EachOrder gives every order of the product, by order id. An error of fn ends it and is returned; so with the others.
func (s *Snapshot) EachOrder(fn func(OrderRow) error) error {
	return each(s, `SELECT `+orderColumns+` FROM orders WHERE product_id = $1 ORDER BY orders.order_id`, scanOrder, fn)
}

// EachOutbox gives every outbox row of the product: events by seq, then the others by n.
func (s *Snapshot) EachOutbox(fn func(OutboxRow) error) error {
	return each(s, `SELECT `+outboxColumns+` FROM outbox WHERE product_id = $1 ORDER BY outbox.seq NULLS LAST, n`, scanOutbox, fn)
}

// EachCommand gives every judged command of the product, by id.
func (s *Snapshot) EachCommand(fn func(CommandRow) error) error {
	return each(s, `SELECT `+commandColumns+` FROM commands WHERE product_id = $1 ORDER BY command_id`, scanCommand, fn)
}

// EachLetter gives the dead letters of the product, and those that name no product, by partition and offset.
func (s *Snapshot) EachLetter(fn func(LetterRow) error) error {
	return each(s, `SELECT `+letterColumns+` FROM dead_letters WHERE product_id = $1 OR product_id IS NULL
ORDER BY topic, partition, "offset"`, scanLetter, fn)
}

// Progress is the judged next offset per partition of the topic, in the same moment.
func (s *Snapshot) Progress(topic string) (map[int]int64, error) {
	rows, err := s.tx.Query(s.ctx, selectProgress, topic)
	next, err := collectProgress(rows, err)
	return next, classify("read progress of "+topic, err)
}

func each[T any](s *Snapshot, sql string, scan pgx.RowToFunc[T], fn func(T) error) error {
	rows, err := s.tx.Query(s.ctx, sql, string(s.product))
	if err != nil {
		return classify("read books", err)
	}
	defer rows.Close()
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return fmt.Errorf("read books: %w", err)
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return classify("read books", rows.Err())
}
