// Package pace is the arithmetic of admission: how often a product's line is asked to move, and for how many. It is pure: no clock, no store, no goroutine. The admit
// script enforces rate, capacity and stock whatever is asked of it; pace only decides what is worth asking.
package pace

import (
	"math"
	"time"
)

const (
	// BatchMax bounds one call of the admit script, so that it never holds Redis up for long.
	BatchMax = 100
	// CallsMax bounds the calls of one turn: what it cannot take waits for the next turn, and other products get theirs.
	CallsMax = 50
	// Least is the shortest time between two turns of a product. Above Burst/Least admissions a second, the burst must be
	// raised for the rate to be reached.
	Least = 5 * time.Millisecond
	// singleRoom stands for Burst − 1 where the burst is 1: turns come often enough to lose a twentieth of the rate.
	singleRoom = 0.05
)

// Limits are the settings of a product that bound its admissions.
type Limits struct {
	Rate            float64 // admissions per second
	Burst, Capacity int
	UnitsPerPass    int
}

// Stock is what the last turn knew of the units: stale by a turn, so it may shape what is asked and never forbid asking.
type Stock struct {
	Known bool
	Left  int64 // base − held + oversub
}

// Plan is how a line that moves is asked.
type Plan struct {
	Every time.Duration // from turn to turn
	Ask   int           // admissions asked of one call
	Calls int           // calls of a turn at most; the next one only when the call before gave all it was asked for
}

// For plans a product. The bucket that the script keeps holds at most Burst, of which a turn leaves less than one behind, so
// the next turn must come before Burst − 1 more have flowed in, or admissions are lost; turns come twice as often as that, since
// they are never exactly on time. A burst of 1 leaves no such time: some of its rate is lost, a twentieth at most. Nothing is asked beyond what one call could give: the burst, the capacity, and the passes that the units suffice for, but always
// at least one, because only the script knows.
func For(l Limits, stock Stock, tick time.Duration) Plan {
	every := tick
	if fill := time.Duration(max(float64(l.Burst-1), singleRoom) / l.Rate * float64(time.Second) / 2); fill < every {
		every = max(fill, min(Least, tick))
	}
	most := min(l.Burst, l.Capacity)
	if stock.Known {
		most = min(most, atMost(stock.Left/int64(max(l.UnitsPerPass, 1)), math.MaxInt32))
	}
	most = max(most, 1)
	ask := min(most, BatchMax)
	return Plan{Every: every, Ask: ask, Calls: min((most+ask-1)/ask, CallsMax)}
}

func atMost(n int64, limit int) int {
	return int(max(min(n, int64(limit)), 0))
}
