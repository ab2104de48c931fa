package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// Listed is one row as operators see it.
type Listed struct {
	Product   product.ID `json:"product"`
	Seq       int64      `json:"seq"` // 0: no event
	ID        string     `json:"id"`
	Topic     string     `json:"topic"`
	Type      string     `json:"type"`
	Subject   string     `json:"subject"`
	CreatedAt time.Time  `json:"created_at"`
	Published bool       `json:"published"`
}

// List returns a product's rows, at most limit: events from fromSeq on by seq, then what is no event by its number. With waiting only those
// that are not published.
func (o *Outbox) List(ctx context.Context, p product.ID, fromSeq int64, waiting bool, limit int) ([]Listed, error) {
	rows, err := o.pool.Query(ctx, `
SELECT product_id, coalesce(seq, 0), id::text, topic, type, aggregateid, created_at,
  CASE WHEN seq IS NULL THEN published_at IS NOT NULL ELSE seq < first END
FROM outbox, (SELECT coalesce(min(from_seq), 9223372036854775807) AS first FROM outbox_runs WHERE product_id = $1) w
WHERE product_id = $1 AND (seq >= greatest($2, CASE WHEN $3 THEN first END) OR seq IS NULL AND (NOT $3 OR published_at IS NULL))
ORDER BY outbox.seq NULLS LAST, n LIMIT $4`, string(p), fromSeq, waiting, limit)
	if err == nil {
		var found []Listed
		if found, err = pgx.CollectRows(rows, scanListed); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("list outbox of %s: %w", p, err)
}

func scanListed(row pgx.CollectableRow) (Listed, error) {
	var l Listed
	var id string
	err := row.Scan(&id, &l.Seq, &l.ID, &l.Topic, &l.Type, &l.Subject, &l.CreatedAt, &l.Published)
	l.Product = product.ID(id)
	return l, err
}

// Stats is the state of the whole table.
type Stats struct {
	Unpublished int64       `json:"unpublished"` // counted up to 200000
	Oldest      *time.Time  `json:"oldest_unpublished"`
	Waiting     []Waiting   `json:"waiting"`    // the ten products with the most unpublished rows, of those counted
	Partitions  []Partition `json:"partitions"` // by name
	Relays      []Sharing   `json:"relays"`     // the sessions that share the outbox
	Replays     []Replay    `json:"replays"`    // that are neither done nor cancelled
}

// Waiting is one product's unpublished rows.
type Waiting struct {
	Product product.ID `json:"product"`
	Rows    int64      `json:"rows"`
	Oldest  time.Time  `json:"oldest"`
}

// Partition is one part of the table. Rows is the server's estimate.
type Partition struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// Sharing is one process's share.
type Sharing struct {
	Session int    `json:"session"`
	Address string `json:"address"`
	Shards  int    `json:"shards"`
}

// Stats measures everything.
func (o *Outbox) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	backlog, err := o.Backlog(ctx)
	if err != nil {
		return s, err
	}
	if s.Unpublished = backlog.Rows; !backlog.Oldest.IsZero() {
		s.Oldest = &backlog.Oldest
	}
	if s.Waiting, err = collect[Waiting](ctx, o, `
SELECT product_id, sum(rows)::bigint, min(oldest) FROM (`+waiting+`) w GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10`, backlogMax); err != nil {
		return s, err
	}
	if s.Partitions, err = collect[Partition](ctx, o, `
SELECT c.relname, greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox'::regclass ORDER BY 1`); err != nil {
		return s, err
	}
	if s.Relays, err = collect[Sharing](ctx, o, `
SELECT l.pid, coalesce(host(a.client_addr), 'local'), count(*) FILTER (WHERE l.classid = ($2::int # `+postgres.SchemaKey+`)::oid)
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid IN (($1::int # `+postgres.SchemaKey+`)::oid, ($2::int # `+postgres.SchemaKey+`)::oid) AND l.objsubid = 2 AND l.granted
GROUP BY 1, 2 ORDER BY 1`, presentLock, shardLock); err != nil {
		return s, err
	}
	s.Replays, err = o.Unfinished(ctx)
	return s, err
}

func collect[T any](ctx context.Context, o *Outbox, query string, args ...any) ([]T, error) {
	rows, err := o.pool.Query(ctx, query, args...)
	if err == nil {
		var found []T
		if found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T]); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("measure outbox: %w", err)
}
