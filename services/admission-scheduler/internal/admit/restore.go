package admit

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/waitingroom"
)

// The steps of a restore, as a Fault is told them.
const (
	StepBegin  = "begin"
	StepInc    = "next_inc"
	StepRenew  = "renew"
	StepBans   = "bans"
	StepCommit = "commit"
)

// restoreWithin bounds one restore. It is shorter than the life of a claim (5 s), so that a slow one ends before another begins.
const restoreWithin = 4 * time.Second

// restore opens a slot that holds no settings (L1, L2), also that of a new product, or, for an advance, gives one that kept
// its data a new incarnation (L3). Each step may be done twice, late, or by another scheduler instead:
//
//  1. begin: claim the slot under a nonce. Crash behind it: the claim ends by itself after 5 s. Twice: the same claim. Somebody
//     else's claim or an open slot: nothing is to be done here.
//  2. next_inc: the ledger raises the incarnation and gives the row with settings, front and active count. Crash behind it, or an
//     answer that never came: a number is burnt, the next attempt takes a higher one.
//  3. renew: the claim must still be ours, after however long the ledger took.
//  4. bans: copy those that run, in slices, each of which keeps the claim. Crash behind it: nobody reads them in a closed slot, and the next
//     attempt writes them again. Late, under another's claim: refused. What is written down meanwhile comes by the next upkeep.
//  5. commit: open the slot, only under the claim and only if it is still closed. Late: refused, because the claim is another's or
//     gone. Twice: the same answer. No answer: the next look finds the slot open, or closed and begins again.
//
// Then load_stock, which the next look finds missing (F11), and the consumers' reconcile of orders judged since the loss, which finds
// the new incarnation in the ledger.
func (n *line) restore(ctx context.Context, advance bool, at time.Time) error {
	looked, kind := time.Now(), "restore"
	if advance {
		kind = "advance"
	}
	select {
	case n.loop.restores <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.loop.restores }()
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	row, err := n.restoreSteps(ctx, advance, func(row ledger.ProductRow) time.Duration {
		return at.Add(time.Since(looked)).Sub(row.FrontAt)
	})
	switch {
	case errors.Is(err, waitingroom.ErrNotHolder), errors.Is(err, waitingroom.ErrOpen), errors.Is(err, waitingroom.ErrNotReady):
		// Another scheduler does it or did it, or the data went while we advanced; the next look sees.
		n.nonce = ""
		n.loop.metrics.restores.WithLabelValues(kind, "lost").Inc()
		return nil
	case err != nil:
		n.loop.metrics.restores.WithLabelValues(kind, "error").Inc()
		return errAt(kind, n.id, err)
	}
	n.loop.metrics.restores.WithLabelValues(kind, "done").Inc()
	n.update(row)
	if row.FrontAt.IsZero() {
		// A loss a moment after the first admissions must count them, so it is written down at once that until now there were none.
		if err := n.loop.Ledger.PersistLine(ctx, n.id, row.Front, 0, at); err != nil {
			n.loop.complain(ctx, "opening not written", err, slog.String("product_id", string(n.id))) // the next round writes it
		}
	}
	n.loop.logger.LogAttrs(ctx, slog.LevelInfo, "line opened in redis", slog.String("product_id", string(n.id)), slog.String("kind", kind),
		slog.Int("inc", row.LineInc), slog.Int64("settings_v", row.SettingsV))
	return nil
}

// restoreSteps are the numbered steps; age says how long ago the row's front and active count were read.
func (n *line) restoreSteps(ctx context.Context, advance bool, age func(ledger.ProductRow) time.Duration) (ledger.ProductRow, error) {
	room, fault := n.loop.Room, n.loop.Fault
	// Settings that Redis would refuse must not burn an incarnation each time.
	if err := n.row.Load().Settings.Validate(); err != nil {
		return ledger.ProductRow{}, err
	}
	// The nonce is kept while nothing was committed under it, so that a ledger that is away does not make us wait for our own
	// claim; a commit that was once sent may still arrive, so nothing is ever claimed again under its nonce.
	if n.nonce == "" {
		n.nonce = n.loop.Nonce()
	}
	nonce, begin := n.nonce, room.RestoreBegin
	if advance {
		begin = room.AdvanceBegin
	}

	// 1
	if err := begin(ctx, n.id, nonce); err != nil {
		return ledger.ProductRow{}, err
	}
	if err := fault(StepBegin); err != nil {
		return ledger.ProductRow{}, err
	}

	// 2
	row, err := n.loop.Ledger.NextInc(ctx, n.id)
	if err != nil {
		return ledger.ProductRow{}, err
	}
	if err := fault(StepInc); err != nil {
		return ledger.ProductRow{}, err
	}

	// 3
	if err := room.RestoreRenew(ctx, n.id, nonce); err != nil {
		return ledger.ProductRow{}, err
	}
	if err := fault(StepRenew); err != nil {
		return ledger.ProductRow{}, err
	}

	// 4. A line that is advanced has its own, or those of a moment ago, with their number.
	if !advance && row.BansV > 0 {
		if err := n.restoreBans(ctx, nonce); err != nil {
			return ledger.ProductRow{}, err
		}
	}
	if err := fault(StepBans); err != nil {
		return ledger.ProductRow{}, err
	}

	// 5
	n.nonce = ""
	if advance {
		err = room.Advance(ctx, n.id, nonce, row.LineInc, row.Front)
	} else {
		ghost := waitingroom.Ghost(row.Settings, row.ActiveN, age(row), !row.FrontAt.IsZero())
		err = room.RestoreCommit(ctx, n.id, nonce, lineSettings(&row), row.LineInc, row.Front, ghost)
	}
	if err != nil {
		return ledger.ProductRow{}, err
	}
	return row, fault(StepCommit)
}

func randomNonce() string { return rand.Text() }
