package httpapi

import (
	"math/rand/v2"
	"testing"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// TestShown goes through every state with every trouble of the product at once and one by one.
func TestShown(t *testing.T) {
	t.Parallel()
	sale := func(state product.State, queueOn, known bool, base int64) waitingroom.Sale {
		return waitingroom.Sale{State: state, QueueOn: queueOn, StockKnown: known, Base: base}
	}
	fine := sale(product.Open, true, true, 1)
	products := []struct {
		sale waitingroom.Sale
		want string // "" where the person's own status shows
	}{
		{fine, ""},
		{sale(product.Open, true, false, 0), ""}, // stock not loaded is not sold out
		{sale(product.Closed, false, true, 0), statusClosed},
		{sale(product.NotOpen, false, true, 0), statusNotOpen},
		{sale(product.Paused, false, true, 0), statusQueueOff},
		{sale(product.Paused, true, true, 0), statusSoldOut},
		{sale(product.Paused, true, true, 1), statusPaused},
	}
	states := []struct {
		state   waitingroom.State
		own     string
		gives   bool
		canJoin bool
	}{
		{waitingroom.None, statusNotInLine, true, true},
		{waitingroom.Waiting, statusWaiting, true, false},
		{waitingroom.Away, statusWaiting, true, false},
		{waitingroom.Active, statusAdmitted, false, false},
		{waitingroom.Ordering, statusOrdered, false, false},
		{waitingroom.Ordered, statusOrdered, false, true},
		{waitingroom.Left, statusLeft, false, true},
		{waitingroom.Lapsed, statusLapsed, false, true},
		{waitingroom.Called, statusLapsed, false, true},
		{waitingroom.Evicted, statusEvicted, false, false},
	}
	for _, s := range states {
		for _, p := range products {
			want := s.own
			if s.gives && p.want != "" {
				want = p.want
			}
			if got := shown(waitingroom.Standing{State: s.state, Product: p.sale}); got != want {
				t.Errorf("%s in a product that is %s: got %s, want %s", s.state, p.want, got, want)
			}
		}
		if got := canJoin(waitingroom.Standing{State: s.state, Product: fine}); got != s.canJoin {
			t.Errorf("%s can join: %v", s.state, got)
		}
	}
}

func TestCadence(t *testing.T) {
	t.Parallel()
	c := DefaultCadence()
	for position, pause := range map[int64]time.Duration{1: c.Near, 100: c.Near, 101: c.Mid, 1000: c.Mid, 1001: c.Far, 1_000_000: c.Far} {
		low, high := int64(1<<62), int64(0)
		for range 2000 {
			got := c.at(position, 1)
			low, high = min(low, got), max(high, got)
		}
		least, most := pause.Milliseconds()*8/10, pause.Milliseconds()*12/10
		if low < least || high > most || high-low < (most-least)/2 {
			t.Errorf("position %d: from %d to %d ms, want within %d and %d and spread", position, low, high, least, most)
		}
	}
	if c.longest() != 18*time.Second {
		t.Errorf("longest is %s", c.longest())
	}
	for _, l := range []struct {
		calls int64
		lag   time.Duration
		want  float64
	}{{0, 0, 1}, {2000, 0, 1}, {4000, 0, 2}, {1 << 40, 0, 3}, {0, 500 * time.Millisecond, 2}, {0, time.Hour, 3}} {
		if got := c.load(l.calls, l.lag); got != l.want {
			t.Errorf("load of %d calls and %s: %g, want %g", l.calls, l.lag, got, l.want)
		}
	}
	if got := c.at(1, 2); got < 1600 || got > 2400 {
		t.Errorf("twice the load: %d ms", got)
	}

	// Whatever operators set, wherever somebody stands and whatever the load is: the pause of that distance, within a fifth.
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test's draws
	pause := func() time.Duration { return time.Duration(10+rng.Int64N(60_000)) * time.Millisecond }
	for range 20_000 {
		c := Cadence{
			Near: pause(), Mid: pause(), Far: pause(), NearWithin: 1 + rng.Int64N(1000), MidWithin: 1 + rng.Int64N(10_000), Busy: rng.Int64N(3000), Stretch: rng.Int64N(11),
		}
		position, load := 1+rng.Int64N(20_000), c.load(rng.Int64N(10_000), time.Duration(rng.Int64N(int64(time.Second))))
		asked := c.Far
		if position <= c.NearWithin {
			asked = c.Near
		} else if position <= c.MidWithin {
			asked = c.Mid
		}
		// Rounded down twice, to whole milliseconds before it is spread and after.
		least, most := 0.8*load*float64(asked.Milliseconds())-2, 1.2*load*float64(asked.Milliseconds()+1)
		if got := float64(c.at(position, load)); load < 1 || load > float64(max(1, c.Stretch)) || got < least || got > most || got > float64(c.longest().Milliseconds()+1) {
			t.Fatalf("%+v at %d under %g: %g ms, expected %g to %g", c, position, load, got, least, most)
		}
	}
}
