// Package storewatch looks at the stores that a process stands on: thoroughly once, as soon as a store answers, and then lightly
// for as long as the process runs, for a metric. A store that is away is waited for and restarts nobody; one that is set up wrongly ends
// the process, because nothing good can come of going on. It owns when to look and what that means for the process; how a store is
// looked at, and which fault passes by waiting, is each store's plumbing to say. It comes before everything that uses a store.
package storewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/lifecycle"
	"hanjul/pkg/telemetry"
)

// MetricUp is the gauge of each store.
const MetricUp = "hanjul_store_up"

const (
	checkWithin = 15 * time.Second
	pingWithin  = 3 * time.Second
	stopWithin  = time.Second
)

// Store is one thing that the process stands on. Both functions return when their context ends.
type Store struct {
	// Name is its label in the metric: redis, kafka, postgres.
	Name string
	// Check looks whether the store is what the settings say. away says that the error passes by waiting; any other error
	// ends the process. It is repeated until it has passed once.
	Check func(ctx context.Context) (away bool, err error)
	// Ping asks for a sign of life, again and again. Any error means that the store is away.
	Ping func(ctx context.Context) error
}

// Config is what a Watch is made with. Zero values take the defaults.
type Config struct {
	// Patience is how long those that start behind the watch wait for stores that are away; 0: for ever. What is found
	// wrong later still ends the process.
	Patience time.Duration
	// Again is the pause between two tries of a check; default 2 s.
	Again time.Duration
	// Every is the pause between two signs of life; default 5 s.
	Every      time.Duration
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Watch is the look-out of a process. Check is safe for concurrent use.
type Watch struct {
	cfg    Config
	stores []Store
	up     *prometheus.GaugeVec
	logs   map[string]*telemetry.Repeats // of each store, so that one that answers does not end another's complaint
	passed chan struct{}

	mu   sync.Mutex
	left map[string]error // stores that have not passed, and why not
}

// New makes a watch over stores of different names; an error when the metric is registered already. It looks at nothing before it runs.
func New(cfg Config, stores ...Store) (*Watch, error) {
	if cfg.Again <= 0 {
		cfg.Again = 2 * time.Second
	}
	if cfg.Every <= 0 {
		cfg.Every = 5 * time.Second
	}
	w := &Watch{
		cfg: cfg, stores: stores, logs: make(map[string]*telemetry.Repeats, len(stores)),
		passed: make(chan struct{}), left: make(map[string]error, len(stores)),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: MetricUp, Help: "1 while the last look at a store (redis, kafka, postgres) was answered; 0 while it is away, or was never seen.",
		}, []string{"store"}),
	}
	if err := cfg.Registerer.Register(w.up); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	for _, s := range stores {
		w.up.WithLabelValues(s.Name).Set(0)
		w.left[s.Name] = errors.New("not looked at yet")
		w.logs[s.Name] = telemetry.NewRepeats(cfg.Logger, 30*time.Second)
	}
	return w, nil
}

// Component is the watch as a part of a process: behind everything that uses a store, so that those start when it is ready.
func (w *Watch) Component() lifecycle.Component {
	return lifecycle.Component{Name: "stores", Run: w.Run, Ready: w.Ready, StopWithin: stopWithin}
}

// Ready waits until every store has passed its check, or for as long as the patience lasts.
func (w *Watch) Ready(ctx context.Context) error {
	if w.cfg.Patience > 0 {
		timer := time.NewTimer(w.cfg.Patience)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-w.passed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-w.passed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Checked returns nil once every store has passed its check, and before that why one has not.
func (w *Watch) Checked(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var faults []error
	for _, s := range w.stores {
		if err := w.left[s.Name]; err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	return errors.Join(faults...)
}

// Run looks until ctx ends and returns nil, or at once the error of a store that is set up wrongly. Call it once.
func (w *Watch) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, s := range w.stores {
		wg.Go(func() {
			if err := w.check(ctx, s); err != nil {
				cancel(err)
				return
			}
			w.ping(ctx, s)
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// check looks until the store has passed, and returns what is wrong with it; nil when ctx ended.
func (w *Watch) check(ctx context.Context, s Store) error {
	const complaint = "a server does not answer yet"
	for {
		within, cancel := context.WithTimeout(ctx, checkWithin)
		away, err := s.Check(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // asked to stop: what came up on the way is no failure
		case err == nil:
			w.logs[s.Name].Over(ctx, complaint)
			w.up.WithLabelValues(s.Name).Set(1)
			w.done(s)
			return nil
		case !away:
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		w.logs[s.Name].Warn(ctx, complaint, slog.String("store", s.Name), slog.Any("err", err))
		w.mu.Lock()
		w.left[s.Name] = err
		w.mu.Unlock()
		if !pause(ctx, w.cfg.Again) {
			return nil
		}
	}
}

func (w *Watch) done(s Store) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.left, s.Name)
	if len(w.left) == 0 {
		close(w.passed)
	}
}

// ping asks for signs of life until ctx ends.
func (w *Watch) ping(ctx context.Context, s Store) {
	const complaint = "a store is away"
	for pause(ctx, w.cfg.Every) {
		within, cancel := context.WithTimeout(ctx, pingWithin)
		err := s.Ping(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.logs[s.Name].Warn(ctx, complaint, slog.String("store", s.Name), slog.Any("err", err))
			w.up.WithLabelValues(s.Name).Set(0)
		default:
			w.logs[s.Name].Over(ctx, complaint)
			w.up.WithLabelValues(s.Name).Set(1)
		}
	}
}

// pause returns false when ctx ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
