package httpapi

import (
	"math/rand/v2"
	"time"
)

// Cadence is how often people are asked to poll: those near the head more often, and everybody less often under load.
type Cadence struct {
	Near       time.Duration // within NearWithin of the head, and while an order waits for its verdict
	Mid        time.Duration // within MidWithin
	Far        time.Duration // else, and where nothing is expected
	NearWithin int64
	MidWithin  int64
	// Busy is how many calls in hand are a load; with twice as many the pauses of people in line are twice as long, up to Stretch times.
	Busy    int64
	Stretch int64
}

// DefaultCadence is the documented one.
func DefaultCadence() Cadence {
	return Cadence{
		Near: time.Second, Mid: 3 * time.Second, Far: 5 * time.Second, NearWithin: 100, MidWithin: 1000, Busy: 2000, Stretch: 3,
	}
}

// lagging is how long a refresh of a line may take before it counts as a load.
const lagging = 250 * time.Millisecond

// load is by how much pauses are longer now, from 1 to Stretch.
func (c Cadence) load(calls int64, lag time.Duration) float64 {
	load := 1.0
	if c.Busy > 0 {
		load = max(load, float64(calls)/float64(c.Busy))
	}
	load = max(load, float64(lag)/float64(lagging))
	return min(load, float64(max(1, c.Stretch)))
}

// at is the pause in milliseconds for a position, spread by ± 20 % so that a crowd that came together does not return together.
func (c Cadence) at(position int64, load float64) int64 {
	pause := c.Far
	switch {
	case position <= c.NearWithin:
		pause = c.Near
	case position <= c.MidWithin:
		pause = c.Mid
	}
	return jitter(time.Duration(float64(pause) * load))
}

func (c Cadence) near() int64 { return jitter(c.Near) }

func (c Cadence) far() int64 { return jitter(c.Far) }

// longest is the longest pause that a person is ever asked to make.
func (c Cadence) longest() time.Duration {
	return time.Duration(1.2 * float64(max(c.Near, c.Mid, c.Far)) * float64(max(1, c.Stretch)))
}

func jitter(pause time.Duration) int64 {
	return max(1, int64(float64(pause.Milliseconds())*(0.8+0.4*rand.Float64()))) //nolint:gosec // a pause, no secret
}
