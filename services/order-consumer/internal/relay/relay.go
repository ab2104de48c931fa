// Package relay publishes what the ledger's transactions wrote into the outbox: the events of each product in the order of
// their seq, commands and dead letters in the order of their numbers. It owns the loop, the order in which records are handed over
// and what is said about them in headers; the rows are package outbox's, the sending is pkg/kafka's. It decides nothing and
// changes no row but to note that it was published. Before it in the flow is fulfil, after it the readers of order-events.
//
// Order (I9). One process at a time publishes a product: the one that owns its shard of the outbox. It hands a product's rows over together, in order; the producer sends records of
// one key through one partition with one request on its way, as one batch that is appended whole or not at all, sends a batch in
// doubt again unchanged before anything newer, and drops what stands behind a record that was not acknowledged. So k+1 is never in the
// log without k before it. Rows are marked after the acknowledgement, and of a lane only up to the first that has none. A crash
// between the two, and an owner that was paused after claiming, publish rows again: same id, same seq, behind their first
// occurrence.
package relay

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
	"hanjul/pkg/telemetry"
)

// Producer is what the relay needs of kafka.Producer; its promise about order is the one that this package rests on.
type Producer interface {
	Produce(ctx context.Context, records []kafka.Record) []kafka.Result
}

// Config is what a relay is made with. Zero values take the defaults.
type Config struct {
	Batch     int           // most rows of one pass; default 1000
	Idle      time.Duration // pause before looking again when nothing waited and nobody hinted; default 250 ms
	Debounce  time.Duration // a hint is followed by this pause, so that what comes together leaves together; default 2 ms
	StandBy   time.Duration // pause between attempts to connect, and between two looks at who shares the outbox, jittered; default 1 s
	Shards    int           // shards of the outbox, the same for all processes; default 8
	Off       bool          // publish nothing, because something else does; partitions are made and the backlog is measured all the same
	Days      int           // partitions of the outbox that are kept ready, today included; default 8
	Retention time.Duration // how long a partition is kept after its day; default 14 days
	Grace     time.Duration // how long the last passes may take once asked to stop; default 5 s
	// Hook is called after the steps "claimed", "produced" and "marked" of a pass; an error stands for a crash there. Nil outside tests.
	Hook func(step string) error
}

func (c Config) withDefaults() Config {
	if c.Batch == 0 {
		c.Batch = 1000
	}
	if c.Shards == 0 {
		c.Shards = 8
	}
	if c.Days == 0 {
		c.Days = 8
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.Idle, 250 * time.Millisecond},
		{&c.Debounce, 2 * time.Millisecond},
		{&c.StandBy, time.Second},
		{&c.Grace, 5 * time.Second},
		{&c.Retention, 14 * 24 * time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.Hook == nil {
		c.Hook = func(string) error { return nil }
	}
	return c
}

// Relay is one process's share of publishing.
type Relay struct {
	config   Config
	box      *outbox.Outbox
	producer Producer
	metrics  *metrics
	logger   *slog.Logger
	repeats  *telemetry.Repeats
	wake     chan struct{}
	holds    *holds
	leaving  []int     // shards that go to another process once nothing of them is on its way
	balance  time.Time // when to look again at who shares the outbox
}

// New makes a relay; Run does the work.
func New(config Config, box *outbox.Outbox, producer Producer, registerer prometheus.Registerer, logger *slog.Logger) (*Relay, error) {
	m, err := newMetrics(registerer)
	if err != nil {
		return nil, err
	}
	return &Relay{
		config: config.withDefaults(), box: box, producer: producer, metrics: m, logger: logger,
		repeats: telemetry.NewRepeats(logger, time.Minute), wake: make(chan struct{}, 1), holds: newHolds(),
	}, nil
}

// Hint says that rows were written, so that the relay need not wait for its next look. It never blocks; a lost hint costs one
// pause. Safe for concurrent use.
func (r *Relay) Hint() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// errCrash marks the error of a hook.
var errCrash = errors.New("relay crashed on purpose")

// Run publishes, or stands by, until ctx ends; then it finishes what waits, within Grace, and gives the ownership back. Faults of
// Postgres and Kafka are waited out; the only error is that of a hook.
func (r *Relay) Run(ctx context.Context) error {
	over := make(chan struct{})
	keeping, stop := context.WithCancel(ctx)
	go func() {
		defer close(over)
		r.keep(keeping)
	}()
	defer func() {
		stop()
		<-over
	}()
	if r.config.Off {
		r.logger.InfoContext(ctx, "relay is off")
		<-ctx.Done()
		return nil
	}
	for ctx.Err() == nil {
		owner, err := r.box.Own(ctx, r.config.Shards)
		switch {
		case err == nil:
			if err := r.own(ctx, owner); errors.Is(err, errCrash) {
				return err
			}
		case ctx.Err() == nil:
			r.repeats.Warn(ctx, "outbox cannot be owned", slog.Any("err", err))
		}
		r.pause(ctx, r.jitter())
	}
	return nil
}

func (r *Relay) jitter() time.Duration { return r.config.StandBy/2 + rand.N(r.config.StandBy) }

// own publishes as long as the ownership holds. The error is why it ended, or nil when ctx did.
func (r *Relay) own(ctx context.Context, owner *outbox.Owner) error {
	// Rows that are claimed and sent are to be marked, so the end of ctx does not cut a pass.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.config.Grace, cancel) })()
	defer owner.Close(context.WithoutCancel(ctx))
	r.repeats.Over(ctx, "outbox cannot be owned")
	r.holds, r.leaving, r.balance = newHolds(), nil, time.Time{}
	defer func() {
		r.metrics.shards.Set(0)
		r.metrics.stuck.Set(0)
	}()

	err := r.rounds(ctx, work, owner)
	switch {
	case err == nil:
		r.logger.InfoContext(ctx, "outbox given back")
	case work.Err() != nil:
		r.logger.WarnContext(ctx, "outbox left with rows on their way", slog.Any("err", err))
	default:
		r.metrics.stepDowns.Inc()
		r.repeats.Warn(ctx, "outbox lost", slog.Any("err", err))
	}
	return err
}

// rounds makes pass after pass, and pauses where one found nothing. Once ctx ended it makes the last ones.
func (r *Relay) rounds(ctx, work context.Context, owner *outbox.Owner) error {
	f := newFlight(work, r.producer)
	defer f.abandon()
	polled := true
	for {
		if err := r.share(ctx, work, owner, f); err != nil {
			return err
		}
		n, err := r.pass(work, owner, f, polled)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		var landed []landing
		switch {
		case ctx.Err() == nil:
			landed, polled = r.rest(ctx, f)
		case len(f.lanes) > 0:
			landed = f.drain()
		default:
			return nil
		}
		if err := r.note(work, owner, landed); err != nil {
			return err
		}
	}
}

// rest waits for a late answer, a hint, the end of a hold or the next look; polled says that it was the latter.
func (r *Relay) rest(ctx context.Context, f *flight) (landed []landing, polled bool) {
	now := time.Now()
	timer := time.NewTimer(r.holds.rest(min(r.config.Idle, r.balance.Sub(now)), now))
	defer timer.Stop()
	select {
	case l := <-f.landings:
		return []landing{f.land(l)}, false
	case <-r.wake:
		r.pause(ctx, r.config.Debounce)
		return nil, false
	case <-timer.C:
		return nil, true
	case <-ctx.Done():
		return nil, true
	}
}

func (r *Relay) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
