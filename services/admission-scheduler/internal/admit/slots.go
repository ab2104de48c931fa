package admit

import (
	"context"
	"log/slog"
	"time"

	"hanjul/pkg/product"
)

// Slots reads the streams of slots that became free; waitingroom.Slots is it.
type Slots interface {
	Read(ctx context.Context, p product.ID, reader string, wait time.Duration) (ids []string, err error)
	Ack(ctx context.Context, p product.ID, ids []string) error
	Claim(ctx context.Context, p product.ID, reader string, idle time.Duration) (ids []string, err error)
}

const (
	readWithin = time.Second
	// claimAfter is how old an entry must be that another scheduler read and did not act on.
	claimAfter = 5 * time.Second
	// quietReads is how many reads of a line in a row may bring nothing, while the capacity holds nobody up, before its reader ends.
	quietReads = 10
)

// readSlots begins to read a line's stream, if nobody here reads it and a place for a reader is free. Called by the line's goroutine when
// the capacity holds it up. A read waits on a connection, and on a cluster it may wait for the keys of one slot only, so each line that is held up takes one: what
// bounds the connections is the number of readers, and a line that finds none is moved by the tick.
func (n *line) readSlots(ctx context.Context) {
	if n.loop.Slots == nil || !n.reading.CompareAndSwap(false, true) {
		return
	}
	select {
	case n.loop.readers <- struct{}{}:
	default:
		n.reading.Store(false)
		n.loop.metrics.readersShort.Inc()
		return
	}
	n.loop.reads.Go(func() {
		defer func() {
			<-n.loop.readers
			n.reading.Store(false)
		}()
		n.slots(ctx)
	})
}

// slots reads until ctx ends or the line is no longer held up. An entry is acknowledged when the line was looked at behind it: if this
// process dies in between, another scheduler claims it. Acted on twice, or late: a look that finds nothing to do.
func (n *line) slots(ctx context.Context) {
	const message = "stream of slots not read"
	up, hints := n.loop.metrics.triggerUp.WithLabelValues(string(Stream)), n.loop.metrics.hints.WithLabelValues(string(Stream))
	reader, claimAt := n.loop.reader, time.Time{}
	for quiet, failures := 0, 0; ctx.Err() == nil && quiet < quietReads; {
		ids, err := n.loop.Slots.Read(ctx, n.id, reader, readWithin)
		if err == nil && time.Now().After(claimAt) {
			claimAt = time.Now().Add(claimAfter)
			var claimed []string
			claimed, err = n.loop.Slots.Claim(ctx, n.id, reader, claimAfter)
			ids = append(ids, claimed...)
		}
		if err == nil && len(ids) > 0 {
			hints.Add(float64(len(ids)))
			select {
			case <-n.looked():
				err = n.loop.Slots.Ack(ctx, n.id, ids)
			case <-ctx.Done():
			}
		}
		if err != nil {
			up.Set(0)
			failures++
			n.loop.complain(ctx, message, err, slog.String("product_id", string(n.id)))
			select {
			case <-ctx.Done():
			case <-time.After(n.loop.backoff(failures)):
			}
			continue
		}
		up.Set(1)
		n.loop.repeats.Over(ctx, message)
		failures = 0
		if quiet++; len(ids) > 0 || n.held.Load() {
			quiet = 0
		}
	}
}

// looked hints at the line, and returns what is closed when it was looked at after that without a fault.
func (n *line) looked() <-chan struct{} {
	done := make(chan struct{})
	n.mu.Lock()
	n.after = append(n.after, done)
	n.mu.Unlock()
	n.hinted()
	return done
}

// waiters takes those that wait for the next look.
func (n *line) waiters() []chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	waiters := n.after
	n.after = nil
	return waiters
}

// tell lets waiters go on after a look, or wait for the next one after one that failed.
func (n *line) tell(waiters []chan struct{}, failed bool) {
	if failed {
		n.mu.Lock()
		n.after = append(n.after, waiters...)
		n.mu.Unlock()
		return
	}
	for _, done := range waiters {
		close(done)
	}
}
