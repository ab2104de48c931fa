package relay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
)

// markWithin bounds the marking of a pass that was asked to stop; with Grace it must fit into the time to stop.
const markWithin = 2 * time.Second

// pass claims what waits, publishes it and marks what was acknowledged. It returns how many rows it marked. An error means that
// the ownership is gone, or in doubt.
func (r *Relay) pass(ctx context.Context, owner *outbox.Owner, polled bool) (int, error) {
	rows, err := owner.Claim(ctx, r.config.Batch, r.holds.lanes(time.Now()))
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if polled {
		r.metrics.polled.Add(float64(len(rows)))
	}
	r.metrics.batch.Observe(float64(len(rows)))
	if err := r.step("claimed"); err != nil {
		return 0, err
	}

	records := make([]kafka.Record, len(rows))
	for i, row := range rows {
		records[i] = record(row)
	}
	results := r.producer.Produce(ctx, records)
	acked := time.Now()
	published := r.sort(ctx, rows, results, acked)
	if err := r.step("produced"); err != nil {
		return 0, err
	}

	// Also when ctx ended meanwhile: what is acknowledged and not marked is published twice.
	marking, cancel := context.WithTimeout(context.WithoutCancel(ctx), markWithin)
	defer cancel()
	n, err := owner.Mark(marking, published)
	if err != nil {
		return n, err
	}
	for _, row := range published {
		r.metrics.published.WithLabelValues(kind(row)).Inc()
		if row.IsEvent() {
			r.metrics.latency.Observe(max(0, acked.Sub(row.CreatedAt).Seconds()))
		}
	}
	return n, r.step("marked")
}

func (r *Relay) step(name string) error {
	if err := r.config.Hook(name); err != nil {
		return fmt.Errorf("%w after %s: %w", errCrash, name, err)
	}
	return nil
}

// sort returns the rows that count as published: of each lane those before its first that was not acknowledged. A lane with
// such a row is held for a while, and only it.
func (r *Relay) sort(ctx context.Context, rows []outbox.Row, results []kafka.Result, now time.Time) []outbox.Row {
	published := make([]outbox.Row, 0, len(rows))
	failed := make(map[outbox.Lane]bool)
	for i, row := range rows {
		lane, result := row.Lane(), results[i]
		switch {
		case failed[lane]:
		case result.Outcome == kafka.Accepted:
			published = append(published, row)
			r.holds.release(lane)
		default:
			failed[lane] = true
			r.holds.hold(lane, result.Outcome == kafka.Refused, now)
			r.report(ctx, row, result)
		}
	}
	stuck := r.holds.stuck()
	r.metrics.stuck.Set(float64(stuck))
	if stuck == 0 {
		r.repeats.Over(ctx, "outbox row refused")
	}
	if len(failed) == 0 {
		r.repeats.Over(ctx, "outbox row not acknowledged")
	}
	return published
}

// report says that a row failed. One that Kafka refuses will be refused again: its lane stands until somebody acts.
func (r *Relay) report(ctx context.Context, row outbox.Row, result kafka.Result) {
	r.metrics.failed.WithLabelValues(result.Outcome.String()).Inc()
	attrs := []slog.Attr{
		slog.String("product_id", string(row.Product)), slog.String("topic", row.Topic), slog.String("row", row.ID),
		slog.Int64("seq", row.Seq), slog.Int("bytes", len(row.Payload)), slog.Any("err", result.Err),
	}
	if result.Outcome == kafka.Refused {
		r.repeats.Error(ctx, "outbox row refused", attrs...)
		return
	}
	r.repeats.Warn(ctx, "outbox row not acknowledged", attrs...)
}

func kind(row outbox.Row) string {
	if row.IsEvent() {
		return "event"
	}
	return "other"
}
