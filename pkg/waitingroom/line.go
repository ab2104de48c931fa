package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// Line is what the scheduler watches and persists each second (L3, L4).
type Line struct {
	Present    bool // false: no settings, so restore; Restoring tells whether somebody is at it, the rest is 0
	Restoring  bool
	Inc        int
	Front      product.Place
	Active     int64 // unexpired passes
	SettingsV  int64
	RunID      string // of the server that answered, with the history that it replicates; another one means that something may be lost
	Moved      bool   // the slot was last opened or advanced under another one: advance it
	PlacesLow  bool   // this incarnation's places are used up to 90 %: advance it (F42)
	StockKnown bool
	NowMS      int64
	BansV      int64 // the ledger's number of the last change of the bans that the line has (Evict)
}

// Line reads them at one instant. It changes nothing.
func (r *Room) Line(ctx context.Context, p product.ID) (Line, error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.line, p, []string{k.Settings, k.Restoring, k.Clock, k.Active, k.Stock})
	if err != nil {
		return Line{}, fmt.Errorf("line: %w", err)
	}
	l := Line{
		Present: answer.Int(0) == 1, Restoring: answer.Int(1) == 1, Inc: int(answer.Int(2)), Front: product.Place(answer.Int(3)),
		Active: answer.Int(4), SettingsV: answer.Int(5), RunID: answer.Text(6), Moved: answer.Int(7) == 1,
		PlacesLow: answer.Int(8) == 1, StockKnown: answer.Int(9) == 1, NowMS: answer.Int(10),
		BansV: answer.Int(11),
	}
	if err := answer.Err(); err != nil {
		return Line{}, broken(p, fmt.Errorf("line: %w", err))
	}
	return l, nil
}
