package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/kafka"
)

// Defaults of Config.
const (
	defaultMaxRecords  = 500
	defaultMaxBytes    = 1 << 20
	defaultMaxWait     = 500 * time.Millisecond
	defaultSession     = 10 * time.Second
	defaultHeartbeat   = time.Second
	defaultRebalance   = 10 * time.Second
	defaultJoinBackoff = 500 * time.Millisecond
	defaultStopFor     = 10 * time.Second
	defaultCheckEvery  = 10 * time.Second
	defaultWindow      = 2000
	defaultStuckAfter  = time.Minute
)

// Batch is some records of one partition, in the order of the log. Between
// them may lie others that came or will come in another batch, of other
// products only.
type Batch struct {
	Topic     string
	Partition int
	Records   []kafka.Message
	// Next is the offset below which every record has its verdict once those of
	// this batch have theirs. It may be below the last of them.
	Next      int64
	HighWater int64 // One past the last record of the log when these were read.
	Prepared  any   // What Config.Prepare made of it; nil without one.
}

// Handler works on a batch. Without an error every record of it has its
// verdict or is parked, durably, and once what it returns has been called
// without an error too, the offset may be committed; nil for what it returns
// says that nothing is left to do. What is left runs while the batch after it
// is handled, but for the redo of one of the two: at most one batch is ahead, and
// what is left of it waits for what is left of the one before. On any
// error the same batch comes again after a pause, from the beginning, until it
// succeeds or this member loses the partition; other partitions go on
// meanwhile. The context ends when the partition is lost or the time to stop is
// over; a handler must return soon then, since the whole group waits for it. It
// is called concurrently for different partitions.
type Handler func(ctx context.Context, batch Batch) (Rest, error)

// Rest is what is left to do of a batch that is judged: what may be repeated,
// and may come late.
type Rest func(ctx context.Context) error

// Progress tells the next offset that the ledger has not judged yet. With ok
// false it has judged nothing of the partition.
type Progress func(ctx context.Context, topic string, partition int) (next int64, ok bool, err error)

// Config configures an Intake. Zero values mean the defaults.
type Config struct {
	kafka.Config
	// Group and Topic are what is consumed; Partitions is the configured count
	// of the topic. With another count the intake refuses to run.
	Group, Topic string
	Partitions   int
	// MaxRecords bounds a batch (500), MaxBytes an answer of a broker (1 MiB),
	// MaxWait how long a broker waits for a first record (500 ms).
	MaxRecords, MaxBytes int
	MaxWait              time.Duration
	// Session is how long a dead member keeps its partitions (10 s). Heartbeat
	// is how often a member reports and learns of a rebalance (1 s), at most a
	// third of it. Rebalance is how long the group waits for a member that is
	// still at work (10 s). JoinBackoff is the pause after a failed join
	// (500 ms).
	Session, Heartbeat, Rebalance, JoinBackoff time.Duration
	// StopFor bounds the work in hand after Run was asked to stop (10 s).
	StopFor time.Duration
	// CheckEvery is how often partition count and assignment are checked (10 s).
	CheckEvery time.Duration
	// Progress, when given, is asked where to start: at the smaller of it and
	// the committed offset, and at the first record of the log where either
	// knows nothing. So a ledger that lost its tail gets it judged again (F34).
	Progress Progress
	// Window is how many records are read ahead, among which products take
	// turns (2,000): within it the only order of one product is not behind the
	// many of another.
	Window int
	// StuckAfter is how long a worker with records to handle may give no sign
	// of life, while it waits for no store, before its generation is dropped
	// (1 min).
	StuckAfter time.Duration
	// Prepare, when given, is called once with each batch ahead of its turn,
	// while the batch before it is in hand. It must touch nothing outside: the
	// batch may never be handled. It is called concurrently for different
	// partitions.
	Prepare func(Batch) any
	// Registerer takes the metrics; nil means that none are registered.
	Registerer prometheus.Registerer
	// Logger hears what happens; nil means silence.
	Logger *slog.Logger
}

// Validate reports all faults of the configuration at once, after defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	faults := []error{c.Config.Validate()}

	if c.Group == "" {
		faults = append(faults, errors.New("intake: no group"))
	}

	if c.Topic == "" {
		faults = append(faults, errors.New("intake: no topic"))
	}

	if c.Partitions <= 0 {
		faults = append(faults, fmt.Errorf("intake: partition count %d is not positive", c.Partitions))
	}

	if c.MaxRecords < 0 || c.MaxBytes < 0 || c.Window < 0 {
		faults = append(faults, errors.New("intake: negative bound"))
	}

	for _, d := range []time.Duration{c.MaxWait, c.Session, c.Heartbeat, c.Rebalance, c.JoinBackoff, c.StopFor, c.CheckEvery, c.StuckAfter} {
		if d < 0 {
			faults = append(faults, errors.New("intake: negative duration"))

			break
		}
	}

	if 3*c.Heartbeat > c.Session {
		faults = append(faults, fmt.Errorf("intake: heartbeat %v is more than a third of the session %v", c.Heartbeat, c.Session))
	}

	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	c.MaxRecords = orDefault(c.MaxRecords, defaultMaxRecords)
	c.MaxBytes = orDefault(c.MaxBytes, defaultMaxBytes)
	c.MaxWait = orDefault(c.MaxWait, defaultMaxWait)
	c.Session = orDefault(c.Session, defaultSession)
	c.Heartbeat = orDefault(c.Heartbeat, min(defaultHeartbeat, c.Session/3))
	c.Rebalance = orDefault(c.Rebalance, defaultRebalance)
	c.JoinBackoff = orDefault(c.JoinBackoff, defaultJoinBackoff)
	c.StopFor = orDefault(c.StopFor, defaultStopFor)
	c.CheckEvery = orDefault(c.CheckEvery, defaultCheckEvery)
	c.Window = orDefault(c.Window, defaultWindow)
	c.StuckAfter = orDefault(c.StuckAfter, defaultStuckAfter)
	c.Topics = []string{c.Topic}
	c.Timeout = orDefault(c.Timeout, 5*time.Second)

	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	return c
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}

	return value
}
