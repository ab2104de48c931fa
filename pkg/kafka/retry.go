package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// tries bounds a retried call, in units of the configured timeout.
const tries = 3

var errTooLong = errors.New("kafka: tried for too long")

// once runs fn with a client of its own, again while its error may pass and
// ctx, or three timeouts, last.
func once(ctx context.Context, cfg Config, fn func(context.Context, *Client) error) error {
	client, err := NewClient(cfg)
	if err != nil {
		return err
	}
	defer client.Close()

	return client.retry(ctx, func(ctx context.Context) error { return fn(ctx, client) })
}

func (c *Client) retry(ctx context.Context, fn func(context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, tries*c.cfg.Timeout, errTooLong)
	defer cancel()

	var backoff Backoff

	for {
		err := fn(limited)

		var found permanentError
		if errors.As(err, &found) {
			return found.error
		}

		if err == nil || !Transient(err) {
			return err
		}

		if waitErr := backoff.Wait(limited); waitErr != nil {
			return fmt.Errorf("%w: last try: %w", waitErr, err)
		}
	}
}

// permanentError keeps retry from asking again for what was found out.
type permanentError struct{ error }

func permanent(err error) error {
	if err == nil {
		return nil
	}

	return permanentError{err}
}

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

// Fresh reports whether no pause was made since the start or the last Reset.
func (b *Backoff) Fresh() bool { return b.next == 0 }

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
