package orderstatus

import (
	"fmt"
	"strconv"
	"strings"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Wanted is an order whose status somebody asked for and Redis does not know. Only ask for ids that the caller's own ticket,
// pass or key computes to.
type Wanted struct {
	Product    product.ID
	User       product.UserHash
	OrderID    order.ID
	DeadlineMS int64 // after it (and a grace) an order without a row is voided; 0: look-up only, never voided
}

// encode is the member product|userhash|order_id|deadline_ms.
func (w Wanted) encode() string {
	return string(w.Product) + "|" + string(w.User) + "|" + string(w.OrderID) + "|" + strconv.FormatInt(w.DeadlineMS, 10)
}

func decodeWanted(member string) (Wanted, error) {
	parts := strings.Split(member, "|")
	if len(parts) != 4 {
		return Wanted{}, fmt.Errorf("wanted: expected product|userhash|order_id|deadline_ms: %w", product.ErrInvalid)
	}
	p, err := product.ParseID(parts[0])
	if err != nil {
		return Wanted{}, fmt.Errorf("wanted: %w", err)
	}
	user, err := product.ParseUserHash(parts[1])
	if err != nil {
		return Wanted{}, fmt.Errorf("wanted: %w", err)
	}
	id, err := order.ParseID(parts[2])
	if err != nil {
		return Wanted{}, fmt.Errorf("wanted: %w", err)
	}
	deadline, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || deadline < 0 {
		return Wanted{}, fmt.Errorf("wanted: deadline_ms: expected milliseconds since 1970: %w", product.ErrInvalid)
	}
	return Wanted{p, user, id, deadline}, nil
}
