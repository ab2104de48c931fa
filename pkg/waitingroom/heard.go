package waitingroom

import (
	"context"
	"fmt"

	"hanjul/pkg/product"
)

// HeardMax is how many people one call of the script takes.
const HeardMax = 500

// Heard notes that people of the line were heard, whose polls or streams were answered without Join or Status, which note it by
// themselves. Only places up to ProductView.Near count, and each once in a third of the product's absence_ms; telling others, or more
// often, costs and changes nothing. Users who are not in line are passed over. It returns who was away, and waits again at the old place.
// ErrNotReady without settings. After an error some may have been noted; safe to repeat, and to call late.
func (r *Room) Heard(ctx context.Context, p product.ID, users []product.UserHash) (back []product.UserHash, err error) {
	k := r.keys.Product(p)
	for len(users) > 0 {
		some := users[:min(len(users), HeardMax)]
		users = users[len(some):]
		args := make([]any, len(some))
		for i, u := range some {
			args[i] = string(u)
		}
		answer, err := r.run(ctx, r.scripts.heard, p, []string{
			k.Settings, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Seen, k.Tally, k.Changes,
		}, args...)
		if err != nil {
			return back, fmt.Errorf("heard: %w", err)
		}
		if answer.Text(0) == "absent" {
			return back, fmt.Errorf("heard: product %s: %w", p, ErrNotReady)
		}
		for i := 1; i < answer.Len(); i++ {
			back = append(back, product.UserHash(answer.Text(i)))
		}
		if err := answer.Err(); err != nil {
			return back, broken(p, fmt.Errorf("heard: %w", err))
		}
	}
	return back, nil
}
