package waitingroom

import (
	"fmt"
	"strconv"
	"strings"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// record is one value of the hash who: state|place|order_id|t. Scripts write it, the auditor reads it.
type record struct {
	State   State
	Place   product.Place
	OrderID order.ID // "" unless ordering or ordered
	AtMS    int64    // since when, milliseconds since 1970
}

func decodeWho(text string) (record, error) {
	parts := strings.Split(text, "|")
	if len(parts) != 4 {
		return record{}, fmt.Errorf("who: expected state|place|order_id|t: %w", product.ErrInvalid)
	}
	r := record{State: State(parts[0]), OrderID: order.ID(parts[2])}
	switch r.State {
	case Active, Ordering, Ordered, Left, Lapsed, Evicted, Called:
	default:
		return record{}, fmt.Errorf("who: unknown state: %w", product.ErrInvalid)
	}
	place, err := product.ParsePlace(parts[1])
	if err != nil {
		return record{}, fmt.Errorf("who: %w", err)
	}
	if r.OrderID != "" {
		if _, err := order.ParseID(parts[2]); err != nil {
			return record{}, fmt.Errorf("who: %w", err)
		}
	}
	at, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || at < 0 {
		return record{}, fmt.Errorf("who: t: expected milliseconds since 1970: %w", product.ErrInvalid)
	}
	r.Place, r.AtMS = place, at
	return r, nil
}

func (r record) encode() string {
	return string(r.State) + "|" + r.Place.String() + "|" + string(r.OrderID) + "|" + strconv.FormatInt(r.AtMS, 10)
}
