package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

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

// IntentOf returns the intent of an order that is bound and not judged as far as the slot knows, or found false. It changes nothing.
func (r *Room) IntentOf(ctx context.Context, p product.ID, id order.ID) (intent Intent, found bool, err error) {
	text, err := r.rdb.HGet(ctx, r.keys.Product(p).Intents, string(id)).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return Intent{}, false, nil
	case err != nil:
		return Intent{}, false, fmt.Errorf("read the intent of order %s: %w", id, err)
	}
	parts := strings.SplitN(text, "|", 3)
	if len(parts) < 3 {
		return Intent{}, false, broken(p, fmt.Errorf("intent of order %s: expected quantity, digest and command", id))
	}
	return Intent{OrderID: id, Command: []byte(parts[2])}, true, nil
}
