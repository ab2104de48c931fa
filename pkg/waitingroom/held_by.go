package waitingroom

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// HeldBy tells the units that each of the orders holds in the product's slot; orders without an intent are missing from the answer. At
// most 1,000 orders are asked for at once. It changes nothing.
func (r *Room) HeldBy(ctx context.Context, p product.ID, ids []order.ID) (map[order.ID]int64, error) {
	held := map[order.ID]int64{}
	for from := 0; from < len(ids); from += 1000 {
		some := ids[from:min(from+1000, len(ids))]
		fields := make([]string, len(some))
		for i, id := range some {
			fields[i] = string(id)
		}
		intents, err := r.rdb.HMGet(ctx, r.keys.Product(p).Intents, fields...).Result()
		if err != nil {
			return nil, fmt.Errorf("read intents: product %s: %w", p, err)
		}
		for i, intent := range intents {
			text, found := intent.(string)
			if !found {
				continue
			}
			quantity, _, _ := strings.Cut(text, "|")
			if held[some[i]], err = strconv.ParseInt(quantity, 10, 64); err != nil {
				return nil, broken(p, fmt.Errorf("intent of order %s: %w", some[i], err))
			}
		}
	}
	return held, nil
}
