package kafka

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
)

func configOf(c *kfake.Cluster) Config { return Config{Brokers: c.ListenAddrs(), ClientID: "test"} }

func produceConfig(c *kfake.Cluster, partitions int) ProducerConfig {
	return ProducerConfig{Config: configOf(c), Partitions: map[string]int{topic: partitions}}
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

	if m := log(t, configOf(c), topic); len(m) != 1 || m[0].Time.UnixMilli() != clock[2] {
		t.Errorf("the log has %v", m)
	}
}
