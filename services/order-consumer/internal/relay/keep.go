package relay

import (
	"context"
	"log/slog"
	"time"
)

const (
	measureEvery = 5 * time.Second
	// partitionsEvery is far below the days that are kept ready, and short enough that a call which found the table busy is made
	// good soon.
	partitionsEvery = 10 * time.Minute
	partitionsAgain = 30 * time.Second
)

// keep makes partitions ahead, drops old ones, and measures the backlog, in every process: also where the owner is dead somebody must tell. It
// returns when ctx ends.
func (r *Relay) keep(ctx context.Context) {
	var partitions time.Time // when to look again
	for ctx.Err() == nil {
		if now := time.Now(); !now.Before(partitions) {
			partitions = now.Add(partitionsEvery)
			made, dropped := r.makePartitions(ctx, now), r.dropPartitions(ctx, now)
			if !made || !dropped {
				partitions = now.Add(partitionsAgain)
			}
		}
		r.measure(ctx)
		r.pause(ctx, measureEvery)
	}
}

// makePartitions says whether all days are there. Rows of a day without one go to the default partition and lose nothing.
func (r *Relay) makePartitions(ctx context.Context, now time.Time) bool {
	const complaint = "outbox partitions not made"
	made, err := r.box.MakePartitions(ctx, now, r.config.Days)
	if made > 0 {
		r.logger.InfoContext(ctx, "outbox partitions made", slog.Int("made", made))
	}
	if err != nil {
		if ctx.Err() == nil {
			r.repeats.Warn(ctx, complaint, slog.Any("err", err))
		}
		return false
	}
	r.repeats.Over(ctx, complaint)
	return true
}

// dropPartitions says whether what is over its time is gone, or must stay.
func (r *Relay) dropPartitions(ctx context.Context, now time.Time) bool {
	const complaint, kept = "outbox partitions not dropped", "outbox partition over its time is kept"
	result, err := r.box.DropPartitions(ctx, now.Add(-r.config.Retention))
	if len(result.Names) > 0 {
		r.metrics.dropped.Add(float64(len(result.Names)))
		r.logger.InfoContext(ctx, "outbox partitions dropped", slog.Any("partitions", result.Names))
	}
	r.metrics.overdue.Set(float64(len(result.Kept)))
	for name, why := range result.Kept {
		r.repeats.Warn(ctx, kept, slog.String("partition", name), slog.String("reason", why))
	}
	if len(result.Kept) == 0 {
		r.repeats.Over(ctx, kept)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.repeats.Warn(ctx, complaint, slog.Any("err", err))
		}
		return false
	}
	r.repeats.Over(ctx, complaint)
	return true
}

func (r *Relay) measure(ctx context.Context) {
	const complaint = "outbox not measured"
	backlog, err := r.box.Backlog(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.repeats.Warn(ctx, complaint, slog.Any("err", err))
		}
		return
	}
	r.repeats.Over(ctx, complaint)
	r.metrics.unpublished.Set(float64(backlog.Rows))
	age := 0.0
	if !backlog.Oldest.IsZero() {
		age = max(0, time.Since(backlog.Oldest).Seconds())
	}
	r.metrics.oldest.Set(age)
}
