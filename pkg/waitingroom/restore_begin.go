package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// RestoreBegin claims the restore of a slot without settings for 5 seconds under a nonce that is new for each attempt (L1). Then the
// caller raises the ledger's line_inc, renews with RestoreRenew while it loads, and ends with RestoreCommit. ErrOpen: the slot
// has settings. ErrNotHolder: another nonce holds it; look again later. Safe to repeat with the same nonce.
func (r *Room) RestoreBegin(ctx context.Context, p product.ID, nonce string) error {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.restoreBegin, p, []string{k.Settings, k.Restoring}, nonce)
	if err != nil {
		return fmt.Errorf("begin restore: %w", err)
	}
	return held(p, "begin restore", answer)
}

// held translates the answers of the nonce scheme.
func held(p product.ID, operation string, answer redisconn.Answer) error {
	switch code := answer.Text(0); code {
	case "ok":
		return nil
	case "open":
		return fmt.Errorf("%s: product %s: %w", operation, p, ErrOpen)
	case "held":
		return fmt.Errorf("%s: product %s: %w", operation, p, ErrNotHolder)
	case "absent":
		return fmt.Errorf("%s: product %s: %w", operation, p, ErrNotReady)
	default:
		return broken(p, fmt.Errorf("%s: unknown code %q", operation, code))
	}
}
