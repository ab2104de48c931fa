package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// View tells a product's public state. ErrNotReady without settings. It changes nothing.
func (r *Room) View(ctx context.Context, p product.ID) (ProductView, error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.view, p, []string{k.Settings, k.Clock, k.Waiting, k.Away, k.Active, k.Intents, k.Stock, k.Tally})
	if err != nil {
		return ProductView{}, fmt.Errorf("view: %w", err)
	}
	if answer.Text(0) == "absent" {
		return ProductView{}, fmt.Errorf("view: product %s: %w", p, ErrNotReady)
	}
	v := view(answer.List(1))
	if err := answer.Err(); err != nil {
		return ProductView{}, broken(p, fmt.Errorf("view: %w", err))
	}
	return v, nil
}
