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

// patience is how long a pass waits for its answers before it goes on with other lanes.
const patience = 100 * time.Millisecond

// batchesOnTheirWay bounds what partitions that do not answer may hold up, in batches.
const batchesOnTheirWay = 4

// pass claims what waits, outside the lanes that are held or on their way, hands it over, and notes what was answered meanwhile. It
// returns how many rows it claimed. An error means that the ownership is gone, or in doubt.
func (r *Relay) pass(ctx context.Context, owner *outbox.Owner, f *flight, polled bool) (int, error) {
	except := r.holds.lanes(time.Now())
	for lane := range f.lanes {
		except = append(except, lane)
	}
	rows, err := owner.Claim(ctx, r.config.Batch, except, r.leaving...)
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
	landed := f.collect(f.launch(rows), patience, batchesOnTheirWay*r.config.Batch)
	return len(rows), r.note(ctx, owner, landed)
}

// note marks what was acknowledged.
func (r *Relay) note(ctx context.Context, owner *outbox.Owner, landed []landing) error {
	if len(landed) == 0 {
		return nil
	}
	var published []outbox.Row
	for _, l := range landed {
		published = append(published, r.acknowledged(ctx, l)...)
	}
	stuck := r.holds.stuck()
	r.metrics.stuck.Set(float64(stuck))
	if stuck == 0 {
		r.repeats.Over(ctx, "outbox row refused")
	}
	if r.holds.none() {
		r.repeats.Over(ctx, "outbox row not acknowledged")
	}
	if err := r.step("produced"); err != nil {
		return err
	}
	// Also when ctx ended meanwhile: what is acknowledged and not marked is published twice.
	marking, cancel := context.WithTimeout(context.WithoutCancel(ctx), markWithin)
	defer cancel()
	if _, err := owner.Mark(marking, published); err != nil {
		return err
	}
	for _, l := range landed {
		for _, row := range l.rows[:l.good()] {
			r.metrics.published.WithLabelValues(kind(row)).Inc()
			if row.IsEvent() {
				r.metrics.latency.Observe(max(0, l.at.Sub(row.CreatedAt).Seconds()))
			}
		}
	}
	return r.step("marked")
}

func (r *Relay) step(name string) error {
	if err := r.config.Hook(name); err != nil {
		return fmt.Errorf("%w after %s: %w", errCrash, name, err)
	}
	return nil
}

// acknowledged returns the rows of a lane that count as published: those before its first that was not acknowledged. A lane with
// such a row is held for a while, and only it.
func (r *Relay) acknowledged(ctx context.Context, l landing) []outbox.Row {
	n := l.good()
	if n > 0 {
		r.holds.release(l.lane)
	}
	if n < len(l.rows) {
		r.holds.hold(l.lane, l.results[n].Outcome == kafka.Refused, time.Now())
		r.report(ctx, l.rows[n], l.results[n])
	}
	return l.rows[:n]
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
