package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// Status tells where a user stands, and lapses their pass if its time is over (R1). A ticket that the slot has forgotten takes up
// its place again (U2) or is noted as called (U3), as in Join; nothing else changes. ErrNotReady without settings. Safe to repeat.
func (r *Room) Status(ctx context.Context, p product.ID, u product.UserHash, t *TicketClaim) (Standing, error) {
	k := r.keys.Product(p)
	place, orderID := claim(t)
	answer, err := r.run(ctx, r.scripts.status, p, []string{
		k.Settings, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Judged, k.Intents, k.Stock, k.Tally, k.Bans, k.Slots, k.Changes, k.Seen,
	}, string(u), place, orderID, r.keys.GateHints(), string(p))
	if err != nil {
		return Standing{}, fmt.Errorf("status: %w", err)
	}
	return person(p, "status", answer)
}
