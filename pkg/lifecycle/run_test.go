package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"hanjul/pkg/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// journal is what happened, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

func (j *journal) list() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string{}, j.entries...)
}

// steady is a component that runs until it is stopped and is ready at once.
func (j *journal) steady(name string) lifecycle.Component {
	return lifecycle.Component{
		Name: name,
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			j.add("stop " + name)
			return nil
		},
		Ready: func(context.Context) error {
			j.add("start " + name)
			return nil
		},
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("SinksStartFirstAndSourcesStopFirst", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			j := &journal{}
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error)
			go func() {
				result <- lifecycle.Run(ctx, quiet(), j.steady("source"), j.steady("middle"), j.steady("sink"))
			}()
			synctest.Wait()
			cancel()
			if err := <-result; err != nil {
				t.Fatal(err)
			}
			want := []string{"start sink", "start middle", "start source", "stop source", "stop middle", "stop sink"}
			if diff := cmp.Diff(want, j.list()); diff != "" {
				t.Fatal(diff)
			}
		})
	})

	t.Run("ASinkWorksUntilTheSourceHasDrained", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			work := make(chan int)
			var got int
			source := lifecycle.Component{Name: "source", Run: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				work <- 7
				return nil
			}}
			sink := lifecycle.Component{Name: "sink", Run: func(ctx context.Context) error {
				select {
				case got = <-work:
				case <-ctx.Done():
					return errBroken
				}
				<-ctx.Done()
				return ctx.Err()
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := lifecycle.Run(ctx, quiet(), source, sink); err != nil || got != 7 {
				t.Fatal(err, got)
			}
		})
	})

	t.Run("TheNextStartsOnlyWhenTheSinkIsReady", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			j := &journal{}
			sink := j.steady("sink")
			open := make(chan struct{})
			sink.Ready = func(ctx context.Context) error {
				select {
				case <-open:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error)
			go func() { result <- lifecycle.Run(ctx, quiet(), j.steady("source"), sink) }()
			synctest.Wait()
			if got := j.list(); len(got) != 0 {
				t.Fatal(got)
			}
			close(open)
			synctest.Wait()
			cancel()
			if err := <-result; err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"start source", "stop source", "stop sink"}, j.list()); diff != "" {
				t.Fatal(diff)
			}
		})
	})

	t.Run("AStopWhileStartingStopsWhatHasStarted", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			j := &journal{}
			middle := j.steady("middle")
			middle.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error)
			go func() { result <- lifecycle.Run(ctx, quiet(), j.steady("source"), middle, j.steady("sink")) }()
			synctest.Wait()
			cancel()
			if err := <-result; err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"start sink", "stop middle", "stop sink"}, j.list()); diff != "" {
				t.Fatal(diff)
			}
		})
	})

	t.Run("NeverReadyIsAnError", func(t *testing.T) {
		t.Parallel()
		j := &journal{}
		sink := j.steady("sink")
		sink.Ready = func(context.Context) error { return errBroken }
		err := lifecycle.Run(t.Context(), quiet(), j.steady("source"), sink)
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"stop sink"}, j.list()); diff != "" {
			t.Fatal(diff)
		}
	})

	t.Run("AnEarlyEndStopsTheRestInOrder", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct{ returned, want error }{{errBroken, errBroken}, {nil, lifecycle.ErrEndedEarly}} {
			j := &journal{}
			middle := lifecycle.Component{Name: "middle", Run: func(context.Context) error { return test.returned }}
			source := j.steady("source")
			source.Ready = nil
			err := lifecycle.Run(t.Context(), quiet(), source, middle, j.steady("sink"))
			if !errors.Is(err, test.want) || err.Error()[:6] != "middle" {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"start sink", "stop source", "stop sink"}, j.list()); diff != "" {
				t.Fatal(diff)
			}
		}
	})

	t.Run("AnEndBeforeReadinessIsToldAsSuch", func(t *testing.T) {
		t.Parallel()
		sink := lifecycle.Component{
			Name:  "sink",
			Run:   func(context.Context) error { return errBroken },
			Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}
		if err := lifecycle.Run(t.Context(), quiet(), sink); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	})

	t.Run("OneThatDoesNotStopIsLeftBehindAndTheRestStop", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			j := &journal{}
			release := make(chan struct{})
			stubborn := lifecycle.Component{
				Name:       "stubborn",
				Run:        func(context.Context) error { <-release; return nil },
				StopWithin: time.Second,
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := lifecycle.Run(ctx, quiet(), stubborn, j.steady("sink"))
			if !errors.Is(err, lifecycle.ErrStillRunning) {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"start sink", "stop sink"}, j.list()); diff != "" {
				t.Fatal(diff)
			}
			close(release)
		})
	})

	t.Run("TheFirstErrorOfStoppingIsReturned", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			fails := func(name string) lifecycle.Component {
				return lifecycle.Component{Name: name, Run: func(ctx context.Context) error {
					<-ctx.Done()
					return fmt.Errorf("%s: %w", name, errBroken)
				}}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := lifecycle.Run(ctx, quiet(), fails("one"), fails("two"))
			if err == nil || err.Error() != "one: one: broken" {
				t.Fatal(err)
			}
		})
	})

	t.Run("NothingStartsAfterTheSignal", func(t *testing.T) {
		t.Parallel()
		j := &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := lifecycle.Run(ctx, quiet(), j.steady("source")); err != nil || len(j.list()) != 0 {
			t.Fatal(err, j.list())
		}
	})
}

// TestRunProperty lets some components fail at drawn moments and holds every run to the order of starting and stopping.
func TestRunProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "components")
		ends := make([]int, n)
		for i := range ends {
			ends[i] = rapid.IntRange(0, 40).Draw(rt, "ends after, 0 for never")
		}
		stopAfter := rapid.IntRange(0, 50).Draw(rt, "signal after")
		// synctest wants a *testing.T of its own; the outcome is judged outside of it, so that rapid can shrink.
		var err error
		started, stopped := make([]int, 0, n), make([]int, 0, n)
		var mu sync.Mutex
		synctest.Test(t, func(t *testing.T) {
			var components []lifecycle.Component
			for i := range n {
				components = append(components, lifecycle.Component{
					Name: fmt.Sprint(i),
					Run: func(ctx context.Context) error {
						var early <-chan time.Time
						if ends[i] > 0 {
							timer := time.NewTimer(time.Duration(ends[i])*time.Second + time.Duration(i))
							defer timer.Stop()
							early = timer.C
						}
						select {
						case <-early:
							return errBroken
						case <-ctx.Done():
							mu.Lock()
							stopped = append(stopped, i)
							mu.Unlock()
							return nil
						}
					},
					Ready: func(context.Context) error {
						time.Sleep(time.Second)
						mu.Lock()
						started = append(started, i)
						mu.Unlock()
						return nil
					},
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(stopAfter)*time.Second+time.Millisecond)
			defer cancel()
			err = lifecycle.Run(ctx, quiet(), components...)
		})
		for i := 1; i < len(started); i++ {
			if started[i] != started[i-1]-1 {
				rt.Fatalf("started %v", started)
			}
		}
		for i := 1; i < len(stopped); i++ {
			if stopped[i] <= stopped[i-1] {
				rt.Fatalf("stopped %v", stopped)
			}
		}
		broke := len(stopped) < len(started)
		if broke != (err != nil) && len(started) == n {
			rt.Fatalf("started %v, stopped %v, returned %v", started, stopped, err)
		}
		if err != nil && !errors.Is(err, errBroken) {
			rt.Fatal(err)
		}
	})
}

func TestStopWithin(t *testing.T) {
	t.Parallel()
	if got := lifecycle.StopWithin(lifecycle.Component{StopWithin: 2 * time.Second}, lifecycle.Component{}); got != 2*time.Second+lifecycle.DefaultStopWithin {
		t.Fatal(got)
	}
}
