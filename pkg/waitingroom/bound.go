package waitingroom

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Bound tells which of the orders have an intent in the product's slot, so that a sweeper still sends them. It changes
// nothing.
func (r *Room) Bound(ctx context.Context, p product.ID, ids []order.ID) (map[order.ID]bool, error) {
	key := r.keys.Product(p).Intents
	found := make([]*redis.BoolCmd, len(ids))
	if len(ids) > 0 {
		if _, err := r.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, id := range ids {
				found[i] = pipe.HExists(ctx, key, string(id))
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("look for intents: product %s: %w", p, err)
		}
	}
	bound := make(map[order.ID]bool, len(ids))
	for i, id := range ids {
		bound[id] = found[i].Val()
	}
	return bound, nil
}
