package httpapi

import (
	"math/rand/v2"
	"time"
)

// The distances within which people are asked to come again soon, and less soon.
const (
	nearPositions = 100
	midPositions  = 1000
)

// Cadence is how often people are asked to poll: those near the head more often.
type Cadence struct {
	Near time.Duration // within 100 of the head, and while an order waits for its verdict
	Mid  time.Duration // within 1,000
	Far  time.Duration // else, and where nothing is expected
}

// DefaultCadence is the documented one.
func DefaultCadence() Cadence {
	return Cadence{Near: time.Second, Mid: 3 * time.Second, Far: 5 * time.Second}
}

// at is the pause in milliseconds for a position, spread by ± 20 % so that a crowd that came together does not return together.
func (c Cadence) at(position int64) int64 {
	switch {
	case position <= nearPositions:
		return jitter(c.Near)
	case position <= midPositions:
		return jitter(c.Mid)
	default:
		return jitter(c.Far)
	}
}

func (c Cadence) near() int64 { return jitter(c.Near) }

func (c Cadence) far() int64 { return jitter(c.Far) }

// longest is the longest pause that a person is ever asked to make.
func (c Cadence) longest() time.Duration {
	return time.Duration(1.2 * float64(max(c.Near, c.Mid, c.Far)))
}

func jitter(pause time.Duration) int64 {
	return max(1, int64(float64(pause.Milliseconds())*(0.8+0.4*rand.Float64()))) //nolint:gosec // a pause, no secret
}
