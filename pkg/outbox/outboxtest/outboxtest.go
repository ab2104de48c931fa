// Package outboxtest gives tests a migrated database of their own and puts rows into its outbox, the way the ledger's
// transactions do. It is never linked into anything shipped.
package outboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Table is the outbox of a database that only this test uses.
type Table struct {
	URL  string
	Pool *pgxpool.Pool
	t    testing.TB
}

// New gives a fresh one.
func New(t testing.TB) *Table {
	t.Helper()
	return At(t, ledgertest.URL(t))
}

// At gives the outbox at a URL, which may name a schema by its search_path.
func At(t testing.TB, url string) *Table {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatalf("open database: %v", err)
	}
	t.Cleanup(pool.Close)
	return &Table{URL: url, Pool: pool, t: t}
}

// Row is what a test says of a row; the rest is derived from it.
type Row struct {
	Product product.ID
	Seq     int64 // 0: no event
	Topic   string
	Payload string
	ID      string    // derived where empty
	At      time.Time // now where zero
}

// Execer is a pool, a connection or a transaction.
type Execer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Insert puts rows in, in their order, and returns their ids.
func (x *Table) Insert(rows ...Row) []string { return x.InsertWith(x.Pool, rows...) }

// InsertWith puts rows in through a transaction of the test's.
func (x *Table) InsertWith(db Execer, rows ...Row) []string {
	x.t.Helper()
	var ids, topics, products, types, payloads []string
	var seqs []*int64
	var ats []*time.Time
	for i, row := range rows {
		id, kind := row.ID, "command"
		if row.Seq > 0 {
			kind = string(order.Confirmed)
			if id == "" {
				id = order.CommandEventID(string(row.Product) + "/" + time.Duration(row.Seq).String())
			}
			seqs = append(seqs, &rows[i].Seq)
		} else {
			if id == "" {
				id = order.OutboxCommandID(string(row.Product) + "/" + row.Payload)
			}
			seqs = append(seqs, nil)
		}
		if row.At.IsZero() {
			ats = append(ats, nil)
		} else {
			ats = append(ats, &rows[i].At)
		}
		ids, topics, products = append(ids, id), append(topics, row.Topic), append(products, string(row.Product))
		types, payloads = append(types, kind), append(payloads, row.Payload)
	}
	const insert = `
WITH made AS (
INSERT INTO outbox (id, created_at, topic, product_id, seq, aggregatetype, aggregateid, type, payload)
SELECT id, coalesce(at, now()), topic, product, seq, 'product', product, type, payload
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[])
     WITH ORDINALITY AS u (id, at, topic, product, seq, type, payload, i) ORDER BY i
RETURNING id, product_id, seq, created_at
), runs AS (
INSERT INTO outbox_runs (product_id, from_seq, to_seq, created_at) SELECT product_id, seq, seq, created_at FROM made WHERE seq IS NOT NULL
)
SELECT id::text FROM made`
	found, err := db.Query(x.t.Context(), insert, ids, ats, topics, products, seqs, types, payloads)
	if err == nil {
		_, err = pgx.CollectRows(found, pgx.RowTo[string])
	}
	if err != nil {
		x.t.Fatalf("insert outbox rows: %v", err)
	}
	return ids
}

// Publish notes a product's events up to a seq as published.
func (x *Table) Publish(p product.ID, upTo int64) {
	x.t.Helper()
	x.Exec(`DELETE FROM outbox_runs WHERE product_id = $1 AND to_seq <= $2`, string(p), upTo)
}

// Unpublished is how many rows still wait.
func (x *Table) Unpublished() int {
	x.t.Helper()
	return x.Count(`SELECT (SELECT coalesce(sum(to_seq - from_seq + 1), 0) FROM outbox_runs)
  + (SELECT count(*) FROM outbox WHERE published_at IS NULL AND seq IS NULL)`)
}

// Count runs a query that answers one number.
func (x *Table) Count(query string, args ...any) int {
	x.t.Helper()
	var n int
	if err := x.Pool.QueryRow(x.t.Context(), query, args...).Scan(&n); err != nil {
		x.t.Fatalf("count: %v", err)
	}
	return n
}

// Exec runs a statement.
func (x *Table) Exec(statement string, args ...any) {
	x.t.Helper()
	if _, err := x.Pool.Exec(x.t.Context(), statement, args...); err != nil {
		x.t.Fatalf("exec: %v", err)
	}
}
