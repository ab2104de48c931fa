package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
	"hanjul/pkg/telemetry"
	"hanjul/services/order-consumer/internal/relay"
)

// BackgroundConfig is what running replays in the background is set up with. Zero values take the defaults, but for Most.
type BackgroundConfig struct {
	Most   int           // replays that this process runs at the same time; 0: none
	Rate   int           // most events per second of each, whatever it asks for; default outbox.RateDefault
	Topics []string      // where events may be replayed to
	Look   time.Duration // between two looks for replays that wait, jittered; default 1 s
	Again  time.Duration // before the next run after one that failed; default 5 s
	Grace  time.Duration // how long a batch in hand may take once asked to stop; default 2 s
	// Connect makes a producer for the topic alone, beside the relay's, after it checked the topic; the returned function closes it.
	Connect func(ctx context.Context, topic string) (relay.Producer, func(), error)
	// Hook is the runners' own. Nil outside tests.
	Hook func(step string) error
}

func (c BackgroundConfig) withDefaults() BackgroundConfig {
	if c.Rate == 0 {
		c.Rate = outbox.RateDefault
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&c.Look, time.Second}, {&c.Again, 5 * time.Second}, {&c.Grace, 2 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	return c
}

// Background runs the replays that operators asked for over HTTP: whichever process is first takes one, and keeps it until it is done, cancelled or
// stopped. One whose process died, or was asked to stop, goes on in another from the progress in its row.
type Background struct {
	config  BackgroundConfig
	box     *outbox.Outbox
	metrics *metrics
	logger  *slog.Logger
	repeats *telemetry.Repeats
}

// NewBackground makes one; Run does the work.
func NewBackground(config BackgroundConfig, box *outbox.Outbox, registerer prometheus.Registerer, logger *slog.Logger) (*Background, error) {
	m, err := newMetrics(registerer)
	if err != nil {
		return nil, err
	}
	return &Background{config: config.withDefaults(), box: box, metrics: m, logger: logger, repeats: telemetry.NewRepeats(logger, time.Minute)}, nil
}

// Run takes replays and runs them, at most Most at a time, until ctx ends; then each gives back what it runs, within twice Grace. Faults of Postgres and
// Kafka are waited out; the only error is that of a hook.
func (b *Background) Run(ctx context.Context) error {
	if b.config.Most == 0 {
		b.logger.InfoContext(ctx, "replays in the background are off")
		<-ctx.Done()
		return nil
	}
	ctx, crash := context.WithCancelCause(ctx)
	defer crash(nil)
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, b.config.Most)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		replayer, err := b.claim(ctx)
		if err != nil {
			<-slots
			pause(ctx, b.config.Look/2+rand.N(b.config.Look))
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			err := b.run(ctx, replayer)
			switch {
			case errors.Is(err, errCrash):
				crash(err)
			case err != nil:
				pause(ctx, b.config.Again)
			}
		})
	}
	if err := context.Cause(ctx); errors.Is(err, errCrash) {
		return err
	}
	return nil
}

func (b *Background) claim(ctx context.Context) (*outbox.Replayer, error) {
	const complaint = "replays cannot be looked for"
	replayer, err := b.box.ClaimReplay(ctx)
	switch {
	case err == nil, errors.Is(err, outbox.ErrNoReplay):
		b.repeats.Over(ctx, complaint)
	case ctx.Err() == nil:
		b.repeats.Warn(ctx, complaint, slog.Any("err", err))
	}
	return replayer, err
}

// run runs one replay until it ends here, in whatever way. The error is a failure that may pass.
func (b *Background) run(ctx context.Context, replayer *outbox.Replayer) error {
	// The end of the session frees the claim; what this process had on its way then may arrive beside what the next one sends.
	defer replayer.Close(context.WithoutCancel(ctx))
	b.metrics.running.Inc()
	defer b.metrics.running.Dec()
	about := b.logger.With(slog.String("replay", replayer.ID), slog.String("product_id", string(replayer.Product)), slog.Int("attempt", replayer.Attempt))
	about.InfoContext(ctx, "replay begins", slog.String("topic", replayer.Topic), slog.String("operator", replayer.Operator),
		slog.Int64("events", replayer.Matched-replayer.Sent))

	counted := replayer.Sent
	runner := Runner{Box: b.box, Rate: b.config.Rate, Grace: b.config.Grace, Hook: b.config.Hook, Progress: func(r outbox.Replay) {
		b.metrics.events.Add(float64(r.Sent - counted))
		counted = r.Sent
	}}
	producer, end, err := b.connect(ctx, replayer)
	if err != nil {
		err = runner.end(ctx, replayer, err)
	} else {
		defer end()
		runner.Producer = producer
		err = runner.Run(ctx, replayer)
	}

	outcome, level := outcomeOf(err), slog.LevelInfo
	if outcome == outcomeStopped || outcome == outcomeFailed {
		level = slog.LevelWarn
	}
	b.metrics.runs.WithLabelValues(outcome).Inc()
	about.LogAttrs(ctx, level, "replay ends", slog.String("outcome", outcome), slog.Int64("sent", replayer.Sent), slog.Int64("missing", replayer.Missing),
		slog.Int64("next_seq", replayer.NextSeq), slog.Any("err", err))
	if outcome == outcomeFailed {
		return err
	}
	return nil
}

// connect waits for Kafka while the claim is held. A topic that events may not go to, or that is not as it must be, needs somebody.
func (b *Background) connect(ctx context.Context, replayer *outbox.Replayer) (relay.Producer, func(), error) {
	if !slices.Contains(b.config.Topics, replayer.Topic) { // The desk's settings may differ from ours (F31).
		return nil, nil, fmt.Errorf("%w: topic %s: order-consumer replays to %v only", errRefused, replayer.Topic, b.config.Topics)
	}
	for {
		producer, end, err := b.config.Connect(ctx, replayer.Topic)
		switch {
		case err == nil:
			return producer, end, nil
		case ctx.Err() != nil:
			return nil, nil, ErrStopped
		case !kafka.Transient(err):
			return nil, nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		b.repeats.Warn(ctx, "a replay waits for kafka", slog.Any("err", err))
		if err := check(ctx, replayer); err != nil {
			return nil, nil, err
		}
		pause(ctx, again)
	}
}

func check(ctx context.Context, replayer *outbox.Replayer) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWithin) // The end of ctx would take the session with it.
	defer cancel()
	return replayer.Check(within)
}

// How a run in the background may end.
const (
	outcomeDone      = "done"
	outcomeCancelled = "cancelled"
	outcomeStopped   = "stopped"  // until somebody puts right what is wrong
	outcomeGiven     = "given_up" // this process was asked to stop
	outcomeLost      = "lost"     // to another process
	outcomeFailed    = "failed"   // to be tried again
)

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, outbox.ErrCancelled):
		return outcomeCancelled
	case errors.Is(err, errRefused):
		return outcomeStopped
	case errors.Is(err, ErrStopped):
		return outcomeGiven
	case errors.Is(err, outbox.ErrLost):
		return outcomeLost
	}
	return outcomeFailed
}
