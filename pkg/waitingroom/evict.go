package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/product"
)

// EvictMax is the most bans that one call of Evict or RestoreBans takes.
const EvictMax = 200

// Ban is one change of who may not be in a line, as the ledger has it.
type Ban struct {
	User    product.UserHash
	UntilMS int64 // milliseconds since 1970; in the past: the ban was lifted, or is over
	V       int64 // the ledger's number of the change, above 0; changes of lower numbers are older
}

// Evict copies bans into an open line and puts their people out of it (U10), whatever place they have at that moment: who waits, is away or holds
// an unused pass is evicted, who left or lapsed is too. An order stays, and is judged. bans are all changes above a number, that of Line.BansV, and up
// to another in the order of theirs, at most EvictMax. It returns how many people gave up a place. ErrNotReady without settings; ErrBehind where the
// line went back meanwhile and lacks earlier changes: begin from its number again. Safe to repeat and to come late: what the line has already, and
// what was superseded, changes nothing.
func (r *Room) Evict(ctx context.Context, p product.ID, bans []Ban, above, upTo int64) (evicted int, err error) {
	return r.evict(ctx, p, "", bans, above, upTo)
}

// RestoreBans is Evict for a slot that is being restored under the nonce, before RestoreCommit opens it (F32); it also keeps the claim for 5
// seconds more. The first slice is above 0. ErrNotHolder: the nonce does not hold the restore; begin again. Safe to repeat.
func (r *Room) RestoreBans(ctx context.Context, p product.ID, nonce string, bans []Ban, above, upTo int64) error {
	_, err := r.evict(ctx, p, nonce, bans, above, upTo)
	return err
}

func (r *Room) evict(ctx context.Context, p product.ID, nonce string, bans []Ban, above, upTo int64) (int, error) {
	k := r.keys.Product(p)
	args := []any{nonce, strconv.FormatInt(above, 10), strconv.FormatInt(upTo, 10), r.keys.GateHints(), string(p)}
	for _, b := range bans {
		args = append(args, string(b.User), strconv.FormatInt(max(0, b.UntilMS), 10), strconv.FormatInt(b.V, 10))
	}
	answer, err := r.run(ctx, r.scripts.evict, p, []string{
		k.Settings, k.Restoring, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Tally, k.Bans, k.Slots, k.Changes,
	}, args...)
	if err != nil {
		return 0, fmt.Errorf("evict: %w", err)
	}
	if answer.Text(0) == "behind" {
		return 0, fmt.Errorf("evict: product %s: %w", p, ErrBehind)
	}
	if err := held(p, "evict", answer); err != nil {
		return 0, err
	}
	evicted := int(answer.Int(1))
	if err := answer.Err(); err != nil {
		return 0, broken(p, fmt.Errorf("evict: %w", err))
	}
	return evicted, nil
}
