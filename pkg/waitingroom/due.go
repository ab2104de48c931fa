package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// DueMax is the most intents that one call of Due hands out.
const DueMax = 100

// Intent is a bound order that nobody has judged yet.
type Intent struct {
	OrderID order.ID
	Command []byte // the stored bytes, to be sent as they are
}

// Due hands out intents that want attention, at most limit (1–DueMax), oldest first, and puts their next attention 5 seconds
// off, so that of several sweepers one sends each. The sweeper sends the bytes again and reports with Acked. Without settings
// there is nothing due. Safe to repeat: a lost answer delays its intents by 5 seconds.
func (r *Room) Due(ctx context.Context, p product.ID, limit int) ([]Intent, error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.due, p, []string{k.Settings, k.Intents, k.Ordering}, strconv.Itoa(min(max(limit, 1), DueMax)))
	if err != nil {
		return nil, fmt.Errorf("due intents: %w", err)
	}
	var intents []Intent
	for i := 0; i+1 < answer.Len(); i += 2 {
		intents = append(intents, Intent{order.ID(answer.Text(i)), []byte(answer.Text(i + 1))})
	}
	if err := answer.Err(); err != nil {
		return nil, broken(p, fmt.Errorf("due intents: %w", err))
	}
	return intents, nil
}
