package admit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
	"hanjul/services/admission-scheduler/internal/pace"
)

// line is one product's gate. Its goroutine is the only one that works on it; the row comes in and what was seen goes out through
// atomics, so that neither side ever waits for the other.
type line struct {
	loop *Loop
	id   product.ID
	row  atomic.Pointer[ledger.ProductRow]
	seen atomic.Pointer[seen]
	wake chan struct{} // the row changed
	hint chan struct{} // it may move
	end  func()        // the books goroutine's own: lets run return

	held    atomic.Bool // the capacity holds people up
	reading atomic.Bool // its stream of slots is read here

	mu    sync.Mutex
	after []chan struct{} // who waits for the next look

	persisted *seen // the books goroutine's own: what it wrote down last

	nonce    string // of a restore that committed nothing yet
	waiting  int64
	upkeepAt time.Time // when upkeep is due; the zero time means at once
	failures int
	idle     int       // looks in a row that found nobody
	earliest time.Time // before it a hint is of no use: no token comes, or the last look is hardly over
}

// seen is what upkeep last saw of a line.
type seen struct {
	Front   product.Place
	Active  int
	Waiting int64
	At      time.Time // by the clock of Redis
}

func newLine(l *Loop, row ledger.ProductRow) *line {
	n := &line{loop: l, id: row.ID, wake: make(chan struct{}, 1), hint: make(chan struct{}, 1)}
	n.row.Store(&row)
	return n
}

// update hands the line a newer row, and wakes it when that changes what it does. A row read earlier than the one it has is
// told by its numbers and left alone.
func (n *line) update(row ledger.ProductRow) {
	for {
		old := n.row.Load()
		if row.SettingsV < old.SettingsV || row.LineInc < old.LineInc || row.BansV < old.BansV {
			return
		}
		if !n.row.CompareAndSwap(old, &row) {
			continue
		}
		if row.SettingsV > old.SettingsV || row.BansV > old.BansV {
			select {
			case n.wake <- struct{}{}:
			default:
			}
		}
		return
	}
}

// hinted makes the line look soon. It never waits.
func (n *line) hinted() {
	select {
	case n.hint <- struct{}{}:
	default:
	}
}

// run looks at the line until ctx ends.
func (n *line) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
			n.upkeepAt = time.Time{}
		case <-n.hint:
			// What failed is tried again in its own time, whatever is heard of it.
			if n.failures > 0 || !n.earliest.Before(due) {
				continue
			}
			if wait := time.Until(n.earliest); wait > 0 {
				due = n.earliest
				timer.Reset(wait)
				continue
			}
		case <-timer.C:
		}
		n.earliest = time.Time{}
		wait := n.round(ctx)
		now := time.Now()
		due = now.Add(wait)
		if least := now.Add(pace.Least); n.earliest.Before(least) {
			n.earliest = least
		}
		timer.Reset(wait)
	}
}

// round is one look at the line, and says how long to wait for the next.
func (n *line) round(ctx context.Context) time.Duration {
	waiters := n.waiters()
	wait, err := n.work(ctx)
	n.tell(waiters, err != nil)
	if err == nil {
		n.failures = 0
		return wait
	}
	if ctx.Err() != nil {
		return n.loop.Tick
	}
	n.failures++
	n.upkeepAt = time.Time{}
	n.loop.metrics.runs.WithLabelValues("error").Inc()
	complain := n.loop.complain
	if errors.Is(err, ledger.ErrLineEnd) {
		complain = n.loop.alarm // no place is left to give out (F42)
	}
	complain(ctx, "line not moved", err, slog.String("product_id", string(n.id)), slog.Int("failures", n.failures))
	return n.loop.backoff(n.failures)
}

// work does what is due. Looks at Redis share a bounded number of tokens; what waits for the ledger or for Kafka holds none.
func (n *line) work(ctx context.Context) (time.Duration, error) {
	var todo upkeep
	var wait time.Duration
	err := n.look(ctx, func(ctx context.Context) (err error) {
		if !time.Now().Before(n.upkeepAt) {
			if todo, err = n.upkeep(ctx); err != nil {
				return err
			}
			n.upkeepAt = time.Now().Add(n.loop.Upkeep)
		}
		if todo.absent {
			wait = n.loop.Tick // somebody else restores it, or we do below
			n.upkeepAt = time.Time{}
			return nil
		}
		wait, err = n.turn(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	if n.held.Load() {
		n.readSlots(ctx)
	}
	switch {
	case todo.restore:
		if err := n.restore(ctx, false, todo.at); err != nil {
			return 0, err
		}
	case todo.advance:
		// The line goes on meanwhile, so a failed advance must not slow it down.
		if err := n.restore(ctx, true, todo.at); err != nil {
			n.loop.alarm(ctx, "line not advanced", err, slog.String("product_id", string(n.id)))
		}
	}
	if todo.bans {
		// Nor must bans that cannot be copied now; the next upkeep tries again.
		more, err := n.bans(ctx, todo.bansV)
		if err != nil {
			n.loop.complain(ctx, "bans not copied", err, slog.String("product_id", string(n.id)))
		} else if more {
			n.upkeepAt, wait = time.Time{}, 0
		}
	}
	if todo.loadStock {
		if err := n.loadStock(ctx); err != nil {
			return 0, err
		}
	}
	return wait, nil
}

// slowLook is how long a look may hold its token. One that takes longer goes on without, bounded by its deadline and by its node's pool
// of connections: many products of a node that is slow must not keep the others' looks waiting.
const slowLook = 50 * time.Millisecond

// look runs fn with a token and a deadline.
func (n *line) look(ctx context.Context, fn func(ctx context.Context) error) error {
	select {
	case n.loop.looks <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	release := sync.OnceFunc(func() { <-n.loop.looks })
	defer release()
	late := time.AfterFunc(slowLook, release)
	defer late.Stop()
	ctx, cancel := context.WithTimeout(ctx, n.loop.Deadline)
	defer cancel()
	return fn(ctx)
}
