package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

// pick walks from product to product along the runs of unpublished events, and along the index of what else is unpublished, and takes the
// head of each lane. It starts after the product $1, leaves out the products of $2 (their events) and the product/topic pairs of $3 (what
// else they have), and takes at most $4 rows of events and $4 others per product, $5 in all, of products in the shards $6 of $7. Of a product's
// runs it reads no more than hold so many events. rank says whether a lane was cut anywhere but at its end, or an event is missing.
const pick = `
WITH RECURSIVE run AS (
  (SELECT product_id FROM outbox_runs WHERE product_id > $1 ORDER BY product_id LIMIT 1)
  UNION ALL
  SELECT (SELECT r.product_id FROM outbox_runs r WHERE r.product_id > run.product_id ORDER BY r.product_id LIMIT 1)
  FROM run WHERE run.product_id IS NOT NULL
), other AS (
  (SELECT product_id FROM outbox WHERE published_at IS NULL AND seq IS NULL AND product_id > $1 ORDER BY product_id, n LIMIT 1)
  UNION ALL
  SELECT (SELECT o.product_id FROM outbox o WHERE o.published_at IS NULL AND o.seq IS NULL AND o.product_id > other.product_id
          ORDER BY o.product_id, o.n LIMIT 1)
  FROM other WHERE other.product_id IS NOT NULL
)
SELECT r.id::text, r.created_at, r.n, r.topic, r.product_id, coalesce(r.seq, 0), r.aggregatetype, r.aggregateid, r.type,
       r.payload, coalesce(r.traceparent, ''), r.rank
FROM (
  SELECT l.* FROM other AS lane CROSS JOIN LATERAL (
    SELECT c.*, row_number() OVER (ORDER BY c.n) AS rank FROM outbox c
    WHERE c.product_id = lane.product_id AND c.published_at IS NULL AND c.seq IS NULL
      AND NOT (c.product_id || '/' || c.topic = ANY ($3::text[]))
    ORDER BY c.n LIMIT $4) l
  WHERE lane.product_id IS NOT NULL AND ` + shardOfLane + ` = ANY ($6::int[])
  UNION ALL
  SELECT l.* FROM run AS lane CROSS JOIN LATERAL (
    SELECT e.*, e.seq - h.first + 1 AS rank
    FROM (SELECT h.from_seq, h.to_seq, h.created_at, min(h.from_seq) OVER () AS first, sum(h.to_seq - h.from_seq + 1) OVER (ORDER BY h.from_seq) - (h.to_seq - h.from_seq + 1) AS before
          FROM (SELECT * FROM outbox_runs WHERE product_id = lane.product_id ORDER BY from_seq LIMIT $4) h) h
    CROSS JOIN LATERAL (SELECT * FROM outbox o WHERE o.product_id = lane.product_id AND o.created_at = h.created_at
                        AND o.seq BETWEEN h.from_seq AND h.to_seq) e
    WHERE h.before < $4
    ORDER BY e.seq LIMIT $4) l
  WHERE lane.product_id IS NOT NULL AND NOT (lane.product_id = ANY ($2::text[])) AND ` + shardOfLane + ` = ANY ($6::int[])
) r
LIMIT $5`

type picked struct {
	Row
	rank int64
}

// Claim takes unpublished rows of the owner's shards, less those in except, at most limit, and returns them in the order in which
// they must leave: by product, a product's events by seq, the rest by n. Lanes in hold are left out. Nothing is
// written: the shard's lock is the claim, and what was claimed before and not marked is returned again. Successive claims go round the products; none at all means that nothing waits outside hold.
func (w *Owner) Claim(ctx context.Context, limit int, hold []Lane, except ...int) ([]Row, error) {
	shards := slices.DeleteFunc(w.Held(), func(shard int) bool { return slices.Contains(except, shard) })
	if len(shards) == 0 {
		return nil, nil
	}
	found, err := w.pick(ctx, limit, hold, shards)
	if err == nil && len(found) == 0 && w.after != "" {
		w.after = ""
		found, err = w.pick(ctx, limit, hold, shards)
	}
	if err != nil {
		return nil, fmt.Errorf("claim outbox rows: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	w.after = found[len(found)-1].Product
	return heads(found), nil
}

func (w *Owner) pick(ctx context.Context, limit int, hold []Lane, shards []int) ([]picked, error) {
	events, others := []string{}, []string{}
	for _, lane := range hold {
		if lane.Events {
			events = append(events, string(lane.Product))
		} else {
			others = append(others, string(lane.Product)+"/"+lane.Topic)
		}
	}
	rows, err := w.conn.Query(ctx, pick, string(w.after), events, others, limit, limit, shards, w.shards)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (picked, error) {
		var p picked
		var id string
		err := row.Scan(&p.ID, &p.CreatedAt, &p.N, &p.Topic, &id, &p.Seq, &p.AggregateType, &p.AggregateID, &p.Type,
			&p.Payload, &p.Traceparent, &p.rank)
		p.Product = product.ID(id)
		return p, err
	})
}

// heads sorts what was picked and keeps of each product's events, and of its other rows, the unbroken beginning: a statement
// promises no order for what LIMIT cuts, and a row must never leave without those before it.
func heads(found []picked) []Row {
	slices.SortFunc(found, func(a, b picked) int { return compare(a.Row, b.Row) })
	rows := make([]Row, 0, len(found))
	type run struct {
		product product.ID
		events  bool
	}
	next := make(map[run]int64)
	for _, p := range found {
		r := run{p.Product, p.IsEvent()}
		if p.rank != next[r]+1 {
			continue
		}
		next[r]++
		rows = append(rows, p.Row)
	}
	return rows
}

// compare orders rows as they must leave.
func compare(a, b Row) int {
	switch {
	case a.Product != b.Product:
		if a.Product < b.Product {
			return -1
		}
		return 1
	case a.IsEvent() != b.IsEvent():
		if b.IsEvent() {
			return -1
		}
		return 1
	case a.Seq != b.Seq:
		return int(a.Seq - b.Seq)
	}
	return int(a.N - b.N)
}
