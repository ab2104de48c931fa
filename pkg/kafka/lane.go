package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	// batchOverhead is the size of the header of a record batch.
	batchOverhead = 61
	// recordOverhead is an upper bound of the lengths and deltas of a record.
	recordOverhead = 1 + 5 + 10 + 5 + 5 + 5 + 5
	// headerOverhead is the same for a header.
	headerOverhead = 5 + 5
)

// chain ties the records of one key and one call together.
type chain struct {
	broken atomic.Int64 // Position of the first one without an acknowledgement.
}

func newChain() *chain {
	c := &chain{}
	c.broken.Store(math.MaxInt64)

	return c
}

// breakAt holds back what comes after the position.
func (c *chain) breakAt(position int) {
	for {
		old := c.broken.Load()
		if old <= int64(position) || c.broken.CompareAndSwap(old, int64(position)) {
			return
		}
	}
}

// item is a record on its way.
type item struct {
	record   Record
	size     int    // Upper bound of its encoded size.
	chain    *chain // Nil when nothing depends on it.
	position int    // In its chain.
	done     chan Result
}

func newItem(record Record, c *chain, position int) *item {
	size := recordOverhead + len(record.Key) + len(record.Value)
	for _, h := range record.Headers {
		size += headerOverhead + len(h.Key) + len(h.Value)
	}

	return &item{record: record, size: size, chain: c, position: position, done: make(chan Result, 1)}
}

// wait returns the outcome, or Unknown when ctx ends before there is one. An
// outcome that is there wins over a deadline that passed at the same time.
func (it *item) wait(ctx context.Context) Result {
	select {
	case result := <-it.done:
		return result
	case <-ctx.Done():
	}

	select {
	case result := <-it.done:
		return result
	default:
		return Result{Outcome: Unknown, Err: fmt.Errorf("wait for the outcome: %w", context.Cause(ctx))}
	}
}

// lane is the queue of one partition and the goroutine that empties it.
type lane struct {
	laneID
	producer *Producer
	queue    []*item       // Guarded by the producer's mu.
	wake     chan struct{} // Holds at most one token: something was pushed.

	abandoned int // Records left when the producer stopped; read after run ended.
}

func newLane(p *Producer, id laneID) *lane {
	return &lane{laneID: id, producer: p, wake: make(chan struct{}, 1)}
}

// push appends; the caller holds the producer's mu.
func (l *lane) push(it *item) {
	l.queue = append(l.queue, it)

	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run sends batch after batch until the producer is closed and nothing waits.
func (l *lane) run(ctx context.Context) {
	for {
		batch := l.next()
		if batch == nil {
			return
		}

		if batch = l.unbroken(batch); len(batch) > 0 {
			l.deliver(ctx, batch, false)
		}
	}
}

// next takes what waits, up to the bounds of a batch, and waits when there is
// nothing. It returns nil when the producer is closed and nothing waits.
func (l *lane) next() []*item {
	for {
		l.producer.mu.Lock()
		batch, closed := l.take(), l.producer.closed
		l.producer.mu.Unlock()

		if batch != nil || closed {
			return batch
		}

		select {
		case <-l.wake:
		case <-l.producer.closing:
		}
	}
}

func (l *lane) take() []*item {
	if len(l.queue) == 0 {
		return nil
	}

	count, bytes := 0, batchOverhead
	for count < len(l.queue) && count < l.producer.cfg.BatchRecords {
		bytes += l.queue[count].size
		if count > 0 && bytes > l.producer.cfg.BatchBytes {
			break
		}

		count++
	}

	batch := l.queue[:count:count]
	l.queue = l.queue[count:]

	if len(l.queue) == 0 {
		l.queue = nil // Gives the memory of a burst back.
	}

	return batch
}

// unbroken drops the items whose chain broke and returns the others.
func (l *lane) unbroken(batch []*item) []*item {
	kept := batch[:0:0]

	for _, it := range batch {
		if it.chain != nil && it.chain.broken.Load() < int64(it.position) {
			l.decide(it, Result{Outcome: Unknown, Err: ErrBehind})
		} else {
			kept = append(kept, it)
		}
	}

	return kept
}

// deliver sends the batch until its outcome is clear or the budget is spent,
// and decides all its items. doubt says that an earlier attempt with these
// records may have reached the log: then nothing may be called refused.
func (l *lane) deliver(ctx context.Context, batch []*item, doubt bool) {
	var (
		backoff Backoff
		until   = time.Now().Add(l.producer.cfg.RetryFor)
	)

	for {
		offset, err := l.attempt(ctx, batch)
		if err == nil {
			for i, it := range batch {
				l.decide(it, Result{Outcome: Accepted, Partition: l.partition, Offset: offset + int64(i)})
			}

			return
		}

		switch judge(err) {
		case refusedOne:
			if len(batch) > 1 {
				// One record spoils the batch, and only the broker knows
				// which. Halving finds it and keeps the order.
				l.halve(ctx, batch, doubt)

				return
			}

			l.refuse(batch, doubt, err)

			return
		case refused:
			l.refuse(batch, doubt, err)

			return
		case doubtful:
			doubt = true
		case clean:
		}

		if ctx.Err() != nil {
			l.abandoned += len(batch)
			l.giveUp(batch, fmt.Errorf("%w: last try: %w", context.Cause(ctx), err))

			return
		}

		if !time.Now().Before(until) {
			l.log(slog.LevelWarn, "produce given up", batch, err)
			l.giveUp(batch, err)

			return
		}

		l.producer.metrics.retries.WithLabelValues(l.topic).Inc()
		l.log(slog.LevelDebug, "produce retried", batch, err)

		_ = backoff.Wait(ctx) // When ctx ends, the next attempt fails at once and is the last.
	}
}

func (l *lane) halve(ctx context.Context, batch []*item, doubt bool) {
	middle := len(batch) / 2
	l.deliver(ctx, batch[:middle], doubt)

	if rest := l.unbroken(batch[middle:]); len(rest) > 0 {
		l.deliver(ctx, rest, doubt)
	}
}

func (l *lane) refuse(batch []*item, doubt bool, err error) {
	if doubt {
		l.giveUp(batch, err)

		return
	}

	l.log(slog.LevelError, "produce refused", batch, err)

	for _, it := range batch {
		l.decide(it, Result{Outcome: Refused, Err: err})
	}
}

func (l *lane) giveUp(batch []*item, err error) {
	for _, it := range batch {
		l.decide(it, Result{Outcome: Unknown, Err: err})
	}
}

// decide gives the place back and hands the outcome over: whoever has an
// outcome finds the place free. Nobody may wait any more; the channel has room.
func (l *lane) decide(it *item, result Result) {
	if result.Outcome != Accepted && it.chain != nil {
		it.chain.breakAt(it.position)
	}

	l.producer.metrics.records.WithLabelValues(l.topic, result.Outcome.String()).Inc()
	<-l.producer.places
	it.done <- result
}

// attempt sends the batch once and returns the offset of its first record.
func (l *lane) attempt(ctx context.Context, batch []*item) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}

	p := l.producer
	begin := time.Now()

	answer, err := p.client.kafka.Produce(ctx, &kafkago.ProduceRequest{
		Topic:        l.topic,
		Partition:    l.partition,
		RequiredAcks: kafkago.RequireAll,
		Records:      encode(batch, p.cfg.Now()),
	})
	if err == nil {
		err = answer.Error
	}

	p.metrics.observe(l.topic, len(batch), time.Since(begin), err)

	if err != nil {
		err = p.client.lacking(ctx, err, "Write", l.topic)

		return 0, fmt.Errorf("produce to %s/%d: %w", l.topic, l.partition, err)
	}

	return answer.BaseOffset, nil
}

// encode makes the records of one attempt. All of it is new each time: an
// earlier attempt that was given up may still be reading its own.
func encode(batch []*item, now time.Time) kafkago.RecordReader {
	records := make([]protocol.Record, len(batch))

	for i, it := range batch {
		records[i] = protocol.Record{
			Time:  now,
			Key:   protocol.NewBytes(it.record.Key),
			Value: protocol.NewBytes(it.record.Value),
		}

		if len(it.record.Headers) > 0 {
			headers := make([]protocol.Header, len(it.record.Headers))
			for j, h := range it.record.Headers {
				headers[j] = protocol.Header{Key: h.Key, Value: h.Value}
			}

			records[i].Headers = headers
		}
	}

	return protocol.NewRecordReader(records...)
}

func (l *lane) log(level slog.Level, message string, batch []*item, err error) {
	l.producer.cfg.Logger.Log(context.Background(), level, message, //nolint:sloglint // constant at every caller
		slog.String("topic", l.topic), slog.Int("partition", l.partition),
		slog.Int("records", len(batch)), slog.Any("err", err))
}
