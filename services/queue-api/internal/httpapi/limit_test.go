package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type valueKey struct{}

// TestLimit: it is what context.WithTimeout makes, whoever asks first and whether anybody does.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "kept"))
		defer cancel()
		begun := time.Now()
		expect := func(ctx context.Context, err error) {
			t.Helper()
			<-ctx.Done()
			if !errors.Is(ctx.Err(), err) {
				t.Fatalf("%v, want %v", ctx.Err(), err)
			}
		}

		l := limited(parent, time.Second)
		if at, ok := l.Deadline(); !ok || !at.Equal(begun.Add(time.Second)) || l.Value(valueKey{}) != "kept" || l.Err() != nil {
			t.Fatal(at, ok, l.Value(valueKey{}), l.Err())
		}
		child, stop := context.WithTimeout(l, time.Hour)
		defer stop()
		expect(child, context.DeadlineExceeded)
		expect(l, context.DeadlineExceeded)
		if took := time.Since(begun); took != time.Second || l.Value(valueKey{}) != "kept" {
			t.Fatal(took, l.Value(valueKey{}))
		}

		early := limited(l, time.Hour) // within one that has ended
		if at, ok := early.Deadline(); !ok || !at.Equal(begun.Add(time.Second)) {
			t.Fatal(at, ok)
		}
		expect(early, context.DeadlineExceeded)

		ended := limited(parent, time.Hour) // answered before anybody asked, and after
		ended.end()
		ended.end()
		expect(ended, context.Canceled)
		asked := limited(parent, time.Hour)
		done := asked.Done()
		asked.end()
		<-done
		expect(asked, context.Canceled)

		gone := limited(parent, time.Hour) // the caller went away
		cancel()
		expect(gone, context.Canceled)
	})
}
