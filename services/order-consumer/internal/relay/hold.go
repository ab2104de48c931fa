package relay

import (
	"maps"
	"time"

	"hanjul/pkg/outbox"
)

// How long a lane waits after a row of it was not acknowledged: doubling from the first to the last. The producer has tried for
// a while before it says unknown, so this only keeps a lane that fails at once from spinning.
const (
	holdFirst = 50 * time.Millisecond
	holdLast  = 10 * time.Second
)

// hold is one lane's pause.
type hold struct {
	until   time.Time
	next    time.Duration
	refused bool
}

// holds are the lanes that wait. Not safe for concurrent use: the loop owns it.
type holds struct{ of map[outbox.Lane]*hold }

func newHolds() *holds { return &holds{of: make(map[outbox.Lane]*hold)} }

// hold makes the lane wait, longer each time until a release.
func (h *holds) hold(lane outbox.Lane, refused bool, now time.Time) {
	entry := h.of[lane]
	if entry == nil {
		entry = &hold{next: holdFirst}
		h.of[lane] = entry
	}
	entry.refused = refused
	entry.until = now.Add(entry.next)
	entry.next = min(2*entry.next, holdLast)
}

// release forgets the lane: a row of it was acknowledged.
func (h *holds) release(lane outbox.Lane) { delete(h.of, lane) }

// forget drops the lanes that are no longer ours.
func (h *holds) forget(gone func(outbox.Lane) bool) {
	maps.DeleteFunc(h.of, func(lane outbox.Lane, _ *hold) bool { return gone(lane) })
}

// lanes lists those that wait at now.
func (h *holds) lanes(now time.Time) []outbox.Lane {
	var waiting []outbox.Lane
	for lane, entry := range h.of {
		if now.Before(entry.until) {
			waiting = append(waiting, lane)
		}
	}
	return waiting
}

// none says that no lane has failed since its last success.
func (h *holds) none() bool { return len(h.of) == 0 }

// stuck counts the lanes whose first row Kafka refuses.
func (h *holds) stuck() int {
	n := 0
	for _, entry := range h.of {
		if entry.refused {
			n++
		}
	}
	return n
}

// rest is how long nothing need be looked at: idle, or less when a hold ends earlier.
func (h *holds) rest(idle time.Duration, now time.Time) time.Duration {
	for _, entry := range h.of {
		if left := entry.until.Sub(now); left > 0 {
			idle = min(idle, left)
		}
	}
	return idle
}
