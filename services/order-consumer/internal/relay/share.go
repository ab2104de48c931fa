package relay

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"hanjul/pkg/outbox"
)

// share keeps this process's shards at its fair share. One that it must give back is no longer claimed from, and goes when
// nothing of it is on its way: whoever takes it then begins behind what was marked. Once ctx ended nothing more is taken. An
// error means that the ownership is gone, or in doubt.
func (r *Relay) share(ctx, work context.Context, owner *outbox.Owner, f *flight) error {
	before := len(owner.Held())
	if now := time.Now(); ctx.Err() == nil && len(r.leaving) == 0 && !now.Before(r.balance) {
		r.balance = now.Add(r.jitter())
		surplus, err := owner.Balance(work)
		if err != nil {
			return err
		}
		r.leaving = surplus
	}
	busy := r.busy(f)
	for _, shard := range r.leaving {
		if busy[shard] {
			continue
		}
		if err := owner.GiveBack(work, shard); err != nil {
			return err
		}
		r.holds.forget(func(lane outbox.Lane) bool { return outbox.Shard(lane.Product, r.config.Shards) == shard })
	}
	r.leaving = slices.DeleteFunc(r.leaving, func(shard int) bool { return !busy[shard] })
	if held := owner.Held(); len(held) != before {
		r.metrics.shards.Set(float64(len(held)))
		r.logger.InfoContext(ctx, "outbox shared", slog.Int("shards", len(held)), slog.Int("of", r.config.Shards))
	}
	return nil
}

// busy are the shards with something on its way; nobody asks unless one is leaving.
func (r *Relay) busy(f *flight) map[int]bool {
	busy := make(map[int]bool)
	if len(r.leaving) > 0 {
		for lane := range f.lanes {
			busy[outbox.Shard(lane.Product, r.config.Shards)] = true
		}
	}
	return busy
}
