package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Acked notes that Kafka acknowledged a copy of the order's command: its next attention is 60 seconds off, after each further
// acknowledgement twice as far, at most 10 minutes. An order that was judged meanwhile is left alone. Without it, after an
// unknown send, the attention that bind or Due set (5 seconds) stands. Safe to repeat: a repeat doubles once more.
func (r *Room) Acked(ctx context.Context, p product.ID, id order.ID) error {
	k := r.keys.Product(p)
	if _, err := r.run(ctx, r.scripts.acked, p, []string{k.Ordering}, string(id)); err != nil {
		return fmt.Errorf("acked order %s: %w", id, err)
	}
	return nil
}
