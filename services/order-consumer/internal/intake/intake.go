package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"hanjul/pkg/kafka"
)

var (
	// ErrNotReady means that this member has no part in the group, or that a
	// partition of it cannot go on.
	ErrNotReady = errors.New("intake: not ready")
	// ErrPartitions means that the topic is not the configured one.
	ErrPartitions = errors.New("intake: wrong partition count")
)

// Intake is a member of the consumer group. Ready is safe for concurrent use.
type Intake struct {
	cfg     Config
	handle  Handler
	client  *kafka.Client // Fetches and asks; its connections are busy waiting.
	conns   *kafka.Conns  // Those of the membership.
	metrics *metrics
	work    sync.WaitGroup // Partitions that are not idle yet.
	fail    context.CancelCauseFunc

	mu       sync.Mutex
	active   bool
	lastErr  error
	stranded map[int]error
	workers  map[*worker]*time.Timer // Of those that are stuck: until the intake fails.
}

// New returns an intake; it connects when Run is called.
func New(cfg Config, handle Handler) (*Intake, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}

	cfg = cfg.withDefaults()

	client, err := kafka.NewClient(cfg.Config)
	if err != nil {
		return nil, err
	}

	conns, err := kafka.NewConns(cfg.Config)
	if err != nil {
		client.Close()

		return nil, err
	}

	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		client.Close()

		return nil, err
	}

	return &Intake{
		cfg:      cfg,
		handle:   handle,
		client:   client,
		conns:    conns,
		metrics:  m,
		stranded: make(map[int]error),
		workers:  make(map[*worker]*time.Timer),
	}, nil
}

// Ready returns nil while this member has a part in the group that the broker
// confirms by heartbeats, be it without partitions, and all its partitions can
// go on. Otherwise the error, an ErrNotReady, says why.
func (i *Intake) Ready() error {
	i.mu.Lock()
	defer i.mu.Unlock()

	if !i.active {
		if i.lastErr != nil {
			return fmt.Errorf("%w: group %s: %w", ErrNotReady, i.cfg.Group, i.lastErr)
		}

		return fmt.Errorf("%w: group %s is not joined", ErrNotReady, i.cfg.Group)
	}

	var faults []error
	for _, err := range i.stranded {
		faults = append(faults, err)
	}

	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}

	return nil
}

// Run joins the group and consumes until ctx ends. Then it reads no more,
// finishes the batches in hand within StopFor, commits them, leaves the group,
// ends all goroutines and connections and returns nil. It returns an error only
// when it must not go on: an ErrPartitions, or an ErrStuck, which leaves a
// goroutine behind that only the end of the process ends. Everything else is
// waited out. It is called once.
func (i *Intake) Run(ctx context.Context) error {
	defer i.client.Close()
	defer i.conns.Close()

	reading, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	i.fail = fail

	if err := i.checkTopic(reading); err != nil {
		return stopped(ctx, err)
	}

	group, err := i.join()
	if err != nil {
		return err
	}

	working, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)

	i.generations(reading, working, group)

	if err := context.Cause(reading); errors.Is(err, ErrStuck) {
		abort(err)

		go i.leave(group) // Should the worker end after all; who runs us ends the process.

		return err
	}

	i.finish(abort)
	i.leave(group)

	return stopped(ctx, context.Cause(reading))
}

// stopped is nil when the caller asked to stop, else why we did.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // asked to stop: whatever came up on the way is no failure
	}

	return err
}

// join begins the membership in the background.
func (i *Intake) join() (*kafkago.ConsumerGroup, error) {
	return kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID:                i.cfg.Group,
		Brokers:           i.cfg.Brokers,
		Topics:            []string{i.cfg.Topic},
		Dialer:            i.conns.Dialer(),
		SessionTimeout:    i.cfg.Session,
		HeartbeatInterval: i.cfg.Heartbeat,
		RebalanceTimeout:  i.cfg.Rebalance,
		JoinGroupBackoff:  i.cfg.JoinBackoff,
		Timeout:           i.cfg.Timeout,
		// With the last offset, records written before the first commit of a
		// partition would be passed over at each rebalance.
		StartOffset: kafkago.FirstOffset,
		ErrorLogger: kafkago.LoggerFunc(func(format string, args ...any) {
			i.cfg.Logger.Debug("consumer group", slog.String("detail", fmt.Sprintf(format, args...)))
		}),
	})
}

// generations takes one generation after the other until reading ends. Next
// must always be waited for: the library hands over errors and generations only
// to somebody who is there.
func (i *Intake) generations(reading, working context.Context, group *kafkago.ConsumerGroup) {
	for {
		generation, err := group.Next(reading)

		switch {
		case reading.Err() != nil:
			return
		case err != nil:
			err = i.withRight(err)
			i.metrics.joinErrors.Inc()
			i.cfg.Logger.Warn("join group", slog.String("group", i.cfg.Group), slog.Any("err", err))

			i.mu.Lock()
			i.lastErr = err
			i.mu.Unlock()
		default:
			i.begin(reading, working, generation)
		}
	}
}

// withRight names the right that a membership lacks.
func (i *Intake) withRight(err error) error {
	if errors.Is(err, kafkago.TopicAuthorizationFailed) {
		return kafka.WithRight(err, "Read", "topic", i.cfg.Topic)
	}

	return kafka.WithRight(err, "Read", "group", i.cfg.Group)
}

// begin starts the work of a generation. As soon as one of its functions
// returns, the generation ends for all of them.
func (i *Intake) begin(reading, working context.Context, g *kafkago.Generation) {
	assigned := g.Assignments[i.cfg.Topic]
	i.metrics.generations.Inc()
	i.metrics.assigned.Set(float64(len(assigned)))

	partitions := make([]int, 0, len(assigned))
	for _, a := range assigned {
		partitions = append(partitions, a.ID)
	}

	i.cfg.Logger.Info("joined group", slog.String("group", i.cfg.Group),
		slog.Int("generation", int(g.ID)), slog.Any("partitions", partitions))

	i.mu.Lock()
	i.active, i.lastErr = true, nil
	i.mu.Unlock()

	g.Start(func(ctx context.Context) {
		i.watch(ctx)

		i.mu.Lock()
		i.active = false
		i.mu.Unlock()
		i.metrics.assigned.Set(0)
	})

	for _, a := range assigned {
		i.work.Add(1)
		g.Start(func(ctx context.Context) {
			if i.consume(reading, working, ctx, g, a) {
				<-ctx.Done()
			}
		})
	}
}

// finish waits for the batches in hand, for a while.
func (i *Intake) finish(abort context.CancelCauseFunc) {
	idle := make(chan struct{})

	go func() {
		i.work.Wait()
		close(idle)
	}()

	timer := time.NewTimer(i.cfg.StopFor)
	defer timer.Stop()

	select {
	case <-idle:
	case <-timer.C:
		i.cfg.Logger.Warn("work in hand is given up", slog.Duration("after", i.cfg.StopFor))
		abort(context.DeadlineExceeded)
		<-idle
	}
}

// leave ends the membership, so that the others need not wait for our session
// to run out. The library waits for a join that is under way; such a one is cut.
func (i *Intake) leave(group *kafkago.ConsumerGroup) {
	left := make(chan struct{})

	go func() {
		defer close(left)

		_ = group.Close() // Always nil.
	}()

	timer := time.NewTimer(i.cfg.Timeout)
	defer timer.Stop()

	select {
	case <-left:
	case <-timer.C:
		i.conns.Close()
		<-left
	}
}
