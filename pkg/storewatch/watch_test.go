package storewatch_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"hanjul/pkg/storewatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway, errWrong = errors.New("connection refused"), errors.New("too old")

// store is one that the test takes away and brings back.
type store struct {
	fault atomic.Pointer[error]
	looks atomic.Int64
}

func (s *store) set(err error) { s.fault.Store(&err) }

func (s *store) err() error {
	s.looks.Add(1)
	if err := s.fault.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *store) named(name string) storewatch.Store {
	return storewatch.Store{
		Name:  name,
		Check: func(context.Context) (bool, error) { err := s.err(); return errors.Is(err, errAway), err },
		Ping:  func(context.Context) error { return s.err() },
	}
}

// watching runs a watch over a store "a" that is there and the given one, "b".
func watching(t *testing.T, patience time.Duration, b *store) (w *storewatch.Watch, up func() string, stop func() error) {
	t.Helper()
	registry := prometheus.NewRegistry()
	w, err := storewatch.New(storewatch.Config{Patience: patience, Registerer: registry, Logger: slog.New(slog.DiscardHandler)},
		new(store).named("a"), b.named("b"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	up = func() string {
		t.Helper()
		synctest.Wait()
		for text, gauges := range map[string]string{
			"both": `hanjul_store_up{store="a"} 1` + "\n" + `hanjul_store_up{store="b"} 1`,
			"a":    `hanjul_store_up{store="a"} 1` + "\n" + `hanjul_store_up{store="b"} 0`,
		} {
			head := "# HELP hanjul_store_up 1 while the last look at a store (redis, kafka, postgres) was answered; 0 while it is away, or was never seen.\n# TYPE hanjul_store_up gauge\n"
			if testutil.GatherAndCompare(registry, strings.NewReader(head+gauges+"\n")) == nil {
				return text
			}
		}
		return "neither"
	}
	return w, up, func() error { cancel(); return <-ended }
}

func TestWatch(t *testing.T) {
	t.Parallel()

	t.Run("TellsWhichStoreIsAway", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &store{}
			w, up, stop := watching(t, 0, b)
			if err := w.Ready(t.Context()); err != nil || up() != "both" || w.Checked(t.Context()) != nil {
				t.Fatal(err, up())
			}
			b.set(errAway)
			time.Sleep(6 * time.Second)
			if up() != "a" {
				t.Fatal(up())
			}
			// What was checked once is not checked again: a store that changes its mind is away, and ends nobody.
			b.set(errWrong)
			time.Sleep(6 * time.Second)
			if up() != "a" || w.Checked(t.Context()) != nil {
				t.Fatal(up())
			}
			b.set(nil)
			time.Sleep(6 * time.Second)
			if up() != "both" {
				t.Fatal(up())
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	})

	t.Run("WaitsForAStoreThatIsAway", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &store{}
			b.set(errAway)
			w, up, stop := watching(t, 0, b)
			ready := make(chan error, 1)
			go func() { ready <- w.Ready(t.Context()) }()
			time.Sleep(time.Hour)
			if up() != "a" || len(ready) != 0 {
				t.Fatal(up())
			}
			if err := w.Checked(t.Context()); err == nil || err.Error() != "b: connection refused" {
				t.Fatal(err)
			}
			b.set(nil)
			if err := <-ready; err != nil || up() != "both" {
				t.Fatal(err, up())
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	})

	t.Run("GoesOnWithoutItWhenPatienceEnds", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &store{}
			b.set(errAway)
			w, up, stop := watching(t, 3*time.Second, b)
			if err := w.Ready(t.Context()); err != nil || up() != "a" {
				t.Fatal(err, up())
			}
			// It is looked at as soon as it answers, and what is wrong then ends the process.
			b.set(errWrong)
			time.Sleep(3 * time.Second)
			if err := stop(); !errors.Is(err, errWrong) || !strings.HasPrefix(err.Error(), "b: ") {
				t.Fatal(err)
			}
		})
	})

	t.Run("EndsWhenAStoreIsWrong", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &store{}
			b.set(errWrong)
			w, _, stop := watching(t, 0, b)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := w.Ready(ctx); err == nil {
				t.Fatal("ready")
			}
			if err := stop(); !errors.Is(err, errWrong) {
				t.Fatal(err)
			}
		})
	})

	t.Run("StopsWhileAStoreIsAway", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &store{}
			b.set(errAway)
			_, up, stop := watching(t, 0, b)
			if up() != "a" {
				t.Fatal(up())
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	})
}
