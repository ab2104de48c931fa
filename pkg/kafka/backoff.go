package kafka

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff grows from Min to Max by doubling and spreads each pause over its
// upper half, so that many waiting callers do not come back together. The zero
// value starts at 20 ms and ends at 500 ms. It is not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration
}

// Wait pauses until the next try is due; it returns the cause of ctx when that
// ends first.
func (b *Backoff) Wait(ctx context.Context) error {
	timer := time.NewTimer(b.pause())
	defer timer.Stop()

	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reset makes the next pause the shortest one again.
func (b *Backoff) Reset() { b.next = 0 }

func (b *Backoff) pause() time.Duration {
	if b.Min <= 0 {
		b.Min = 20 * time.Millisecond
	}

	if b.Max < b.Min {
		b.Max = max(b.Min, 500*time.Millisecond)
	}

	if b.next == 0 {
		b.next = b.Min
	}

	pause := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.Max)

	return pause
}
