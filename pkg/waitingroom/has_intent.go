package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// HasIntent tells whether an order is bound and not judged as far as the slot knows. It changes nothing.
func (r *Room) HasIntent(ctx context.Context, p product.ID, id order.ID) (bool, error) {
	found, err := r.rdb.HExists(ctx, r.keys.Product(p).Intents, string(id)).Result()
	if err != nil {
		return false, fmt.Errorf("look for the intent of order %s: %w", id, err)
	}
	return found, nil
}
