package orderstatus

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Get reads a status; found is false when Redis knows none, which says nothing about the order (see Want).
func (s *Store) Get(ctx context.Context, id order.ID) (status order.Status, found bool, err error) {
	fields, err := s.rdb.HGetAll(ctx, s.keys.Status(string(id))).Result()
	if err != nil {
		return order.Status{}, false, fmt.Errorf("get status of order %s: %w", id, err)
	}
	if len(fields) == 0 {
		return order.Status{}, false, nil
	}
	version, err := strconv.Atoi(fields["ver"])
	if err != nil {
		return order.Status{}, false, fmt.Errorf("get status of order %s: ver: expected a number, got %q", id, fields["ver"])
	}
	quantity, err := strconv.Atoi(fields["quantity"])
	if err != nil {
		return order.Status{}, false, fmt.Errorf("get status of order %s: quantity: expected a number, got %q", id, fields["quantity"])
	}
	return order.Status{
		Version: version, State: order.State(fields["state"]), Reason: order.Reason(fields["reason"]),
		Product: product.ID(fields["product"]), User: product.UserHash(fields["user"]),
		Quantity: quantity, Digest: fields["digest"],
	}, true, nil
}
