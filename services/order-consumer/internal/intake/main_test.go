package intake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
)

func TestMain(m *testing.M) {
	if stage := os.Getenv(frozenStage); stage != "" {
		os.Exit(runFrozen(stage))
	}

	localtest.Main(m)
}

const partitions = 3

// patience bounds what a test waits for; nothing asserts a time.
const patience = time.Minute

func patient(t testing.TB) context.Context {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)

	return ctx
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()

	ctx := patient(t)
	pause := kafka.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}

	for !ok() {
		if err := pause.Wait(ctx); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// bundle is a fresh topic with a group of its own.
type bundle struct {
	kafka kafka.Config
	topic string
	group string
	sent  [partitions]int
}

// bench gives a topic on the shared broker, whichever that is.
func bench(t testing.TB) *bundle {
	t.Helper()

	return fresh(t, localtest.Kafka(t))
}

// faulty gives a topic on a broker of the test's own.
func faulty(t testing.TB, opts ...kfake.Opt) (*bundle, *kfake.Cluster) {
	t.Helper()

	c := localtest.KafkaCluster(t, opts...)

	return fresh(t, c.ListenAddrs()), c
}

func fresh(t testing.TB, brokers []string) *bundle {
	t.Helper()

	b := &bundle{
		kafka: kafka.Config{Brokers: brokers, ClientID: "test"},
		topic: localtest.Topic(t, "orders"),
		group: localtest.Topic(t, "group"),
	}

	err := kafka.CreateTopics(patient(t), b.kafka, []kafka.TopicSpec{{Name: b.topic, Partitions: partitions}})
	if err != nil {
		t.Fatal(err)
	}

	return b
}

// keys holds one key for each partition.
func keys() (keys [partitions][]byte) {
	for i, found := 0, 0; found < partitions; i++ {
		key := fmt.Append(nil, "key-", i)
		if p := kafka.Partition(key, partitions); keys[p] == nil {
			keys[p] = key
			found++
		}
	}

	return keys
}

// send appends count records to each of the partitions, numbered on from 0.
func (b *bundle) send(t testing.TB, count int, to ...int) {
	t.Helper()

	var records []kafka.Record

	for _, partition := range to {
		for range count {
			records = append(records, kafka.Record{Topic: b.topic, Key: keys()[partition], Value: fmt.Append(nil, b.sent[partition])})
			b.sent[partition]++
		}
	}

	b.produce(t, records)
}

// produce appends records as they are.
func (b *bundle) produce(t testing.TB, records []kafka.Record) {
	t.Helper()

	p, err := kafka.NewProducer(kafka.ProducerConfig{
		Config:     b.kafka,
		Partitions: map[string]int{b.topic: partitions},
		RetryFor:   patience, QueueRecords: max(len(records), 1),
	})
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)

	go func() { done <- p.Run(ctx) }()

	defer func() {
		stop()

		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	for _, r := range p.Produce(patient(t), records) {
		if r.Outcome != kafka.Accepted {
			t.Fatalf("produce: %v: %v", r.Outcome, r.Err)
		}
	}
}

func (b *bundle) committed(t testing.TB) map[int]int64 {
	t.Helper()

	committed, err := kafka.Committed(patient(t), b.kafka, b.group, b.topic)
	if err != nil {
		t.Fatal(err)
	}

	return committed
}

// allCommitted reports whether everything that was sent is committed.
func (b *bundle) allCommitted(t testing.TB) bool {
	t.Helper()

	want := make(map[int]int64)

	for p, count := range b.sent {
		if count > 0 {
			want[p] = int64(count)
		}
	}

	return maps.Equal(want, b.committed(t))
}

func (b *bundle) config() Config {
	return Config{
		Config:      b.kafka,
		Group:       b.group,
		Topic:       b.topic,
		Partitions:  partitions,
		MaxWait:     50 * time.Millisecond,
		Session:     6 * time.Second, // The least that brokers accept by default.
		Heartbeat:   100 * time.Millisecond,
		JoinBackoff: 50 * time.Millisecond,
		StopFor:     patience,
	}
}

// member is a running intake.
type member struct {
	*Intake
	registry *prometheus.Registry
	cancel   context.CancelFunc
	done     chan error
	log      *lines
}

// start runs an intake whose handler leaves nothing for later.
func (b *bundle) start(t testing.TB, handle func(context.Context, Batch) error, changes ...func(*Config)) *member {
	t.Helper()

	return b.startWith(t, func(ctx context.Context, batch Batch) (Rest, error) { return nil, handle(ctx, batch) }, changes...)
}

func (b *bundle) startWith(t testing.TB, handle Handler, changes ...func(*Config)) *member {
	t.Helper()

	m := &member{registry: prometheus.NewRegistry(), done: make(chan error, 1), log: &lines{}}
	cfg := b.config()
	cfg.Registerer = m.registry
	cfg.Logger = slog.New(slog.NewTextHandler(m.log, nil))

	for _, change := range changes {
		change(&cfg)
	}

	i, err := New(cfg, handle)
	if err != nil {
		t.Fatal(err)
	}

	m.Intake = i

	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel

	var once sync.Once

	result := make(chan struct{})

	go func() {
		m.done <- i.Run(ctx)
		once.Do(func() { close(result) })
	}()

	t.Cleanup(func() {
		cancel()
		<-result

		if t.Failed() {
			t.Log(m.log.String())
		}
	})

	return m
}

func (m *member) stop(t testing.TB) {
	t.Helper()
	m.cancel()

	if err := <-m.done; err != nil {
		t.Fatal(err)
	}
}

func (m *member) ready(t testing.TB) {
	t.Helper()
	eventually(t, "the member is ready", func() bool { return m.Ready() == nil })
}

// value gives a metric's value, summed over the label values not named.
func (m *member) value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()

	sum, err := metric(m.registry, name, labels...)
	if err != nil {
		t.Fatal(err)
	}

	return sum
}

func metric(registry *prometheus.Registry, name string, labels ...string) (sum float64, err error) {
	families, err := registry.Gather()
	if err != nil {
		return 0, err
	}

	for _, family := range families {
		if family.GetName() != "hanjul_intake_"+name {
			continue
		}

		for _, metric := range family.GetMetric() {
			var have []string
			for _, l := range metric.GetLabel() {
				have = append(have, l.GetValue())
			}

			if strings.Join(have, ",") == strings.Join(labels, ",") || len(labels) == 0 {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}

	return sum, nil
}

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

// journal notes what was handled, by partition.
type journal struct {
	mu     sync.Mutex
	seen   [partitions][]int64
	sizes  []int
	orders error
}

func (j *journal) handle(_ context.Context, batch Batch) error {
	j.mu.Lock()
	defer j.mu.Unlock()

	if len(batch.Records) == 0 || batch.HighWater <= batch.Records[len(batch.Records)-1].Offset {
		j.orders = errors.Join(j.orders, fmt.Errorf("strange batch: %+v", batch))
	}

	j.sizes = append(j.sizes, len(batch.Records))

	for _, r := range batch.Records {
		if string(r.Value) != fmt.Sprint(r.Offset) || r.Partition != batch.Partition || r.Topic != batch.Topic {
			j.orders = errors.Join(j.orders, fmt.Errorf("strange record: %+v", r))
		}

		j.seen[batch.Partition] = append(j.seen[batch.Partition], r.Offset)
	}

	return nil
}

// exactly checks that the partition's offsets from first to before end came, in
// order and once.
func (j *journal) exactly(t testing.TB, partition, first, end int) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()

	if j.orders != nil {
		t.Error(j.orders)
	}

	seen := j.seen[partition]
	if len(seen) != end-first {
		t.Fatalf("partition %d: offsets %v came, want %d to %d", partition, seen, first, end-1)
	}

	for i, offset := range seen {
		if offset != int64(first+i) {
			t.Fatalf("partition %d: offsets %v came, want %d to %d", partition, seen, first, end-1)
		}
	}
}

func (j *journal) count(partition int) int {
	j.mu.Lock()
	defer j.mu.Unlock()

	return len(j.seen[partition])
}
