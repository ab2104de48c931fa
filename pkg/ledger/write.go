package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// write puts a decision into the transaction: one statement per table, all of them in one round trip.
func (l *Ledger) write(ctx context.Context, tx pgx.Tx, b Batch, s books, d decision) error {
	w := &pgx.Batch{}
	queueInserts(w, d.inserts)
	queueCancels(w, d.cancels)
	queueMade(w, d.commands)
	if err := queueFacts(w, l.topics.Events, s.at, d.facts); err != nil {
		return err
	}
	if err := queueLetters(w, l.topics.DeadLetters, s.at, b, d); err != nil {
		return err
	}
	queueStock(w, d)
	w.Queue(`
INSERT INTO consumer_progress (topic, partition, next_offset, updated_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (topic, partition) DO UPDATE
SET next_offset = greatest(consumer_progress.next_offset, EXCLUDED.next_offset), updated_at = EXCLUDED.updated_at`,
		b.Topic, b.Partition, b.NextOffset, s.at)
	if err := tx.SendBatch(ctx, w).Close(); err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	return nil
}

func queueInserts(w *pgx.Batch, rows []OrderRow) {
	if len(rows) == 0 {
		return
	}
	n := len(rows)
	ids, products, users, hashes := make([]string, n), make([]string, n), make([]*string, n), make([]string, n)
	places, quantities := make([]*int64, n), make([]*int64, n)
	states, reasons, versions := make([]string, n), make([]*string, n), make([]int64, n)
	keys, digests, duplicates, seqs := make([]*string, n), make([]string, n), make([]*string, n), make([]int64, n)
	for i, r := range rows {
		ids[i], products[i], users[i], hashes[i] = string(r.OrderID), string(r.Product), text(r.UserID), string(r.User)
		places[i], quantities[i] = number(r.Place), number(r.Quantity)
		states[i], reasons[i], versions[i] = string(r.State), text(r.Reason), int64(r.Version)
		keys[i], digests[i], duplicates[i], seqs[i] = text(r.IdemKey), r.Digest, text(r.DuplicateOf), r.Seq
	}
	w.Queue(`
INSERT INTO orders (order_id, product_id, user_id, user_hash, place, quantity, status, reason, version, idem_key, digest, duplicate_of, seq, judged_at)
SELECT order_id::uuid, product_id, user_id, user_hash, place, quantity, status, reason, version, idem_key, digest, duplicate_of::uuid, seq, $14
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::bigint[],
            $10::text[], $11::text[], $12::text[], $13::bigint[])
  AS r(order_id, product_id, user_id, user_hash, place, quantity, status, reason, version, idem_key, digest, duplicate_of, seq)`,
		ids, products, users, hashes, places, quantities, states, reasons, versions, keys, digests, duplicates, seqs, rows[0].JudgedAt)
}

func queueCancels(w *pgx.Batch, rows []OrderRow) {
	if len(rows) == 0 {
		return
	}
	ids, reasons, seqs := make([]string, len(rows)), make([]string, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		ids[i], reasons[i], seqs[i] = string(r.OrderID), string(r.Reason), r.Seq
	}
	w.Queue(`
UPDATE orders o SET status = 'cancelled', reason = r.reason, version = 2, seq = r.seq, judged_at = $4
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS r(order_id, reason, seq)
WHERE o.order_id = r.order_id::uuid AND o.status = 'confirmed'`, ids, reasons, seqs, rows[0].JudgedAt).
		Exec(func(done pgconn.CommandTag) error {
			if done.RowsAffected() != int64(len(rows)) {
				return fmt.Errorf("cancelled %d of %d orders: the lock did not hold", done.RowsAffected(), len(rows))
			}
			return nil
		})
}

func queueMade(w *pgx.Batch, rows []CommandRow) {
	if len(rows) == 0 {
		return
	}
	n := len(rows)
	ids, products, kinds, results, seqs := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]*int64, n)
	for i, r := range rows {
		ids[i], products[i], kinds[i], results[i], seqs[i] = r.CommandID, string(r.Product), string(r.Kind), r.Result, number(r.Seq)
	}
	w.Queue(`
INSERT INTO commands (command_id, product_id, kind, result, seq, judged_at)
SELECT command_id, product_id, kind, result, seq, $6
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS r(command_id, product_id, kind, result, seq)`,
		ids, products, kinds, results, seqs, rows[0].JudgedAt)
}

func queueFacts(w *pgx.Batch, topic string, at time.Time, facts []fact) error {
	if len(facts) == 0 {
		return nil
	}
	n := len(facts)
	ids, products, types, payloads := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	kinds, subjects := make([]string, n), make([]string, n) // what the fact is about: the order, or else the product
	seqs, lefts, traces := make([]int64, n), make([]int64, n), make([]*string, n)
	for i, f := range facts {
		payload, err := f.event.Encode()
		if err != nil {
			return err
		}
		ids[i], products[i], types[i], payloads[i] = f.id, string(f.event.Product), string(f.event.Type), string(payload)
		seqs[i], lefts[i], traces[i] = f.event.Seq, f.event.LeftAfter, text(f.traceparent)
		kinds[i], subjects[i] = "product", products[i]
		if f.event.OrderID != nil {
			kinds[i], subjects[i] = "order", string(*f.event.OrderID)
		}
	}
	w.Queue(`
INSERT INTO outbox (id, created_at, topic, product_id, seq, aggregatetype, aggregateid, type, payload, traceparent, left_after)
SELECT id::uuid, $10, $11, product_id, seq, aggregatetype, aggregateid, type, payload, traceparent, left_after
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[])
  AS r(id, product_id, seq, aggregatetype, aggregateid, type, payload, traceparent, left_after)`,
		ids, products, seqs, kinds, subjects, types, payloads, traces, lefts, at, topic)
	queueRuns(w, at, facts)
	return nil
}

// queueRuns notes, per product, which events the transaction adds: they are what the relay finds, and what it crosses out.
func queueRuns(w *pgx.Batch, at time.Time, facts []fact) {
	first, last := map[product.ID]int64{}, map[product.ID]int64{}
	for _, f := range facts { // by product in the order of seq, without a gap
		if first[f.event.Product] == 0 {
			first[f.event.Product] = f.event.Seq
		}
		last[f.event.Product] = f.event.Seq
	}
	products := slices.Sorted(maps.Keys(first))
	froms, tos := make([]int64, len(products)), make([]int64, len(products))
	for i, p := range products {
		froms[i], tos[i] = first[p], last[p]
	}
	w.Queue(`
INSERT INTO outbox_runs (product_id, from_seq, to_seq, created_at)
SELECT product_id, from_seq, to_seq, $4 FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS r(product_id, from_seq, to_seq)`,
		texts(products), froms, tos, at)
}

// queueLetters keeps what could not be processed, and queues its copy for the topic of dead letters only where it is new: a repeat of
// the batch finds the letter by its record, and changes nothing. A letter that was redriven and failed again is parked again. Copies
// of letters that name no product leave under "?", which no product is called.
func queueLetters(w *pgx.Batch, topic string, at time.Time, b Batch, d decision) error {
	if len(d.letters) == 0 {
		return nil
	}
	n := len(d.letters)
	ids, offsets, recorded, payloads := make([]string, n), make([]int64, n), make([]time.Time, n), make([]string, n)
	products, orders, commands, reasons := make([]*string, n), make([]*string, n), make([]*string, n), make([]string, n)
	keys, raws := make([][]byte, n), make([][]byte, n)
	index := make(map[string]int, n)
	for i, l := range d.letters {
		in := b.Commands[l.index]
		recorded[i] = within(in.At)
		payload, err := order.DeadLetter{
			Reason: l.Reason, Topic: b.Topic, Partition: b.Partition, Offset: in.Offset, RecordedAt: recorded[i].UTC(),
			Product: l.Product, OrderID: l.OrderID, CommandID: l.CommandID, Key: in.Key, Payload: in.Raw,
		}.Encode()
		if err != nil {
			return err
		}
		ids[i], offsets[i], payloads[i] = order.DeadLetterID(b.Topic, b.Partition, in.Offset), in.Offset, string(payload)
		products[i], orders[i], commands[i], reasons[i] = text(l.Product), text(l.OrderID), text(l.CommandID), l.Reason
		keys[i], raws[i] = in.Key, in.Raw
		if raws[i] == nil {
			raws[i] = []byte{}
		}
		index[ids[i]] = l.index
	}
	w.Queue(`
UPDATE dead_letters SET state = 'parked', parked_at = $3
WHERE state = 'redriven' AND (order_id = ANY ($1::text[]::uuid[]) OR command_id = ANY ($2::text[]))`, orders, commands, at)
	w.Queue(`
WITH r AS (
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bytea[],
                       $9::timestamptz[], $10::text[])
    AS r(id, record, product_id, order_id, command_id, reason, record_key, payload, recorded_at, letter)
), parked AS (
  INSERT INTO dead_letters (topic, partition, "offset", product_id, order_id, command_id, reason, record_key, payload, recorded_at, parked_at)
  SELECT $11, $12, record, product_id, order_id::uuid, command_id, reason, record_key, payload, recorded_at, $13 FROM r
  ON CONFLICT DO NOTHING RETURNING "offset"
)
INSERT INTO outbox (id, created_at, topic, product_id, aggregatetype, aggregateid, type, payload)
SELECT r.id::uuid, $13, $14, coalesce(r.product_id, '?'), 'product', coalesce(r.product_id, '?'), $15, r.letter
FROM r JOIN parked ON parked."offset" = r.record
RETURNING id::text`,
		ids, offsets, products, orders, commands, reasons, keys, raws, recorded, payloads,
		b.Topic, b.Partition, at, topic, string(order.TypeDeadLetter)).
		Query(func(rows pgx.Rows) error {
			fresh, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			for _, id := range fresh {
				delete(index, id)
			}
			for _, i := range index {
				d.result.Verdicts[i].Outcome, d.result.Verdicts[i].Park = StillParked, ""
			}
			return nil
		})
	return nil
}

func queueStock(w *pgx.Batch, d decision) {
	if len(d.changed) == 0 {
		return
	}
	n := len(d.changed)
	totals, solds, seqs := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, p := range d.changed {
		s := d.shelves[p]
		totals[i], solds[i], seqs[i] = s.Total, s.Sold, s.Seq
	}
	w.Queue(`
UPDATE stock s SET total = r.total, sold = r.sold, seq = r.seq
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS r(product_id, total, sold, seq)
WHERE s.product_id = r.product_id`, texts(d.changed), totals, solds, seqs)
}

// within brings the timestamp that a stranger's producer wrote into the range of a timestamptz.
func within(t time.Time) time.Time {
	first, last := time.Unix(0, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

// text and number are NULL for what is not there.
func text[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	v := string(s)
	return &v
}

func number[T ~int | ~int64](n T) *int64 {
	if n == 0 {
		return nil
	}
	v := int64(n)
	return &v
}
