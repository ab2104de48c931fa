package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// Products lists the catalogue: every product that was ever made, in no order. ErrNoCatalogue: the catalogue is not there.
func (r *Room) Products(ctx context.Context) ([]product.ID, error) {
	members, err := r.rdb.SMembers(ctx, r.keys.Catalogue()).Result()
	if err != nil {
		return nil, fmt.Errorf("list the catalogue: %w", err)
	}
	whole := false
	products := make([]product.ID, 0, len(members))
	for _, member := range members {
		if member == sentinel {
			whole = true
			continue
		}
		products = append(products, product.ID(member))
	}
	if !whole {
		return nil, fmt.Errorf("list the catalogue: %w", ErrNoCatalogue)
	}
	return products, nil
}
