// Package outbox reads the table of what must still be published and notes what was. It owns the SQL of claiming, marking,
// listing and measuring outbox rows, of the table's partitions, and of replays, with the operator's action that each begins with. It
// never inserts a row (the ledger does, in the transaction that decides what the row tells) and deletes only whole partitions
// of old, published ones. It knows no Kafka: the relay of order-consumer stands between.
//
// Products are spread over shards. One process at a time owns a shard, by an advisory lock on a connection of its own, which holds
// all its shards; the processes share them out evenly. It marks on that same connection, so one who
// was replaced, its session gone, marks nothing.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

var (
	// ErrShards says that another process works with another number of shards: stand by and ask again.
	ErrShards = errors.New("the outbox is shared by another number of shards")
	// ErrLost says that a row had been marked by another owner, or that the session does not hold its locks: step down.
	ErrLost = errors.New("the outbox was taken over")
	// ErrElsewhere says that POSTGRES_DIRECT_URL and POSTGRES_URL do not lead to the same tables.
	ErrElsewhere = errors.New("POSTGRES_DIRECT_URL and POSTGRES_URL lead to different places")
)

// Row is what one row tells. A row with Seq 0 is no event: a command or a dead letter.
type Row struct {
	ID            string // a UUID, derived: the event's id
	CreatedAt     time.Time
	N             int64
	Topic         string
	Product       product.ID
	Seq           int64
	AggregateType string
	AggregateID   string
	Type          string
	Payload       []byte
	Traceparent   string
}

// IsEvent says whether the row is one of the product's numbered facts.
func (r Row) IsEvent() bool { return r.Seq > 0 }

// Lane names the rows that must leave one after the other: a product's events, or what else of a product goes to one
// topic. A row that cannot be published holds up its lane and no other.
type Lane struct {
	Product product.ID
	Topic   string
	Events  bool
}

// Lane is where the row stands in order.
func (r Row) Lane() Lane { return Lane{Product: r.Product, Topic: r.Topic, Events: r.IsEvent()} }

// Backlog is what is not published.
type Backlog struct {
	Rows   int64     // counted up to backlogMax
	Oldest time.Time // zero without rows; of those counted
}

// waiting counts per product what is not published: of runs and of other rows at most $1 each are read.
const waiting = `
SELECT product_id, sum(to_seq - from_seq + 1) AS rows, min(created_at) AS oldest
FROM (SELECT * FROM outbox_runs LIMIT $1) r GROUP BY 1
UNION ALL
SELECT product_id, count(*), min(created_at)
FROM (SELECT product_id, created_at FROM outbox WHERE published_at IS NULL AND seq IS NULL LIMIT $1) o GROUP BY 1`

// backlogMax bounds the work of measuring: beyond it nobody needs the exact number.
const backlogMax = 200_000

// Outbox opens owners and looks after the table. Safe for concurrent use.
type Outbox struct {
	pool    *postgres.Pool
	address postgres.Address
}

// Open makes a value for the database of the address; it does not connect. Owners and replays go to the server itself, since their locks live
// in a session: where the address has one way only, and that leads through a pooler, they fail with postgres.ErrPooled.
func Open(ctx context.Context, a postgres.Address) (*Outbox, error) {
	// For measuring and for partitions only; an owner has a connection of its own.
	pool, err := postgres.Open(ctx, a, postgres.Config{Name: "hanjul-outbox", MaxConns: 2})
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	return &Outbox{pool: pool, address: a}, nil
}

// Close ends the connections of this value; an owner has its own Close.
func (o *Outbox) Close() { o.pool.Close() }

// Backlog measures what is not published.
func (o *Outbox) Backlog(ctx context.Context) (Backlog, error) {
	const query = `SELECT least(coalesce(sum(rows), 0), $1)::bigint, min(oldest) FROM (` + waiting + `) w`
	var rows int64
	var oldest *time.Time
	if err := o.pool.QueryRow(ctx, query, backlogMax).Scan(&rows, &oldest); err != nil {
		return Backlog{}, fmt.Errorf("measure outbox: %w", err)
	}
	backlog := Backlog{Rows: rows}
	if oldest != nil {
		backlog.Oldest = *oldest
	}
	return backlog, nil
}
