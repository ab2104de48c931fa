package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// Leave gives up one place (U9): a user waiting, away or holding an unused pass at exactly this place has left. A user who
// stands at another place, or whose place has ended or was ordered with, is left alone; the Standing tells which it was.
// ErrNotReady without settings. Safe to repeat.
func (r *Room) Leave(ctx context.Context, p product.ID, u product.UserHash, place product.Place) (Standing, error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.leave, p, []string{
		k.Settings, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Stock, k.Tally, k.Slots, k.Changes,
	}, string(u), place.String(), r.keys.GateHints(), string(p))
	if err != nil {
		return Standing{}, fmt.Errorf("leave: %w", err)
	}
	return person(p, "leave", answer)
}
