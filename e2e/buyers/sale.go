// Package buyers simulates the people of a sale over the public HTTP API: they join, poll as told, order when admitted, read
// their verdict, and misbehave in every way that a seed deals them. They know nothing that a storefront would not know. Every call is
// written to a journal for the auditor.
package buyers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/product"
)

// Config is one sale.
type Config struct {
	APIs     []string // base URLs of the storefront API, at least one; buyers spread over all
	Product  product.ID
	Buyers   int
	Stock    int     // units on sale, to deal the roles of the pass among those who will be admitted
	Seed     uint64  // equal seeds deal equal roles and arrivals
	JoinRate float64 // arrivals per second; 0: a thousand within two seconds, more of them at 500
	Journal  *journal.Writer
	Progress func(Result) // called about twice a second, may be nil
}

// Run sends all buyers and returns when each visit has ended, or when ctx ends; then the rest are counted as Lost.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if len(cfg.APIs) == 0 || cfg.Buyers < 1 {
		return nil, errors.New("buyers: expected at least one API and one buyer")
	}
	if cfg.JoinRate <= 0 {
		cfg.JoinRate = defaultJoinRate(cfg.Buyers)
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x68616e6a756c))
	c := newClient(cfg.APIs, cfg.Product)
	defer c.close()
	t := newTally(cfg.Buyers)
	roles := newCast(cfg.Buyers, cfg.Stock, rng)

	start := time.Now()
	var visits sync.WaitGroup
	for i := range cfg.Buyers {
		b := &buyer{
			n: i, id: product.UserID(fmt.Sprintf("buyer-%d@%s", i, cfg.Product)), product: cfg.Product,
			client: c, journal: cfg.Journal, tally: t, cast: roles, role: roles.arrive(i),
			rng: rand.New(rand.NewPCG(cfg.Seed, uint64(i)+1)),
		}
		arrival := start.Add(time.Duration(float64(i) / cfg.JoinRate * float64(time.Second)))
		visits.Go(func() {
			outcome := Lost
			if wait(ctx, time.Until(arrival)) {
				outcome = b.visit(ctx)
			}
			t.with(func(r *Result) {
				r.Outcomes[outcome]++
				if outcome == Lost && len(r.LastWords) < lastWordsKept {
					r.LastWords = append(r.LastWords, b.last)
				}
			})
		})
	}
	finished := make(chan struct{})
	var watch sync.WaitGroup
	if cfg.Progress != nil {
		watch.Go(func() {
			ticker := time.NewTicker(500 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					cfg.Progress(t.snapshot())
				case <-finished:
					return
				}
			}
		})
	}
	visits.Wait()
	close(finished)
	watch.Wait()
	r := &t.r
	r.Connections, r.Duration = c.opened.Load(), time.Since(start)
	return r, nil
}

// lastWordsKept bounds how many unended visits are told of one by one.
const lastWordsKept = 10

// wait returns false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// defaultJoinRate lets up to a thousand arrive early enough to be in line within two seconds.
func defaultJoinRate(buyers int) float64 {
	if buyers <= 1000 {
		return 600
	}
	return 500
}
