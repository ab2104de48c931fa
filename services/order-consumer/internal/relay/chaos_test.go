package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/product"
)

var errLossy = errors.New("not acknowledged")

// lossy is a producer with the faults that the real one may have: of a key the rest may not be sent, and of what was sent the last
// answers may be lost.
type lossy struct {
	producer *kafka.Producer
	mu       sync.Mutex
	random   *rand.Rand
}

func (l *lossy) chance(percent int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(100) < percent
}

func (l *lossy) Produce(ctx context.Context, records []kafka.Record) []kafka.Result {
	results := make([]kafka.Result, len(records))
	var sent []kafka.Record
	var at []int
	broken := make(map[string]bool)
	for i, record := range records {
		if broken[string(record.Key)] || l.chance(1) {
			broken[string(record.Key)] = true
			results[i] = kafka.Result{Outcome: kafka.Unknown, Err: errLossy}
			continue
		}
		sent, at = append(sent, record), append(at, i)
	}
	lost := make(map[string]bool)
	for i, result := range l.producer.Produce(ctx, sent) {
		if key := string(sent[i].Key); lost[key] || l.chance(1) {
			lost[key] = true
			result = kafka.Result{Outcome: kafka.Unknown, Err: errLossy}
		}
		results[at[i]] = result
	}
	return results
}

// A thousand products with twenty events each, two processes, random failures, lost answers and crashes between steps: the
// first occurrences rise by one, repeats keep their id, nothing is left.
func TestRelayKeepsOrderUnderFaults(t *testing.T) {
	t.Parallel()
	const products, each = 1000, 20
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := newStage(t)
	want := make(map[product.ID]int64)
	for p := range products {
		id := product.ID(fmt.Sprintf("p%04d", p))
		want[id] = each
		rows := make([]outboxtest.Row, each)
		for i := range rows {
			rows[i] = s.event(id, int64(i+1))
		}
		s.Insert(rows...)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range uint64(2) {
		faults := &lossy{producer: s.producer, random: rand.New(rand.NewPCG(seed, i))}
		config := quick()
		config.Hook = func(string) error {
			if faults.chance(5) {
				return errKilled
			}
			return nil
		}
		// Two processes, each of which is started again when it died.
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := s.relay(config, faults).Run(ctx); err != nil && !errors.Is(err, errKilled) {
					t.Errorf("run: %v", err)
					return
				}
			}
		})
	}
	s.untilPublished()
	cancel()
	wg.Wait()
	if repeats := s.inOrder(want); repeats == 0 {
		t.Errorf("no repeats: the faults did not happen")
	}
}
