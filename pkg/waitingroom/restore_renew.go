package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// RestoreRenew keeps a claim of RestoreBegin or AdvanceBegin for 5 seconds more. ErrNotHolder: its time ran out or another
// nonce holds it; begin again. Safe to repeat.
func (r *Room) RestoreRenew(ctx context.Context, p product.ID, nonce string) error {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.restoreRenew, p, []string{k.Restoring}, nonce)
	if err != nil {
		return fmt.Errorf("renew restore: %w", err)
	}
	return held(p, "renew restore", answer)
}
