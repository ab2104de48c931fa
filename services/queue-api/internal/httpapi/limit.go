package httpapi

import (
	"context"
	"sync"
	"time"
)

// limit is a request's context that ends at a time. Polls that are answered from memory never ask it for its end, so its timer is begun by
// the first who does: beginning one, and taking it out of its parent again, is a tenth of what such a poll costs. Safe for concurrent use.
type limit struct {
	context.Context //nolint:containedctx // it is a context

	at time.Time

	mu    sync.Mutex
	timed context.Context //nolint:containedctx // what it is from the first question on
	stop  context.CancelFunc
	over  bool
}

// limited is the context until a time from now; call end when the request is answered.
func limited(ctx context.Context, within time.Duration) *limit {
	return &limit{Context: ctx, at: time.Now().Add(within)}
}

// begun is the context with its timer.
func (l *limit) begun() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.stop = context.WithDeadline(l.Context, l.at)
		if l.over {
			l.stop()
		}
	}
	return l.timed
}

func (l *limit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.stop != nil {
		l.stop()
	}
}

// Deadline is the context's.
func (l *limit) Deadline() (time.Time, bool) {
	if own, ok := l.Context.Deadline(); ok && own.Before(l.at) {
		return own, true
	}
	return l.at, true
}

// Done is the context's.
func (l *limit) Done() <-chan struct{} { return l.begun().Done() }

// Err is the context's.
func (l *limit) Err() error { return l.begun().Err() }

// Value is the context's. Contexts made from this one find its timer's by it, and need no goroutine to follow it.
func (l *limit) Value(key any) any {
	l.mu.Lock()
	ctx := l.timed
	l.mu.Unlock()
	if ctx == nil {
		ctx = l.Context
	}
	return ctx.Value(key)
}
