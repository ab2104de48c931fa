package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Membership is where one user is found, at one instant. I6 holds when exactly one of the three sets and the record names a
// state, Active and a record of state active counting as one.
type Membership struct {
	Waiting, Away, Active product.Place // the place, 0 where the user is not in the set; Active takes it from the record
	Record                State         // of who: active, ordering, ordered, left, lapsed, evicted, called; None without one
	Place                 product.Place // of the record
	OrderID               order.ID      // of the record
	HasIntent             bool          // the record's order is among the intents
	Sets                  int           // in how many states the user is found: 0 or 1, anything else breaks I6
}

// Membership looks one user up in every set (2.7, step 6). It changes nothing.
func (r *Room) Membership(ctx context.Context, p product.ID, u product.UserHash) (Membership, error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.membership, p, []string{k.Waiting, k.Away, k.Active, k.Who, k.Intents}, string(u))
	if err != nil {
		return Membership{}, fmt.Errorf("membership of %s: %w", u, err)
	}
	waiting, away, active := answer.Int(0), answer.Int(1), answer.Int(2) == 1
	m := Membership{
		Waiting: product.Place(waiting), Away: product.Place(away), Record: None, HasIntent: answer.Int(4) == 1,
	}
	if text := answer.Text(3); text != "" {
		record, err := decodeWho(text)
		if err != nil {
			return Membership{}, broken(p, fmt.Errorf("record of %s: %w", u, err))
		}
		m.Record, m.Place, m.OrderID = record.State, record.Place, record.OrderID
	}
	if active {
		m.Active = m.Place
	}
	for _, found := range []bool{waiting > 0, away > 0, m.Record != None, active && m.Record != Active, m.Record == Active && !active} {
		if found {
			m.Sets++
		}
	}
	if err := answer.Err(); err != nil {
		return Membership{}, broken(p, fmt.Errorf("membership of %s: %w", u, err))
	}
	return m, nil
}
