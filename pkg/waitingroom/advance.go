package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/product"
)

// Advance gives a line that kept its data a new incarnation (L3): places given out from now on are higher than any that a
// failover may have lost. The front never falls. It also notes the server's run and history, so that Line no longer says Moved.
// ErrNotHolder: the nonce does not hold it, begin again. ErrNotReady: the data are gone, restore. Safe to repeat.
func (r *Room) Advance(ctx context.Context, p product.ID, nonce string, inc int, front product.Place) error {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.advance, p, []string{k.Settings, k.Restoring, k.Clock, k.Changes}, nonce, strconv.Itoa(inc), front.String())
	if err != nil {
		return fmt.Errorf("advance: %w", err)
	}
	return held(p, "advance", answer)
}
