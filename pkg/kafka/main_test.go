package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/deploy/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m) }

const topic = "orders"

// patience bounds what a test waits for; nothing asserts a time.
const patience = 30 * time.Second

func patient(t testing.TB) context.Context {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)

	return ctx
}

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()

	ctx := patient(t)
	pause := Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}

	for !ok() {
		if err := pause.Wait(ctx); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// cluster gives a broker with the topic, and the requests it got.
func cluster(t testing.TB, partitions int32, opts ...kfake.Opt) (*kfake.Cluster, *produced) {
	t.Helper()

	c := localtest.KafkaCluster(t, append(opts, kfake.SeedTopics(partitions, topic))...)

	return c, watch(c)
}

// produced is what a broker was asked to append.
type produced struct {
	requests chan request
	hold     atomic.Pointer[gate]
}

type request struct {
	acks      int16
	partition int32
	records   int32
	stamp     int64
}

// gate stops produce requests until it is opened.
type gate struct {
	reached chan struct{}
	open    chan struct{}
}

func watch(c *kfake.Cluster) *produced {
	p := &produced{requests: make(chan request, 100_000)}

	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req := r.(*kmsg.ProduceRequest)

		for _, t := range req.Topics {
			for _, part := range t.Partitions {
				var batch kmsg.RecordBatch
				if err := batch.ReadFrom(part.Records); err != nil {
					panic(err)
				}

				p.requests <- request{
					acks:      req.Acks,
					partition: part.Partition,
					records:   batch.NumRecords,
					stamp:     batch.FirstTimestamp,
				}
			}
		}

		if g := p.hold.Load(); g != nil {
			c.SleepControl(func() {
				select {
				case g.reached <- struct{}{}:
				default:
				}
				<-g.open
			})
		}

		return nil, nil, false
	})

	return p
}

// stall makes produce requests wait; the function returned lets them go.
func (p *produced) stall(t testing.TB) (*gate, func()) {
	t.Helper()

	g := &gate{reached: make(chan struct{}, 1), open: make(chan struct{})}
	p.hold.Store(g)

	var done atomic.Bool

	release := func() {
		if !done.Swap(true) {
			p.hold.Store(nil)
			close(g.open)
		}
	}
	t.Cleanup(release)

	return g, release
}

func (g *gate) wait(t testing.TB) {
	t.Helper()

	select {
	case <-g.reached:
	case <-patient(t).Done():
		t.Fatal("no produce request arrived")
	}
}

func (p *produced) sizes() (sizes []int32) {
	for {
		select {
		case r := <-p.requests:
			sizes = append(sizes, r.records)
		default:
			return sizes
		}
	}
}

// producer gives a running producer that is stopped when the test ends.
func producer(t testing.TB, cfg ProducerConfig) *Producer {
	t.Helper()

	p := idleProducer(t, cfg)
	stop := start(t, p)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})

	return p
}

func idleProducer(t testing.TB, cfg ProducerConfig) *Producer {
	t.Helper()

	if cfg.Timeout == 0 {
		cfg.Timeout = patience
	}

	if cfg.RetryFor == 0 {
		cfg.RetryFor = patience
	}

	p, err := NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}

	return p
}

func start(t testing.TB, p *Producer) (stop func() error) {
	t.Helper()

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)

	go func() { done <- p.Run(ctx) }()

	return func() error {
		cancel()

		return <-done
	}
}

func (p *Producer) queued() (count int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for _, l := range p.lanes {
		count += len(l.queue)
	}

	return count
}

func (p *Producer) send(t testing.TB, record Record) Result {
	t.Helper()

	slot, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()

	return slot.Send(patient(t), record)
}

func record(key, value string) Record {
	return Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
}

func accepted(t testing.TB, results ...Result) {
	t.Helper()

	for i, r := range results {
		if r.Outcome != Accepted || r.Err != nil {
			t.Fatalf("result %d is %v: %v", i, r.Outcome, r.Err)
		}
	}
}

// log reads the whole topic, partition after partition.
func log(t testing.TB, cfg Config, topic string) (messages []Message) {
	t.Helper()

	first, end, err := Offsets(patient(t), cfg, topic)
	if err != nil {
		t.Fatal(err)
	}

	for partition := range end {
		err := Read(patient(t), cfg, topic, partition, first[partition], end[partition], func(m Message) error {
			messages = append(messages, m)

			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	return messages
}

func values(messages []Message) map[string]int {
	values := make(map[string]int)
	for _, m := range messages {
		values[string(m.Value)]++
	}

	return values
}

// inOrder checks that the first copies of each key's values 0, 1, 2, … are all
// there and in order.
func inOrder(t testing.TB, messages []Message, keys, each int) {
	t.Helper()

	next := make(map[string]int)

	for _, m := range messages {
		var number int
		if _, err := fmt.Sscanf(string(m.Value), "%d", &number); err != nil {
			t.Fatal(err)
		}

		key := string(m.Key)

		switch {
		case number == next[key]:
			next[key]++
		case number > next[key]:
			t.Fatalf("key %s: %d comes before %d", key, number, next[key])
		}
	}

	if len(next) != keys {
		t.Fatalf("%d keys are in the log, want %d", len(next), keys)
	}

	for key, count := range next {
		if count != each {
			t.Errorf("key %s: %d records are in the log, want %d", key, count, each)
		}
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()

	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}
