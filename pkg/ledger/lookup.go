package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// OrdersByID reads the rows of those ids; ids without a row are missing from the answer.
func (l *Ledger) OrdersByID(ctx context.Context, ids []order.ID) (map[order.ID]OrderRow, error) {
	const op = "read orders"
	found := make(map[order.ID]OrderRow, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := l.pool.Query(ctx, `SELECT `+orderColumns+` FROM orders WHERE order_id = ANY ($1::text[]::uuid[])`, texts(ids))
	if err != nil {
		return nil, classify(op, err)
	}
	all, err := pgx.CollectRows(rows, scanOrder)
	if err != nil {
		return nil, classify(op, err)
	}
	for _, row := range all {
		found[row.OrderID] = row
	}
	return found, nil
}

// OrdersJudgedSince reads one page of all products' orders whose last change is behind the cursor, oldest first. Begin with
// Cursor{At: since}; go on with the last row's Cursor until a page is shorter than limit. Rows that commit late, with an earlier time,
// may be missed by a cursor that has passed them: choose since with a margin (10 min).
func (l *Ledger) OrdersJudgedSince(ctx context.Context, after Cursor, limit int) ([]OrderRow, error) {
	const op = "read orders judged since"
	id := after.ID
	if id == "" {
		id = "00000000-0000-0000-0000-000000000000"
	}
	rows, err := l.pool.Query(ctx, `
SELECT `+orderColumns+` FROM orders WHERE (judged_at, order_id) > ($1, $2::text::uuid) ORDER BY orders.judged_at, orders.order_id LIMIT $3`,
		after.At, string(id), limit)
	if err != nil {
		return nil, classify(op, err)
	}
	page, err := pgx.CollectRows(rows, scanOrder)
	return page, classify(op, err)
}

// Parked says which of the orders are or were dead letters: pending until an operator redrives or drops them and the judge has met that,
// never to be voided.
func (l *Ledger) Parked(ctx context.Context, ids []order.ID) (map[order.ID]bool, error) {
	const op = "read parked orders"
	rows, err := l.pool.Query(ctx,
		`SELECT order_id::text FROM dead_letters WHERE order_id = ANY ($1::text[]::uuid[])`, texts(ids))
	if err != nil {
		return nil, classify(op, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[order.ID])
	if err != nil {
		return nil, classify(op, err)
	}
	parked := make(map[order.ID]bool, len(all))
	for _, id := range all {
		parked[id] = true
	}
	return parked, nil
}

// Command reads a judged command by id; false while it was not judged.
func (l *Ledger) Command(ctx context.Context, id string) (CommandRow, bool, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+commandColumns+` FROM commands WHERE command_id = $1`, id)
	if err != nil {
		return CommandRow{}, false, classify("read command", err)
	}
	all, err := pgx.CollectRows(rows, scanCommand)
	if err != nil || len(all) == 0 {
		return CommandRow{}, false, classify("read command", err)
	}
	return all[0], true, nil
}

// StockOf reads a product's stock, or ErrUnknownProduct.
func (l *Ledger) StockOf(ctx context.Context, p product.ID) (Stock, error) {
	rows, err := l.pool.Query(ctx, `SELECT total, sold, seq FROM stock WHERE product_id = $1`, string(p))
	stock, err := one(rows, err, pgx.RowToStructByPos[Stock], ErrUnknownProduct)
	return stock, classify("read stock of "+string(p), err)
}

// Progress is the next offset per partition of the topic that the ledger has judged up to. A consumer starts from the lower of this
// and Kafka's (F34).
func (l *Ledger) Progress(ctx context.Context, topic string) (map[int]int64, error) {
	rows, err := l.pool.Query(ctx, selectProgress, topic)
	next, err := collectProgress(rows, err)
	return next, classify("read progress of "+topic, err)
}

const selectProgress = `SELECT partition, next_offset FROM consumer_progress WHERE topic = $1`

func collectProgress(rows pgx.Rows, err error) (map[int]int64, error) {
	if err != nil {
		return nil, err
	}
	next := map[int]int64{}
	var partition int
	var offset int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &offset}, func() error {
		next[partition] = offset
		return nil
	})
	return next, err
}
