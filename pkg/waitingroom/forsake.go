package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Forsaken is what Forsake found.
type Forsaken string

// With ForsakeDone the void may be sent. With the others it must wait.
const (
	ForsakeDone   Forsaken = "forsaken" // the slot takes the order for judged from now on
	ForsakeAbsent Forsaken = "absent"   // the slot is not open, so nothing can be closed there; ask again when it was restored
	ForsakeBound  Forsaken = "bound"    // a sweeper sends it
	ForsakeInLine Forsaken = "in_line"  // its user stands in the line, perhaps at this order's place
)

// Forsake closes an order id that nobody can account for, unless somebody can after all (O7). Call it before the void is sent: a user
// whose place a rollback or an old ticket brought back would otherwise wait with a place that can buy nothing. Safe to repeat.
func (r *Room) Forsake(ctx context.Context, p product.ID, user product.UserHash, id order.ID) (Forsaken, error) {
	k := r.keys.Product(p)
	keys := []string{k.Settings, k.Clock, k.Waiting, k.Away, k.Active, k.Judged, k.Intents}
	answer, err := r.run(ctx, r.scripts.forsake, p, keys, string(user), string(id))
	if err != nil {
		return "", fmt.Errorf("forsake order %s: %w", id, err)
	}
	return Forsaken(answer.Text(0)), nil
}
