package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// Beats go on after one that failed, and end with the process.
func TestBeating(t *testing.T) {
	t.Parallel()
	beats := make(chan struct{})
	n := 0
	c := beating(slog.New(slog.DiscardHandler), time.Millisecond, time.Minute, func(ctx context.Context) error {
		n++
		select {
		case beats <- struct{}{}:
		case <-ctx.Done():
		}
		if n == 1 {
			return errors.New("away")
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for range 3 {
		<-beats
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
