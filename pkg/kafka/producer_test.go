package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
)

func config(c *kfake.Cluster) Config { return Config{Brokers: c.ListenAddrs(), ClientID: "test"} }

func produceConfig(c *kfake.Cluster, partitions int) ProducerConfig {
	return ProducerConfig{Config: config(c), Partitions: map[string]int{topic: partitions}}
}

func TestNewProducer(t *testing.T) {
	t.Parallel()

	t.Run("LeavesNothingToTheLibrarysDefaults", func(t *testing.T) {
		t.Parallel()

		p, err := NewProducer(ProducerConfig{
			Config:     Config{Brokers: []string{"127.0.0.1:1"}, ClientID: "me"},
			Partitions: map[string]int{topic: 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer p.client.Close()

		tr := p.client.transport
		if tr.MetadataTTL != time.Second || tr.DialTimeout != 5*time.Second || tr.ClientID != "me" || tr.Context == nil || tr.Dial == nil {
			t.Errorf("transport: %v %v %v", tr.MetadataTTL, tr.DialTimeout, tr.ClientID)
		}

		if diff := cmp.Diff([]string{topic}, tr.MetadataTopics); diff != "" {
			t.Error(diff)
		}

		if p.client.kafka.Timeout != 5*time.Second || p.client.kafka.Transport != tr {
			t.Errorf("client: %v", p.client.kafka.Timeout)
		}

		// The budget must outlast the time in which a cluster notices a dead
		// leader, 9 s, and a refresh of metadata.
		if p.cfg.RetryFor <= 10*time.Second || p.cfg.DrainFor != p.cfg.RetryFor {
			t.Errorf("budgets: %v %v", p.cfg.RetryFor, p.cfg.DrainFor)
		}

		if p.cfg.BatchBytes >= 1<<20 || cap(p.places) != defaultQueueRecords {
			t.Errorf("bounds: %d %d", p.cfg.BatchBytes, cap(p.places))
		}
	})

	t.Run("TellsAllFaults", func(t *testing.T) {
		t.Parallel()

		_, err := NewProducer(ProducerConfig{
			Config:       Config{Timeout: -1},
			Partitions:   map[string]int{"a": 0},
			QueueRecords: -1,
		})
		for _, part := range []string{"no broker", "negative timeout", "topic a", "negative bound"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
	})

	t.Run("RegistersMetricsOnce", func(t *testing.T) {
		t.Parallel()

		cfg := ProducerConfig{
			Config:     Config{Brokers: []string{"127.0.0.1:1"}},
			Partitions: map[string]int{topic: 1},
			Registerer: prometheus.NewRegistry(),
		}

		p, err := NewProducer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer p.client.Close()

		if _, err := NewProducer(cfg); err == nil {
			t.Error("two producers share one registry")
		}
	})
}

func TestProducerSend(t *testing.T) {
	t.Parallel()

	t.Run("LoneRecordsLeaveOneByOneToAllReplicas", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 6)
		p := producer(t, produceConfig(c, 6))

		for i := range 20 {
			result := p.send(t, record("sneaker-1", fmt.Sprint(i)))
			accepted(t, result)

			if result.Partition != Partition([]byte("sneaker-1"), 6) || result.Offset != int64(i) {
				t.Fatalf("record %d landed at %d/%d", i, result.Partition, result.Offset)
			}

			got := <-seen.requests
			if got.acks != -1 || got.records != 1 || got.partition != int32(result.Partition) {
				t.Fatalf("request %d: %+v", i, got)
			}
		}
	})

	t.Run("WhatWaitsLeavesTogetherWithinTheBounds", func(t *testing.T) {
		t.Parallel()

		for name, row := range map[string]struct {
			change func(*ProducerConfig)
			want   []int32
		}{
			"NoBound": {func(*ProducerConfig) {}, []int32{1, 25}},
			"Records": {func(c *ProducerConfig) { c.BatchRecords = 10 }, []int32{1, 10, 10, 5}},
			"Bytes":   {func(c *ProducerConfig) { c.BatchBytes = batchOverhead + 10*(recordOverhead+1+100) }, []int32{1, 10, 10, 5}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				c, seen := cluster(t, 1)
				cfg := produceConfig(c, 1)
				row.change(&cfg)
				p := producer(t, cfg)
				gate, release := seen.stall(t)

				var wg sync.WaitGroup

				send := func() {
					wg.Go(func() { accepted(t, p.send(t, record("k", strings.Repeat("x", 100)))) })
				}

				send()
				gate.wait(t)

				for range 25 {
					send()
				}

				eventually(t, "25 records wait", func() bool { return p.queued() == 25 })
				release()
				wg.Wait()

				if diff := cmp.Diff(row.want, seen.sizes()); diff != "" {
					t.Error(diff)
				}
			})
		}
	})

	t.Run("PartitionsDoNotWaitForEachOther", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 12)
		p := producer(t, produceConfig(c, 12))
		gate, release := seen.stall(t)

		first := make(chan Result, 1)
		go func() { first <- p.send(t, record("a", "1")) }()

		gate.wait(t)
		seen.hold.Store(nil)
		accepted(t, p.send(t, record("ab", "2"))) // Returns while the other is held.
		release()
		accepted(t, <-first)
	})

	t.Run("RefusesWhatCannotBeSent", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 1)
		cfg := produceConfig(c, 1)
		cfg.BatchBytes = 1000
		p := producer(t, cfg)

		for want, r := range map[error]Record{
			ErrTooLarge: record("k", strings.Repeat("x", 1000)),
			ErrNoKey:    {Topic: topic, Value: []byte("v")},
			ErrNoTopic:  {Topic: "other", Key: []byte("k")},
		} {
			result := p.send(t, r)
			wantErr(t, result.Err, want)

			if result.Outcome != Refused {
				t.Errorf("%v is %v", want, result.Outcome)
			}
		}

		if sizes := seen.sizes(); sizes != nil {
			t.Errorf("requests were made: %v", sizes)
		}

		if taken := len(p.places); taken != 0 {
			t.Errorf("%d places are taken", taken)
		}
	})

	t.Run("WorksBeforeRun", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		p := idleProducer(t, produceConfig(c, 1))

		done := make(chan Result, 1)
		go func() { done <- p.send(t, record("k", "v")) }()

		eventually(t, "the record waits", func() bool { return p.queued() == 1 })

		stop := start(t, p)
		accepted(t, <-done)

		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestProducerReserve(t *testing.T) {
	t.Parallel()

	c, seen := cluster(t, 1)
	cfg := produceConfig(c, 1)
	cfg.QueueRecords = 2
	p := producer(t, cfg)
	gate, release := seen.stall(t)

	first := make(chan Result, 1)
	go func() { first <- p.send(t, record("k", "1")) }()

	gate.wait(t)

	slot, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}

	_, err = p.Reserve()
	wantErr(t, err, ErrFull)

	slot.Release()
	slot.Release()

	if result := slot.Send(patient(t), record("k", "2")); result.Outcome != Unknown || !errors.Is(result.Err, ErrSlotUsed) {
		t.Errorf("a released slot sends: %+v", result)
	}

	slot, err = p.Reserve()
	if err != nil {
		t.Fatal(err)
	}

	_, err = p.Reserve()
	wantErr(t, err, ErrFull)
	release()
	accepted(t, <-first, slot.Send(patient(t), record("k", "3")))
	slot.Release()

	if taken := len(p.places); taken != 0 {
		t.Errorf("%d places are taken", taken)
	}
}

func TestProducerDeadline(t *testing.T) {
	t.Parallel()

	c, seen := cluster(t, 1)
	p := producer(t, produceConfig(c, 1))
	gate, release := seen.stall(t)

	const sends = 20

	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan Result, sends)

	for i := range sends {
		slot, err := p.Reserve()
		if err != nil {
			t.Fatal(err)
		}

		go func() { results <- slot.Send(ctx, record("k", fmt.Sprint(i))) }()

		if i == 0 {
			gate.wait(t)
		}
	}

	eventually(t, "the others wait", func() bool { return p.queued() == sends-1 })
	cancel()

	for range sends {
		if r := <-results; r.Outcome != Unknown || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("a send without an answer is %v: %v", r.Outcome, r.Err)
		}
	}

	if taken := len(p.places); taken != sends {
		t.Errorf("%d places are taken while %d records wait", taken, sends)
	}

	release()
	eventually(t, "the queue is empty", func() bool { return len(p.places) == 0 })

	got := values(log(t, config(c), topic))
	for i := range sends {
		if got[fmt.Sprint(i)] != 1 {
			t.Errorf("record %d is %d times in the log", i, got[fmt.Sprint(i)])
		}
	}
}

func TestProducerProduce(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheOrderAndOutgrowsTheQueue", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 6)
		cfg := produceConfig(c, 6)
		cfg.QueueRecords = 10
		p := producer(t, cfg)

		var records []Record
		for i := range 100 {
			for key := range 5 {
				records = append(records, record(fmt.Sprintf("key-%d", key), fmt.Sprint(i)))
			}
		}

		accepted(t, p.Produce(patient(t), records)...)
		inOrder(t, log(t, config(c), topic), 5, 100)
	})

	t.Run("HoldsBackWhatFollowsAFailureOfItsKey", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		cfg := produceConfig(c, 1)
		cfg.BatchBytes = 1000
		p := producer(t, cfg)

		results := p.Produce(patient(t), []Record{
			record("a", "1"), record("a", strings.Repeat("x", 1000)), record("b", "2"), record("a", "3"), record("b", "4"),
		})

		var got []Outcome
		for _, r := range results {
			got = append(got, r.Outcome)
		}

		if diff := cmp.Diff([]Outcome{Accepted, Refused, Accepted, Unknown, Accepted}, got); diff != "" {
			t.Error(diff)
		}

		wantErr(t, results[3].Err, ErrBehind)

		if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "4": 1}, values(log(t, config(c), topic))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("HoldsBackWhatFollowsAnUnknownOutcomeOfItsKey", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		fault(c, 1, kerr.NotEnoughReplicas)

		cfg := produceConfig(c, 1)
		cfg.BatchRecords, cfg.RetryFor = 1, time.Nanosecond
		p := producer(t, cfg)

		results := p.Produce(patient(t), []Record{record("a", "1"), record("a", "2"), record("b", "3"), record("a", "4")})
		for i, want := range []error{kafkago.NotEnoughReplicas, ErrBehind, nil, ErrBehind} {
			if !errors.Is(results[i].Err, want) || (results[i].Outcome == Accepted) != (want == nil) {
				t.Errorf("record %d is %v: %v", i, results[i].Outcome, results[i].Err)
			}
		}

		// A later call may begin anew.
		accepted(t, p.Produce(patient(t), []Record{record("a", "1"), record("a", "2")})...)

		if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "3": 1}, values(log(t, config(c), topic))); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 1)
		cfg := produceConfig(c, 1)
		cfg.QueueRecords = 1
		p := producer(t, cfg)
		gate, release := seen.stall(t)

		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan []Result, 1)

		go func() { results <- p.Produce(ctx, []Record{record("a", "1"), record("a", "2")}) }()

		gate.wait(t)
		cancel()

		for i, r := range <-results {
			if r.Outcome != Unknown || !errors.Is(r.Err, context.Canceled) {
				t.Errorf("result %d is %v: %v", i, r.Outcome, r.Err)
			}
		}

		release()
		eventually(t, "the queue is empty", func() bool { return len(p.places) == 0 })

		if diff := cmp.Diff(map[string]int{"1": 1}, values(log(t, config(c), topic))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestProducerStop(t *testing.T) {
	t.Parallel()

	t.Run("SendsWhatWaits", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 1)
		p := idleProducer(t, produceConfig(c, 1))
		stop := start(t, p)
		gate, release := seen.stall(t)

		var results []chan Result

		send := func(value string) {
			result := make(chan Result, 1)
			results = append(results, result)

			go func() { result <- p.send(t, record("k", value)) }()
		}

		send("1")
		gate.wait(t)
		send("2")
		eventually(t, "one waits", func() bool { return p.queued() == 1 })

		late, err := p.Reserve()
		if err != nil {
			t.Fatal(err)
		}

		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		<-p.closing

		_, err = p.Reserve()
		wantErr(t, err, ErrClosed)

		r := late.Send(patient(t), record("k", "3"))
		wantErr(t, r.Err, ErrClosed)

		if r.Outcome != Unknown {
			t.Errorf("a record after the end is %v", r.Outcome)
		}

		release()

		for _, r := range results {
			accepted(t, <-r)
		}

		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})

	t.Run("GivesUpAtItsDeadline", func(t *testing.T) {
		t.Parallel()

		c, seen := cluster(t, 1)
		cfg := produceConfig(c, 1)
		cfg.DrainFor = time.Millisecond
		p := idleProducer(t, cfg)
		stop := start(t, p)
		gate, _ := seen.stall(t)

		results := make(chan Result, 2)

		for range 2 {
			slot, err := p.Reserve()
			if err != nil {
				t.Fatal(err)
			}

			go func() { results <- slot.Send(patient(t), record("k", "v")) }()
			gate.reachedOrQueued(t, p)
		}

		if err := stop(); err == nil || !strings.Contains(err.Error(), "2 records") {
			t.Errorf("stop tells: %v", err)
		}

		for range 2 {
			r := <-results
			wantErr(t, r.Err, ErrClosed)

			if r.Outcome != Unknown {
				t.Errorf("a record left behind is %v", r.Outcome)
			}
		}
	})

	t.Run("NeverHangs", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 6)

		for round := range 200 {
			p := idleProducer(t, produceConfig(c, 6))
			stop := start(t, p)

			var wg sync.WaitGroup

			for sender := range 8 {
				wg.Go(func() {
					for i := 0; ; i++ {
						slot, err := p.Reserve()
						if errors.Is(err, ErrClosed) {
							return
						}

						r := slot.Send(patient(t), record(fmt.Sprint(sender, round), fmt.Sprint(i)))
						if r.Outcome != Accepted && !errors.Is(r.Err, ErrClosed) {
							t.Errorf("round %d: %v: %v", round, r.Outcome, r.Err)

							return
						}
					}
				})
			}

			if round%2 == 0 {
				eventually(t, "records leave", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()

					return len(p.lanes) > 2
				})
			}

			if err := stop(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}

			wg.Wait()

			if taken := len(p.places); taken != 0 {
				t.Fatalf("round %d: %d places are taken", round, taken)
			}
		}
	})
}

// reachedOrQueued waits until a record has either reached the gate or waits
// behind the one that did.
func (g *gate) reachedOrQueued(t testing.TB, p *Producer) {
	t.Helper()
	eventually(t, "the record is on its way", func() bool {
		select {
		case <-g.reached:
			return true
		default:
			return p.queued() > 0
		}
	})
}

func TestProducerStampsEachAttempt(t *testing.T) {
	t.Parallel()

	c, seen := cluster(t, 1)
	fault(c, 2, errNotLeader)

	cfg := produceConfig(c, 1)

	var clock []int64

	cfg.Now = func() time.Time { // One lane, hence one caller at a time.
		clock = append(clock, int64(1_700_000_000_000+1000*len(clock)))

		return time.UnixMilli(clock[len(clock)-1])
	}

	accepted(t, producer(t, cfg).send(t, record("k", "v")))

	var stamps []int64
	for range 3 {
		stamps = append(stamps, (<-seen.requests).stamp)
	}

	if !slices.Equal(stamps, clock) || len(clock) != 3 {
		t.Errorf("attempts are stamped %v, the clock said %v", stamps, clock)
	}

	if m := log(t, config(c), topic); len(m) != 1 || m[0].Time.UnixMilli() != clock[2] {
		t.Errorf("the log has %v", m)
	}
}
