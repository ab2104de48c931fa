package admit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hanjul/pkg/product"
)

// Trigger is a way in which a line comes to be looked at. All of them run the same script, which keeps the bounds whatever asks it;
// events are hints, and what they miss the tick finds.
type Trigger string

// The triggers.
const (
	Tick     Trigger = "tick"     // by the clock
	PubSub   Trigger = "pubsub"   // what the scripts publish
	Keyspace Trigger = "keyspace" // the leases that expire
	Stream   Trigger = "stream"   // the slots that became free, shared out among the schedulers
)

// coverEvery is how often a line that moves is looked at where the tick was not asked for: events get lost (hazard R9), so it cannot be
// switched off.
const coverEvery = time.Second

// ParseTriggers reads words into triggers; an error names the word and what was expected.
func ParseTriggers(words []string) ([]Trigger, error) {
	known := []Trigger{Tick, PubSub, Keyspace, Stream}
	var triggers []Trigger
	for _, word := range words {
		trigger := Trigger(strings.TrimSpace(word))
		if !slices.Contains(known, trigger) {
			return nil, fmt.Errorf("expected some of tick, pubsub, keyspace and stream, found %q", word)
		}
		if !slices.Contains(triggers, trigger) {
			triggers = append(triggers, trigger)
		}
	}
	if len(triggers) == 0 {
		return nil, errors.New("expected some of tick, pubsub, keyspace and stream, found none")
	}
	return triggers, nil
}

// Source tells which lines may move, until ctx ends or it fails, and returns why. It calls begun whenever it has just begun to listen,
// since what happened before was not told. Hints may be lost and come twice. waitingroom.Room.Follow is one.
type Source func(ctx context.Context, begun func(), hint func(p product.ID)) error

// follow keeps one source going until ctx ends. What was missed while it was away is what the lines are looked at for when it is back.
func (l *Loop) follow(ctx context.Context, trigger Trigger, source Source, up *atomic.Bool) {
	gauge, hints := l.metrics.triggerUp.WithLabelValues(string(trigger)), l.metrics.hints.WithLabelValues(string(trigger))
	gauge.Set(0)
	message := "hints are not heard: " + string(trigger)
	for failures := 1; ; failures++ {
		err := source(ctx, func() {
			failures = 0
			gauge.Set(1)
			up.Store(true)
			l.repeats.Over(ctx, message)
			for _, n := range l.all() {
				n.hinted()
			}
		}, func(p product.ID) {
			hints.Inc()
			if n := l.find(p); n != nil {
				n.hinted()
			}
		})
		gauge.Set(0)
		up.Store(false)
		if ctx.Err() != nil {
			return
		}
		l.complain(ctx, message, err, slog.Int("failures", failures))
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.backoff(failures)):
		}
	}
}

// find is the line of a product; nil while there is none.
func (l *Loop) find(p product.ID) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[p]
}

func (l *Loop) all() []*line {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := make([]*line, 0, len(l.lines))
	for _, n := range l.lines {
		lines = append(lines, n)
	}
	return lines
}
