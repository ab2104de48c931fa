package intake

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	t.Parallel()

	begun := time.Now()
	later := begun.Add(time.Hour)

	var p pulse

	p.beat(begun)

	if p.stuck(later, time.Minute) {
		t.Error("stuck with nothing to do")
	}

	p.lag(true)

	if !p.stuck(later, time.Minute) || p.stuck(later, 2*time.Hour) {
		t.Error("not stuck when it should be, or too early")
	}

	outer, inner := p.rest(), p.rest()
	inner()
	inner()

	if p.stuck(later, time.Minute) {
		t.Error("stuck while it waits")
	}

	outer()

	if p.stuck(begun, time.Minute) || !p.stuck(later.Add(time.Hour), time.Minute) {
		t.Error("the end of a wait is no beat")
	}
}

// K30: a worker that neither works nor waits keeps its partition, since the
// heartbeats are not its own. Its generation is dropped, and the batch comes
// again.
func TestIntakeStuckWorkerLosesItsGeneration(t *testing.T) {
	t.Parallel()

	b := bench(t)
	b.send(t, 3, 1)

	var j journal

	calls := 0
	m := b.start(t, func(ctx context.Context, batch Batch) error {
		if calls++; calls == 1 { // One partition has records, hence one caller at a time.
			<-ctx.Done()

			return ctx.Err()
		}

		return j.handle(ctx, batch)
	}, func(c *Config) { c.StuckAfter = 200 * time.Millisecond })

	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })

	if m.value(t, "stuck_total", "1") < 1 {
		t.Error("it is not counted")
	}

	m.stop(t)
	j.exactly(t, 1, 0, 3)
}

// A handler that waits for a store is never stuck, however long that takes.
func TestIntakeAwayStoreIsNotStuck(t *testing.T) {
	t.Parallel()

	b := bench(t)
	b.send(t, 3, 1)

	var j journal

	waits, back, works, release := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	m := b.start(t, func(ctx context.Context, batch Batch) error {
		end := AtStore(ctx)
		close(waits)
		<-back
		end()
		close(works)
		<-release

		return j.handle(ctx, batch)
	})

	<-waits

	if m.anyStuck(time.Now().Add(time.Hour)) {
		t.Error("stuck while it waits for a store")
	}

	close(back)
	<-works

	if !m.anyStuck(time.Now().Add(time.Hour)) {
		t.Error("not stuck although it waits for nothing")
	}

	close(release)
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
	m.stop(t)
	j.exactly(t, 1, 0, 3)
	AtStore(t.Context())() // Outside of a handler it does nothing.
}

// A worker that does not even end with its generation ends the process.
func TestIntakeStuckForGood(t *testing.T) {
	t.Parallel()

	b := bench(t)
	b.send(t, 3, 1)

	release := make(chan struct{})
	m := b.start(t, func(context.Context, Batch) error {
		<-release

		return nil
	}, func(c *Config) { c.StuckAfter = 50 * time.Millisecond })

	err := <-m.done

	close(release)

	if !errors.Is(err, ErrStuck) {
		t.Errorf("error: %v", err)
	}
}
