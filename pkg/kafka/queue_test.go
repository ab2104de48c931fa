package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
)

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

	got := values(log(t, configOf(c), topic))
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
		inOrder(t, log(t, configOf(c), topic), 5, 100)
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

		if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "4": 1}, values(log(t, configOf(c), topic))); diff != "" {
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

		if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "3": 1}, values(log(t, configOf(c), topic))); diff != "" {
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

		if diff := cmp.Diff(map[string]int{"1": 1}, values(log(t, configOf(c), topic))); diff != "" {
			t.Error(diff)
		}
	})
}
