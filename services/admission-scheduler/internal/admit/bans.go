package admit

import (
	"context"
	"errors"
	"log/slog"

	"hanjul/pkg/ledger"
	"hanjul/pkg/waitingroom"
)

// banSlices is how many slices of bans one upkeep copies; the next goes on where it ended.
const banSlices = 10

// bans copies what the line lacks of the bans, from the number that it has (U10, F32). The books have them first, so:
//
//   - Crash before or between slices: the line's number tells any scheduler's next upkeep where to go on.
//   - Twice, or by two schedulers: what the line has is passed over, by its number.
//   - Late, after the ban was lifted by a later number: passed over likewise.
//   - Redis went back to an earlier moment: its number went back too, so the changes come again; those read before are refused.
//
// It says whether more may follow.
func (n *line) bans(ctx context.Context, has int64) (more bool, err error) {
	for range banSlices {
		changes, upTo, err := n.loop.Ledger.Bans(ctx, n.id, has, false, waitingroom.EvictMax)
		if err != nil {
			return false, err
		}
		evicted, err := n.loop.Room.Evict(ctx, n.id, banned(changes), has, upTo)
		if errors.Is(err, waitingroom.ErrBehind) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		n.loop.metrics.evicted.Add(float64(evicted))
		n.loop.logger.LogAttrs(ctx, slog.LevelInfo, "bans copied to redis", slog.String("product_id", string(n.id)),
			slog.Int("changes", len(changes)), slog.Int("evicted", evicted), slog.Int64("up_to", upTo))
		if len(changes) < waitingroom.EvictMax {
			return false, nil
		}
		has = upTo
	}
	return true, nil
}

// restoreBans copies the bans that still run into a slot that is not open yet, so that nobody banned is let in by it. Each slice keeps the claim.
func (n *line) restoreBans(ctx context.Context, nonce string) error {
	for has := int64(0); ; {
		changes, upTo, err := n.loop.Ledger.Bans(ctx, n.id, has, true, waitingroom.EvictMax)
		if err != nil {
			return err
		}
		if err := n.loop.Room.RestoreBans(ctx, n.id, nonce, banned(changes), has, upTo); err != nil {
			return err
		}
		if len(changes) < waitingroom.EvictMax {
			return nil
		}
		has = upTo
	}
}

func banned(changes []ledger.Ban) []waitingroom.Ban {
	bans := make([]waitingroom.Ban, len(changes))
	for i, c := range changes {
		bans[i] = waitingroom.Ban{User: c.User, UntilMS: c.Until.UnixMilli(), V: c.V}
	}
	return bans
}
