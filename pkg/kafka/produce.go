package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
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
