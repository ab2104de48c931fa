package httpapi

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"hanjul/pkg/product"
)

// TestObeyingTabsAreNeverRefused: as many tabs as a person may have, each of which waits as long as it was asked and no longer, while the head and
// the load come and go. Time is the test's.
func TestObeyingTabsAreNeverRefused(t *testing.T) {
	t.Parallel()
	c := DefaultCadence()
	const excess, polls = 5, 2000
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test's draws
			p, u, id := newPaces(excess), product.UserHash("u"), product.ID("shoe")
			due := make([]time.Time, 1+rng.IntN(excess))
			for i := range due {
				due[i] = time.Now()
			}
			for n := range polls {
				tab := 0
				for i := range due {
					if due[i].Before(due[tab]) {
						tab = i
					}
				}
				time.Sleep(time.Until(due[tab]))
				if pause, ok := p.admit(u, id); !ok {
					t.Fatalf("seed %d: poll %d of %d tabs is refused for %s", seed, n, len(due), pause)
				}
				pause := c.at([]int64{1, 500, 5000}[rng.IntN(3)], 1+2*rng.Float64())
				if rng.IntN(10) == 0 {
					pause = firstPoll.Milliseconds()
				}
				p.told(u, id, pause)
				due[tab] = time.Now().Add(time.Duration(pause) * time.Millisecond)
			}
		})
	}
}
