package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// Follow listens for lines that may move, over one connection, until ctx ends or the connection fails, and returns why. It calls hint
// with the product of each: a slot became free while the capacity held people up, somebody joined an empty line, or units came back;
// and begun whenever it has just begun to listen: what happened before was not hinted at. Hints may be lost and come twice. Both are
// called one at a time and must not block.
func (r *Room) Follow(ctx context.Context, begun func(), hint func(p product.ID)) error {
	err := redisconn.Listen(ctx, r.rdb, r.keys.GateHints(), begun, func(payload string) {
		if p, err := product.ParseID(payload); err == nil {
			hint(p)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("follow hints: %w", err)
}
