package submit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
)

// sweepAtOnce bounds the products that a round is busy with at a time.
const sweepAtOnce = 4

// Sweeper sends the intents that are due: those of a call that ended between bind and produce, those whose send had no clear
// answer, and, ever more rarely, those that nobody has judged. Any number of sweepers share the work: the script gives an
// intent to one of them and to the others only 5 s later. One Run at a time.
type Sweeper struct {
	submitter *Submitter
	users     keyring.Key
	interval  time.Duration
	repeats   *telemetry.Repeats
}

// NewSweeper takes the submitter whose products and producer it uses, the key of user hashes, and the time between rounds.
func NewSweeper(s *Submitter, users keyring.Key, interval time.Duration) *Sweeper {
	return &Sweeper{submitter: s, users: users, interval: interval, repeats: telemetry.NewRepeats(s.logger, 30*time.Second)}
}

// Run sweeps until ctx ends, each round a little before or after its time so that replicas spread; after a failed round it
// waits longer, up to ten intervals. It returns nil.
func (s *Sweeper) Run(ctx context.Context) error {
	const failed = "intents not swept"
	pause := s.interval
	for {
		timer := time.NewTimer(spread(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			pause = min(2*pause, 10*s.interval)
			s.repeats.Warn(ctx, failed, errAttr(err))
			continue
		}
		pause = s.interval
		s.repeats.Over(ctx, failed)
	}
}

// Sweep goes once through the products of the catalogue and those this process has taken orders of, and returns how many
// orders the log acknowledged. Faults of one product do not hide the others; they are joined.
func (s *Sweeper) Sweep(ctx context.Context) (int, error) {
	products, err := s.products(ctx)
	faults := []error{err}
	var (
		mu    sync.Mutex
		sent  int
		wg    sync.WaitGroup
		gates = make(chan struct{}, sweepAtOnce)
	)
	for p := range products {
		gates <- struct{}{}
		wg.Go(func() {
			defer func() { <-gates }()
			n, err := s.sweep(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			sent += n
			faults = append(faults, err)
		})
	}
	wg.Wait()
	err = errors.Join(faults...)
	s.submitter.metrics.swept(err)
	return sent, err
}

func (s *Sweeper) products(ctx context.Context) (map[product.ID]struct{}, error) {
	all := map[product.ID]struct{}{}
	s.submitter.seen.Range(func(p, _ any) bool {
		all[p.(product.ID)] = struct{}{}
		return true
	})
	ctx, cancel := context.WithTimeout(ctx, s.submitter.cfg.StoreTimeout)
	defer cancel()
	listed, err := s.submitter.room.Products(ctx)
	if err != nil {
		return all, fmt.Errorf("list products: %w", err)
	}
	for _, p := range listed {
		all[p] = struct{}{}
	}
	return all, nil
}

// sweep sends the due intents of one product. The script has moved their next attention 5 s on: whatever happens here, they
// come again.
func (s *Sweeper) sweep(ctx context.Context, p product.ID) (int, error) {
	accepted := 0
	for {
		store, cancel := context.WithTimeout(ctx, s.submitter.cfg.StoreTimeout)
		due, err := s.submitter.room.Due(store, p, waitingroom.DueMax)
		cancel()
		if err != nil {
			return accepted, fmt.Errorf("due intents of %s: %w", p, err)
		}
		if len(due) == 0 {
			return accepted, nil
		}
		records := make([]kafka.Record, len(due))
		for i, intent := range due {
			records[i] = kafka.Record{Topic: s.submitter.cfg.Topic, Key: []byte(p), Value: intent.Command}
		}
		send, cancel := context.WithTimeout(ctx, s.submitter.cfg.SendTimeout)
		results := s.submitter.producer.Produce(send, records)
		cancel()
		var fault error
		for i, result := range results {
			s.submitter.metrics.resent(result.Outcome)
			if result.Outcome != kafka.Accepted {
				fault = fmt.Errorf("send order %s again: %w", due[i].OrderID, result.Err)
				continue
			}
			accepted++
			s.told(ctx, p, due[i].OrderID, due[i].Command)
		}
		if fault != nil || len(due) < waitingroom.DueMax {
			return accepted, fault
		}
	}
}

// told notes that the log has the order, as a submit would have.
func (s *Sweeper) told(ctx context.Context, p product.ID, id order.ID, command []byte) {
	s.submitter.acked(ctx, p, id)
	c, err := order.DecodeCommand(command)
	if err != nil {
		// Only a later build's bytes: their status is written by the consumer.
		s.submitter.logger.DebugContext(ctx, "swept a command of another build", "order_id", id, "err", err)
		return
	}
	s.submitter.put(ctx, id, order.Status{
		Version: order.VersionAccepted, State: order.StateAccepted, Product: p, User: product.HashUser(s.users, c.User),
		Quantity: c.Quantity, Digest: order.Digest(c.Quantity, c.IdempotencyKey),
	})
}

// spread returns the pause ± 20 %.
func spread(pause time.Duration) time.Duration {
	return time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // a pause, no secret
}
