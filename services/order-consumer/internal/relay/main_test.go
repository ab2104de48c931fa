package relay_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
	"hanjul/services/order-consumer/internal/relay"
)

func TestMain(m *testing.M) { localtest.Main(m) }

const (
	partitions = 3
	batchBytes = 64 << 10 // of the producer: a larger row is refused
)

// stage is an outbox and topics of the test's own.
type stage struct {
	*outboxtest.Table
	t        *testing.T
	config   kafka.Config
	producer *kafka.Producer

	orders, events, deadLetters string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	config := kafka.Config{Brokers: localtest.Kafka(t), ClientID: "relay-test"}
	s := &stage{
		t: t, config: config,
		orders: localtest.Topic(t, "orders"), events: localtest.Topic(t, "order-events"), deadLetters: localtest.Topic(t, "dead-letters"),
	}
	counts := map[string]int{s.orders: partitions, s.events: partitions, s.deadLetters: partitions}
	var specs []kafka.TopicSpec
	for name := range counts {
		specs = append(specs, kafka.TopicSpec{Name: name, Partitions: partitions})
	}
	if err := kafka.CreateTopics(t.Context(), config, specs); err != nil {
		t.Fatalf("topics: %v", err)
	}
	producer, err := kafka.NewProducer(kafka.ProducerConfig{Config: config, Partitions: counts, BatchBytes: batchBytes})
	if err != nil {
		t.Fatalf("producer: %v", err)
	}
	background(t, producer.Run)
	s.Table, s.producer = outboxtest.New(t), producer
	return s
}

// background runs fn until the test ends, and waits for it.
func background(t *testing.T, fn func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	var err error
	ended := false
	stop = func() error {
		cancel()
		if !ended {
			err, ended = <-done, true
		}
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// one is a relay process of the stage.
type one struct {
	*relay.Relay
	registry *prometheus.Registry
	stop     func() error
}

// quick is a configuration in which nothing waits long.
func quick() relay.Config {
	return relay.Config{Idle: 5 * time.Millisecond, StandBy: 5 * time.Millisecond, Days: 1, Grace: 500 * time.Millisecond}
}

func (s *stage) relay(config relay.Config, producer relay.Producer) *one {
	s.t.Helper()
	box, err := outbox.Open(s.t.Context(), postgres.At(s.URL))
	if err != nil {
		s.t.Fatalf("open outbox: %v", err)
	}
	s.t.Cleanup(box.Close)
	registry := prometheus.NewRegistry()
	r, err := relay.New(config, box, producer, registry, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatalf("new: %v", err)
	}
	return &one{Relay: r, registry: registry}
}

// start makes a relay and runs it until the test ends.
func (s *stage) start(config relay.Config, producer relay.Producer) *one {
	s.t.Helper()
	r := s.relay(config, producer)
	r.stop = background(s.t, r.Run)
	return r
}

// until waits for a condition that a server brings about in its own time.
func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for pause := (kafka.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}); !ok(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("never: %s", what)
		}
		if err := pause.Wait(s.t.Context()); err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
	}
}

func (s *stage) untilPublished() {
	s.t.Helper()
	s.until("all rows published", func() bool { return s.Unpublished() == 0 })
}

// log reads a topic from its beginning to its end, partition after partition.
func (s *stage) log(topic string) []kafka.Message {
	s.t.Helper()
	first, end, err := kafka.Offsets(s.t.Context(), s.config, topic)
	if err != nil {
		s.t.Fatalf("offsets: %v", err)
	}
	var messages []kafka.Message
	for p := range partitions {
		err := kafka.Read(s.t.Context(), s.config, topic, p, first[p], end[p], func(m kafka.Message) error {
			messages = append(messages, m)
			return nil
		})
		if err != nil {
			s.t.Fatalf("read %s: %v", topic, err)
		}
	}
	return messages
}

// value reads a counter or a gauge, summed over its labels.
func (o *one) value(t *testing.T, name string) float64 {
	t.Helper()
	families, err := o.registry.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return sum
}

func (s *stage) event(p product.ID, seq int64) outboxtest.Row {
	return outboxtest.Row{Product: p, Seq: seq, Topic: s.events, Payload: "{}"}
}

func (s *stage) command(p product.ID, payload string) outboxtest.Row {
	return outboxtest.Row{Product: p, Topic: s.orders, Payload: payload}
}

// header is one header's value.
func header(m kafka.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
