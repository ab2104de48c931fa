package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/product"
)

// auditWalk bounds the intents that Audit adds up; it is the default of inflight_max.
const auditWalk = 10_000

// Books is one product's slot at one instant, for the auditor. Lives counts what began and what ended here since the slot
// began: Joined + Restored = Waiting + Away + Active + InFlight + the five Ended counts, always.
type Books struct {
	View       ProductView
	HeldSum    int64 // Σ quantity of the intents; −1 when there are more than 10,000 and they were not added up
	Orderings  int64 // entries of ordering: equals View.InFlight
	ActiveAll  int64 // entries of active, expired ones not yet lapsed included
	Judged     int64 // remembered judged orders
	Remembered int64 // remembered records of users who are not waiting
	Tally      Tally
	Graces     int64           // entries of awaytill: equals View.Away
	Admits     map[int64]int64 // admissions by second since 1970, the last 120 seconds in which there were any
}

// Tally counts moves since the slot began. Ordered to Called count lives that ended so and were not revived.
type Tally struct {
	Joined, Restored, Admitted, Bound      int64
	Ordered, Left, Lapsed, Evicted, Called int64
	// Moves to away, back from it by being heard, and those of Lapsed that ended there. Who is away may also leave or order.
	Away, Back, AwayLapsed int64
}

// Ended is the number of lives that ended.
func (t Tally) Ended() int64 { return t.Ordered + t.Left + t.Lapsed + t.Evicted + t.Called }

// Audit reads the books (2.7, step 5) in one script that changes nothing. It walks up to 10,000 intents, which holds the
// server up for some ten milliseconds. ErrNotReady without settings.
func (r *Room) Audit(ctx context.Context, p product.ID) (Books, error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.audit, p, []string{
		k.Settings, k.Clock, k.Waiting, k.Away, k.Active, k.Who, k.Judged, k.Intents, k.Ordering, k.Stock, k.Tally, k.Admits, k.AwayTill,
	}, strconv.Itoa(auditWalk))
	if err != nil {
		return Books{}, fmt.Errorf("audit: %w", err)
	}
	if answer.Text(0) == "absent" {
		return Books{}, fmt.Errorf("audit: product %s: %w", p, ErrNotReady)
	}
	tally, admits := answer.List(7), answer.List(8)
	b := Books{
		View: view(answer.List(1)), HeldSum: answer.Int(2), Orderings: answer.Int(3), ActiveAll: answer.Int(4),
		Judged: answer.Int(5), Remembered: answer.Int(6),
		Tally: Tally{
			Joined: tally.Int(0), Restored: tally.Int(1), Admitted: tally.Int(2), Bound: tally.Int(3),
			Ordered: tally.Int(4), Left: tally.Int(5), Lapsed: tally.Int(6), Evicted: tally.Int(7), Called: tally.Int(8),
			Away: tally.Int(9), Back: tally.Int(10), AwayLapsed: tally.Int(11),
		},
		Admits: map[int64]int64{}, Graces: answer.Int(9),
	}
	for i := 0; i+1 < admits.Len(); i += 2 {
		b.Admits[admits.Int(i)] = admits.Int(i + 1)
	}
	if err := answer.Err(); err != nil {
		return Books{}, broken(p, fmt.Errorf("audit: %w", err))
	}
	return b, nil
}
