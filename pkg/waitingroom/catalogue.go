package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// sentinel is the member that says the set is whole. No product id can hold a "*".
const sentinel = "*"

// PutCatalogue writes all product ids and the sentinel in one command. Ids are never removed, as products are not. Safe to
// repeat; it is also how the catalogue comes back after a loss.
func (r *Room) PutCatalogue(ctx context.Context, ids []product.ID) error {
	members := make([]any, 0, len(ids)+1)
	members = append(members, sentinel)
	for _, id := range ids {
		members = append(members, string(id))
	}
	if err := r.rdb.SAdd(ctx, r.keys.Catalogue(), members...).Err(); err != nil {
		return fmt.Errorf("put catalogue: %w", err)
	}
	return nil
}

// InCatalogue tells whether a product of this id was ever made. ErrNoCatalogue: the catalogue is not there, so nobody knows.
func (r *Room) InCatalogue(ctx context.Context, p product.ID) (known bool, err error) {
	found, err := r.rdb.SMIsMember(ctx, r.keys.Catalogue(), sentinel, string(p)).Result()
	if err != nil {
		return false, fmt.Errorf("look up product %s in the catalogue: %w", p, err)
	}
	if len(found) != 2 || !found[0] {
		return false, fmt.Errorf("look up product %s: %w", p, ErrNoCatalogue)
	}
	return found[1], nil
}
