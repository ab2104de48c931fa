package orderstatus

import (
	"context"
	"fmt"

	"hanjul/pkg/order"
	"hanjul/pkg/redisconn"
)

// Follow listens for statuses that are written, over one connection, until ctx ends or the connection fails, and returns why. It
// calls hint with the id of each, and begun whenever it has just begun to listen, also to another node: whatever was written before
// was not hinted at. Hints may be lost, come twice and come for orders of any user; the truth is in GetMany. Both are called one at a
// time and must not block.
func (s *Store) Follow(ctx context.Context, begun func(), hint func(id order.ID)) error {
	err := redisconn.Listen(ctx, s.rdb, s.keys.Hints(), begun, func(payload string) {
		if id, err := order.ParseID(payload); err == nil {
			hint(id)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("follow statuses: %w", err)
}
