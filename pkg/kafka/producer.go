package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of ProducerConfig.
const (
	defaultQueueRecords = 10_000
	defaultBatchRecords = 1_000
	defaultBatchBytes   = 900 << 10 // Below the broker's default limit of 1 MiB and a little.
	defaultRetryFor     = 15 * time.Second
)

// ProducerConfig configures a Producer. Zero numbers mean the defaults.
type ProducerConfig struct {
	Config
	// Partitions is the configured partition count of each topic that may be
	// produced to. Keys are placed by it and never by metadata.
	Partitions map[string]int
	// QueueRecords bounds the records that wait or are on their way, over all
	// partitions; default 10,000.
	QueueRecords int
	// BatchRecords and BatchBytes bound one request; defaults 1,000 and 900 KiB.
	BatchRecords, BatchBytes int
	// RetryFor bounds the tries of one batch; default 15 s. It must exceed the
	// time in which the cluster notices a dead leader (9 s by default) and a
	// refresh of metadata, or a killed broker becomes unknown outcomes.
	RetryFor time.Duration
	// DrainFor bounds how long Run goes on sending what waits after it was
	// asked to stop; default RetryFor.
	DrainFor time.Duration
	// Registerer takes the metrics; nil means that none are registered.
	Registerer prometheus.Registerer
	// Logger hears about retries and refusals; nil means silence.
	Logger *slog.Logger
	// Now gives the timestamp of a record at each attempt; nil means time.Now.
	Now func() time.Time
}

// Validate reports all faults of the configuration at once.
func (c ProducerConfig) Validate() error {
	faults := []error{c.Config.Validate()}

	if len(c.Partitions) == 0 {
		faults = append(faults, errors.New("kafka: no topic to produce to"))
	}

	for topic, count := range c.Partitions {
		if count <= 0 {
			faults = append(faults, fmt.Errorf("kafka: topic %s: partition count %d is not positive", topic, count))
		}
	}

	if c.QueueRecords < 0 || c.BatchRecords < 0 || c.BatchBytes < 0 || c.RetryFor < 0 || c.DrainFor < 0 {
		faults = append(faults, errors.New("kafka: negative bound"))
	}

	return errors.Join(faults...)
}

func (c ProducerConfig) withDefaults() ProducerConfig {
	c.Config = c.Config.withDefaults()
	c.QueueRecords = orDefault(c.QueueRecords, defaultQueueRecords)
	c.BatchRecords = orDefault(c.BatchRecords, defaultBatchRecords)
	c.BatchBytes = orDefault(c.BatchBytes, defaultBatchBytes)
	c.RetryFor = orDefault(c.RetryFor, defaultRetryFor)
	c.DrainFor = orDefault(c.DrainFor, c.RetryFor)

	if len(c.Topics) == 0 {
		for topic := range c.Partitions {
			c.Topics = append(c.Topics, topic)
		}
	}

	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	if c.Now == nil {
		c.Now = time.Now
	}

	return c
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}

	return value
}

// Producer writes records with acknowledgement by all replicas. Per partition
// one request is on its way; what waits meanwhile leaves together in the next
// one, without a timer. A batch without a clear answer is sent again, unchanged
// and before anything newer, so the first copies of a key's records are in
// order and later copies repeat them. It is safe for concurrent use.
type Producer struct {
	cfg     ProducerConfig
	client  *Client
	metrics *producerMetrics

	// places holds one token for each record that is reserved, waits or is on
	// its way. A token comes back when the record's outcome is decided, not
	// when its sender stopped waiting: that is what bounds memory.
	places  chan struct{}
	closing chan struct{}

	mu      sync.Mutex // Guards what follows and the queue of every lane.
	lanes   map[laneID]*lane
	hard    context.Context // Set by Run, for lanes that begin later.
	running bool
	closed  bool
	wg      sync.WaitGroup
}

type laneID struct {
	topic     string
	partition int
}

// NewProducer returns a producer. Records handed over wait until Run is called.
func NewProducer(cfg ProducerConfig) (*Producer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}

	cfg = cfg.withDefaults()

	client, err := NewClient(cfg.Config)
	if err != nil {
		return nil, err
	}

	p := &Producer{
		cfg:     cfg,
		client:  client,
		places:  make(chan struct{}, cfg.QueueRecords),
		closing: make(chan struct{}),
		lanes:   make(map[laneID]*lane),
	}

	if p.metrics, err = newProducerMetrics(cfg.Registerer, func() float64 { return float64(len(p.places)) }); err != nil {
		client.Close()

		return nil, err
	}

	return p, nil
}

// start begins the goroutine of a lane; the caller holds mu.
func (p *Producer) start(l *lane) {
	p.wg.Add(1)

	go func() {
		defer p.wg.Done()
		l.run(p.hard)
	}()
}

// Run sends what is handed over, one goroutine per partition in use, until ctx
// ends. Then it takes no more records, goes on with those that wait for at most
// DrainFor, gives what is left the outcome Unknown, ends all goroutines and
// connections, and returns; the error says how many records were left. It is
// called once.
func (p *Producer) Run(ctx context.Context) error {
	// What is on its way is finished after ctx ended.
	hard, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(ErrClosed)

	p.mu.Lock()
	p.hard, p.running = hard, true

	for _, l := range p.lanes {
		p.start(l)
	}
	p.mu.Unlock()

	<-ctx.Done()

	p.mu.Lock()
	p.closed = true
	close(p.closing)
	p.mu.Unlock()

	drained := make(chan struct{})

	go func() {
		p.wg.Wait()
		close(drained)
	}()

	timer := time.NewTimer(p.cfg.DrainFor)
	defer timer.Stop()

	select {
	case <-drained:
	case <-timer.C:
		abort(ErrClosed)
		<-drained
	}

	p.client.Close()

	left := 0

	for _, l := range p.lanes { // Nobody else touches lanes any more.
		left += l.abandoned
	}

	if left > 0 {
		return fmt.Errorf("stop producer: %d records without an answer", left)
	}

	return nil
}
