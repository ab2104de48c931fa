package outbox

import (
	"context"
	"fmt"
)

// mark needs no claim on the rows: it runs in the session that holds the owner's lock, and ends with it. The token stays with the rows,
// to tell who published them. The span of times keeps it to the partitions concerned. The odd way of asking for unpublished rows keeps
// it off the index of those: a planner that believes there are few would read the whole backlog each time.
const mark = `
UPDATE outbox SET claim = $1, published_at = now()
WHERE id = ANY ($2::uuid[]) AND created_at BETWEEN $3 AND $4 AND coalesce(published_at, 'infinity') = 'infinity'`

// Mark notes that the rows, which this owner claimed, are published: call it after Kafka acknowledged them. It returns how
// many it marked; fewer than asked gives ErrLost, since somebody else has marked the rest. A repeat marks nothing.
func (w *Owner) Mark(ctx context.Context, rows []Row) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	found := make([]picked, len(rows))
	for i, row := range rows {
		found[i].Row = row
	}
	ids, from, to := span(found)
	tag, err := w.conn.Exec(ctx, mark, w.token, ids, from, to)
	if err != nil {
		return 0, fmt.Errorf("mark outbox rows: %w", err)
	}
	n := int(tag.RowsAffected())
	if n < len(rows) {
		return n, fmt.Errorf("mark outbox rows: %d of %d: %w", n, len(rows), ErrLost)
	}
	return n, nil
}
