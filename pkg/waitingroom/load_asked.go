package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// LoadAsked tells whether the caller is to send the command load_stock: the stock is not known and nobody was told so within
// the last second, over all schedulers (F11). ErrNotReady without settings. Safe to repeat: a lost yes is asked for again a second later.
func (r *Room) LoadAsked(ctx context.Context, p product.ID) (ask bool, err error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.loadAsked, p, []string{k.Settings, k.Clock, k.Stock})
	if err != nil {
		return false, fmt.Errorf("ask for load: %w", err)
	}
	if answer.Text(0) == "absent" {
		return false, fmt.Errorf("ask for load: product %s: %w", p, ErrNotReady)
	}
	return answer.Text(0) == "ask", nil
}
