package admit

import (
	"context"
	"fmt"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// upkeep is what a look at a line's state found to do that needs more than Redis.
type upkeep struct {
	absent    bool // the slot holds no settings
	restore   bool // and nobody else is at it
	advance   bool
	loadStock bool
	bans      bool      // the books have changes of the bans that the line lacks
	bansV     int64     // those up to this number it has
	at        time.Time // of the look, by the clock of Redis
}

// upkeep compares the slot with the books, each second and whenever something changed: settings of a higher version are
// copied (F19), and what the slot lacks is noted for the caller.
func (n *line) upkeep(ctx context.Context) (upkeep, error) {
	row := n.row.Load()
	facts, err := n.loop.Room.Line(ctx, n.id)
	if err != nil {
		return upkeep{}, err
	}
	at := time.UnixMilli(facts.NowMS)
	free := !facts.Restoring || n.nonce != "" // nobody is at it, or we are
	if !facts.Present {
		return upkeep{absent: true, restore: free, at: at}, nil
	}
	n.seen.Store(&seen{Front: facts.Front, Active: int(facts.Active), Waiting: n.waiting, At: at})
	if facts.SettingsV < row.SettingsV {
		applied, err := n.loop.Room.SettingsPut(ctx, n.id, lineSettings(row))
		if err != nil {
			return upkeep{}, err
		}
		n.loop.metrics.put(applied)
	}
	return upkeep{
		// A slot behind the books' incarnation lost the restore or the advance that took it, or its holder died before the end.
		advance:   free && (facts.Moved || facts.PlacesLow || facts.Inc < row.LineInc),
		loadStock: !facts.StockKnown,
		bans:      facts.BansV < row.BansV,
		bansV:     facts.BansV,
		at:        at,
	}, nil
}

func lineSettings(row *ledger.ProductRow) waitingroom.LineSettings {
	return waitingroom.LineSettings{Settings: row.Settings, V: row.SettingsV, OpenedUS: row.OpenedUS, PassEpoch: row.PassEpoch}
}

// Room is what the loop asks of the line; waitingroom.Room is it.
type Room interface {
	Line(ctx context.Context, p product.ID) (waitingroom.Line, error)
	SettingsPut(ctx context.Context, p product.ID, s waitingroom.LineSettings) (applied bool, err error)
	RestoreBegin(ctx context.Context, p product.ID, nonce string) error
	RestoreRenew(ctx context.Context, p product.ID, nonce string) error
	RestoreCommit(ctx context.Context, p product.ID, nonce string, s waitingroom.LineSettings, inc int, front product.Place, ghost int) error
	AdvanceBegin(ctx context.Context, p product.ID, nonce string) error
	Advance(ctx context.Context, p product.ID, nonce string, inc int, front product.Place) error
	RestoreBans(ctx context.Context, p product.ID, nonce string, bans []waitingroom.Ban, above, upTo int64) error
	Evict(ctx context.Context, p product.ID, bans []waitingroom.Ban, above, upTo int64) (evicted int, err error)
	LoadAsked(ctx context.Context, p product.ID) (ask bool, err error)
	PutCatalogue(ctx context.Context, ids []product.ID) error
}

// Admitter runs the admit script, and knows whether people can be heard; waitingroom.Admitter is it.
type Admitter interface {
	Listen(ctx context.Context) error
	AdmitShare(ctx context.Context, p product.ID, limit int, share float64) (waitingroom.AdmitResult, error)
}

// errAt names the product in an error of several steps.
func errAt(step string, p product.ID, err error) error {
	return fmt.Errorf("%s %s: %w", step, p, err)
}
