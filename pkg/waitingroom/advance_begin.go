package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// AdvanceBegin claims, as RestoreBegin does, a slot that kept its data and needs a new incarnation (L3, F42). ErrNotReady: it has
// none, restore it instead. ErrNotHolder: another nonce holds it. Safe to repeat with the same nonce.
func (r *Room) AdvanceBegin(ctx context.Context, p product.ID, nonce string) error {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.advanceBegin, p, []string{k.Settings, k.Restoring}, nonce)
	if err != nil {
		return fmt.Errorf("begin advance: %w", err)
	}
	return held(p, "begin advance", answer)
}
