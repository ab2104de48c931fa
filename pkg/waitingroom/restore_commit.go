package waitingroom

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"hanjul/pkg/product"
)

// RestoreCommit opens a slot without settings (L2): also the first opening of a new product, with inc 1. No token is there at first, and
// ghost passes (see Ghost) count against the capacity for one pass life. ErrNotHolder: the nonce does not hold the restore;
// begin again with a new inc. ErrOpen: somebody else opened it. Safe to repeat: the same nonce's inc answers nil again.
func (r *Room) RestoreCommit(ctx context.Context, p product.ID, nonce string, s LineSettings, inc int, front product.Place, ghost int) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("restore product %s: %w", p, err)
	}
	k := r.keys.Product(p)
	args := append([]any{nonce, strconv.Itoa(inc), front.String(), strconv.Itoa(ghost)}, s.args()...)
	answer, err := r.run(ctx, r.scripts.restoreCommit, p, []string{k.Settings, k.Restoring, k.Clock, k.Changes}, args...)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return held(p, "restore", answer)
}

// Ghost is how many passes may be out there that a restored slot does not know of (F14): those last persisted, what may have
// been admitted since, at most the capacity. Age is the ledger's now − front_at; pass none (known false) when front_at is NULL.
func Ghost(s product.Settings, activeN int, age time.Duration, known bool) int {
	if !known {
		return 0
	}
	n := float64(activeN) + float64(s.Burst) + s.Rate*max(0, age.Seconds())
	return int(min(float64(s.Capacity), n))
}
