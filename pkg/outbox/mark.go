package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"hanjul/pkg/product"
)

// Neither statement needs a claim on the rows: both run in the session that holds the owner's lock, and end with it.

// markEvents crosses out the runs of each product of $1 up to the seq in $2, and says how many events that were.
const markEvents = `
WITH told AS (
  SELECT * FROM unnest($1::text[], $2::bigint[]) AS told(product_id, seq)
), whole AS (
  DELETE FROM outbox_runs r USING told WHERE r.product_id = told.product_id AND r.to_seq <= told.seq RETURNING r.to_seq - r.from_seq + 1 AS n
), begun AS (
  SELECT r.product_id, r.from_seq, told.seq FROM outbox_runs r JOIN told USING (product_id)
  WHERE r.from_seq <= told.seq AND r.to_seq > told.seq
), part AS (
  UPDATE outbox_runs r SET from_seq = begun.seq + 1 FROM begun
  WHERE r.product_id = begun.product_id AND r.from_seq = begun.from_seq RETURNING begun.seq - begun.from_seq + 1 AS n
)
SELECT coalesce((SELECT sum(n) FROM whole), 0)::bigint + coalesce((SELECT sum(n) FROM part), 0)::bigint`

// markOthers notes rows that are no events, one by one. The token stays with the rows, to tell who published them. The span of times
// keeps it to the partitions concerned. The odd way of asking for unpublished rows keeps it off the index of those: a planner that
// believes there are few would read the whole backlog each time.
const markOthers = `
UPDATE outbox SET claim = $1, published_at = now()
WHERE id = ANY ($2::uuid[]) AND created_at BETWEEN $3 AND $4 AND coalesce(published_at, 'infinity') = 'infinity'`

// Mark notes that the rows, which this owner claimed, are published: call it after Kafka acknowledged them. Of a product's events
// they must be the first that wait, without a gap. It returns how many it marked; another number than asked gives ErrLost, since somebody else
// has marked some of them. A repeat marks nothing.
func (w *Owner) Mark(ctx context.Context, rows []Row) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	var (
		last     = map[product.ID]int64{}
		others   []string
		from, to time.Time
	)
	for _, row := range rows {
		if row.IsEvent() {
			last[row.Product] = max(last[row.Product], row.Seq)
			continue
		}
		if others = append(others, row.ID); from.IsZero() || row.CreatedAt.Before(from) {
			from = row.CreatedAt
		}
		if row.CreatedAt.After(to) {
			to = row.CreatedAt
		}
	}
	n := 0
	statements := &pgx.Batch{}
	if len(last) > 0 {
		products, seqs := make([]string, 0, len(last)), make([]int64, 0, len(last))
		for p, seq := range last {
			products, seqs = append(products, string(p)), append(seqs, seq)
		}
		statements.Queue(markEvents, products, seqs).QueryRow(func(row pgx.Row) error {
			var events int
			err := row.Scan(&events)
			n += events
			return err
		})
	}
	if len(others) > 0 {
		statements.Queue(markOthers, w.token, others, from, to).Exec(func(tag pgconn.CommandTag) error {
			n += int(tag.RowsAffected())
			return nil
		})
	}
	if err := w.conn.SendBatch(ctx, statements).Close(); err != nil {
		return 0, fmt.Errorf("mark outbox rows: %w", err)
	}
	if n != len(rows) {
		return n, fmt.Errorf("mark outbox rows: %d of %d: %w", n, len(rows), ErrLost)
	}
	return n, nil
}
