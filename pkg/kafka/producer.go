package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome is what is known of a record after it was handed over.
type Outcome int

const (
	// Unknown: the record may or may not be in the log, now or later. It must
	// be answered as pending and may be sent again under the same id.
	Unknown Outcome = iota
	// Accepted: all replicas asked for have it.
	Accepted
	// Refused: it is surely not in the log, will not be, and sending the same
	// record again would be refused again.
	Refused
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	default:
		return "unknown"
	}
}

// Result is the outcome of one record. Err is nil exactly when it is Accepted;
// Partition and Offset mean something only then.
type Result struct {
	Outcome   Outcome
	Err       error
	Partition int
	Offset    int64
}

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

// Slot is a place in the queue for one record. Use it once: Send or Release.
type Slot struct {
	producer *Producer
	used     atomic.Bool
}

// Reserve takes a place in the queue at once, before anything irrevocable is
// done for the record. ErrFull means overload, ErrClosed that the producer
// stops; neither waits.
func (p *Producer) Reserve() (*Slot, error) {
	select {
	case <-p.closing:
		return nil, ErrClosed
	default:
	}

	select {
	case p.places <- struct{}{}:
		return &Slot{producer: p}, nil
	default:
		p.metrics.full.Inc()

		return nil, ErrFull
	}
}

// Release gives an unused place back. It is safe to call at any time, more than
// once, and after Send.
func (s *Slot) Release() {
	if !s.used.Swap(true) {
		<-s.producer.places
	}
}

// Send hands the record over and waits for its outcome, using the slot up. When
// ctx ends first the outcome is Unknown and the record may still be sent, once;
// its place is taken until then.
func (s *Slot) Send(ctx context.Context, record Record) Result {
	if s.used.Swap(true) {
		return Result{Outcome: Unknown, Err: ErrSlotUsed}
	}

	item := newItem(record, nil, 0)
	if result, ok := s.producer.enqueue(item); !ok {
		<-s.producer.places

		return result
	}

	return item.wait(ctx)
}

// Produce hands the records over, waiting for places, and waits for all
// outcomes, which come in the order of the records. Records of one key are sent
// in their order; once one of them is not Accepted, the later ones of that key
// in this call are not sent (ErrBehind, or the outcome of the batch they shared
// with it). When ctx ends or the producer stops, the rest is Unknown.
func (p *Producer) Produce(ctx context.Context, records []Record) []Result {
	results := make([]Result, len(records))
	items := make([]*item, len(records))
	chains := make(map[string]*chain)

	for i, record := range records {
		id := record.Topic + "\x00" + string(record.Key)
		if chains[id] == nil {
			chains[id] = newChain()
		}

		if err := p.place(ctx); err != nil {
			for j := i; j < len(records); j++ {
				results[j] = Result{Outcome: Unknown, Err: fmt.Errorf("wait for a place: %w", err)}
			}

			break
		}

		item := newItem(record, chains[id], i)
		if result, ok := p.enqueue(item); !ok {
			<-p.places
			results[i] = result
			chains[id].breakAt(i)

			continue
		}

		items[i] = item
	}

	for i, item := range items {
		if item != nil {
			results[i] = item.wait(ctx)
		}
	}

	return results
}

func (p *Producer) place(ctx context.Context) error {
	select {
	case <-p.closing:
		return ErrClosed
	default:
	}

	select {
	case p.places <- struct{}{}:
		return nil
	case <-p.closing:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enqueue puts the item, which has its place, into its lane. When it does not,
// the result says why and the caller gives the place back.
func (p *Producer) enqueue(it *item) (Result, bool) {
	count, ok := p.cfg.Partitions[it.record.Topic]

	switch {
	case !ok:
		return p.refuse(it, fmt.Errorf("topic %q: %w", it.record.Topic, ErrNoTopic)), false
	case len(it.record.Key) == 0:
		return p.refuse(it, ErrNoKey), false
	case it.size+batchOverhead > p.cfg.BatchBytes:
		return p.refuse(it, fmt.Errorf("%d bytes of at most %d: %w", it.size+batchOverhead, p.cfg.BatchBytes, ErrTooLarge)), false
	}

	id := laneID{topic: it.record.Topic, partition: Partition(it.record.Key, count)}

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed {
		return Result{Outcome: Unknown, Err: ErrClosed}, false
	}

	l := p.lanes[id]
	if l == nil {
		l = newLane(p, id)
		p.lanes[id] = l

		if p.running {
			p.start(l)
		}
	}

	l.push(it)

	return Result{}, true
}

func (p *Producer) refuse(it *item, err error) Result {
	if _, ok := p.cfg.Partitions[it.record.Topic]; ok { // Else the label would be the caller's choice.
		p.metrics.records.WithLabelValues(it.record.Topic, Refused.String()).Inc()
	}

	return Result{Outcome: Refused, Err: err}
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
