package kafka

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
)

// A broker that is killed twice while records are on their way, and comes back on its log: every outcome is Accepted since the budget
// outlasts the outage, what was acknowledged is in the log, and each key's records are in their order.
func TestKafkaBrokerKilledUnderLoad(t *testing.T) {
	t.Parallel()

	const (
		keys, each, together = 8, 600, 20
		kills                = 2
	)

	broker := localtest.KafkaNode(t)
	cfg := Config{Brokers: broker.Addrs(), ClientID: "test"}

	if err := CreateTopics(patient(t), cfg, []TopicSpec{{Name: topic, Partitions: 6}}); err != nil {
		t.Fatal(err)
	}

	p := producer(t, ProducerConfig{Config: cfg, Partitions: map[string]int{topic: 6}, RetryFor: 3 * time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	var (
		wg    sync.WaitGroup
		total atomic.Int64
		due   = make(chan struct{}, kills)
	)

	for key := range keys {
		wg.Go(func() {
			for i := 0; i < each; i += together {
				var records []Record
				for n := range together {
					records = append(records, record(fmt.Sprint("key-", key), fmt.Sprint(i+n)))
				}

				for n, r := range p.Produce(ctx, records) {
					if r.Outcome != Accepted {
						t.Errorf("key %d, record %d is %v: %v", key, i+n, r.Outcome, r.Err)

						return
					}

					if total.Add(1)%(keys*each/(kills+1)) == 0 && len(due) < kills {
						due <- struct{}{}
					}
				}
			}
		})
	}

	for range kills {
		select {
		case <-due:
		case <-ctx.Done():
			t.Fatal("too few records were accepted")
		}

		broker.Kill()

		if err := broker.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}

	wg.Wait()
	inOrder(t, log(t, cfg, topic), keys, each)
}
