package sale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"hanjul/e2e/buyers"
)

// Fault is something that can be done to a running system. Strike does it, waits for about the pause, mends it, and returns when that is done.
type Fault struct {
	What   string
	Strike func(ctx context.Context, pause time.Duration) error
}

// Victim is a process that can be killed and started again.
type Victim interface {
	Name() string
	Signal(sig syscall.Signal) error
	Wait() error
	Restart(ctx context.Context) error
}

// blow is one planned fault: struck when the sale has come that far.
type blow struct {
	what string
	due  func(buyers.Result) bool
	hit  func(context.Context) error
}

// Chaos strikes seeded blows while a sale runs. Moments are told by how far the sale has come, not by the clock, so that a slow
// machine sees the same faults in the same phases.
type Chaos struct {
	mu     sync.Mutex
	blows  []blow
	struck []string
	errs   []error
	under  sync.WaitGroup
	ctx    context.Context //nolint:containedctx // the sale's own, for blows that are struck from its progress calls
}

// newChaos plans: one kill for each victim, the storefront's while people join and the others' while people are admitted, and
// optionally one emptied Redis in the middle. Further faults strike anywhere between the first joins and the last orders.
func newChaos(ctx context.Context, seed uint64, size int, stock int, target Stack) *Chaos {
	rng := rand.New(rand.NewPCG(seed, 0x6b696c6c))
	c := &Chaos{ctx: ctx}
	expected := min(size, max(1, stock))
	admitted := func(part float64) (string, func(buyers.Result) bool) {
		n := max(1, int(part*float64(expected)))
		return fmt.Sprintf("%d were admitted", n), func(r buyers.Result) bool { return r.Admitted >= n }
	}
	for i, v := range target.Victims {
		moment, due := admitted(0.1 + 0.6*rng.Float64())
		if i%3 == 0 {
			n := max(1, int((0.2+0.6*rng.Float64())*float64(size)))
			moment, due = fmt.Sprintf("%d had joined", n), func(r buyers.Result) bool { return r.Joined >= n }
		}
		pause := time.Duration(200+rng.IntN(800)) * time.Millisecond
		c.blows = append(c.blows, blow{"SIGKILL to " + v.Name() + " when " + moment, due, func(ctx context.Context) error {
			if err := v.Signal(syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill %s: %w", v.Name(), err)
			}
			_ = v.Wait() // it was killed, and says so
			sleep(ctx, pause)
			if err := v.Restart(ctx); err != nil {
				return fmt.Errorf("start %s again: %w", v.Name(), err)
			}
			return nil
		}})
	}
	if target.Empty != nil {
		moment, due := admitted(0.3 + 0.4*rng.Float64())
		c.blows = append(c.blows, blow{"Redis emptied when " + moment, due, target.Empty})
	}
	for _, f := range target.Faults {
		moment, due := admitted(0.7 * rng.Float64())
		pause := time.Duration(200+rng.IntN(1300)) * time.Millisecond
		c.blows = append(c.blows, blow{f.What + " when " + moment, due, func(ctx context.Context) error { return f.Strike(ctx, pause) }})
	}
	return c
}

// watch strikes what is due. It is called from the sale's progress, one call at a time.
func (c *Chaos) watch(r buyers.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var later []blow
	for _, b := range c.blows {
		if !b.due(r) {
			later = append(later, b)
			continue
		}
		c.under.Go(func() {
			err := b.hit(c.ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.struck = append(c.struck, b.what)
			if err != nil {
				c.errs = append(c.errs, err)
			}
		})
	}
	c.blows = later
}

// finish waits for what was struck and returns what it was, and what never became due.
func (c *Chaos) finish() (struck, never []string, errs []error) {
	c.under.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.blows {
		never = append(never, b.what)
	}
	return c.struck, never, c.errs
}
