package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// limit bounds a wait on a busy machine.
const limit = 2 * time.Minute

// topic gives a topic of the test's own with two partitions.
func topic(t *testing.T) (brokers []string, name string) {
	t.Helper()
	brokers, name = localtest.Kafka(t), localtest.Topic(t, "events")
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport(t)}
	answer, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: 2, ReplicationFactor: 1}},
	})
	if err != nil || answer.Errors[name] != nil {
		t.Fatal(err, answer)
	}
	return brokers, name
}

func transport(t *testing.T) *kafka.Transport {
	t.Helper()
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func publish(t *testing.T, brokers []string, topic string, events ...event) {
	t.Helper()
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond, Transport: transport(t),
	}
	var messages []kafka.Message
	for _, e := range events {
		messages = append(messages, kafka.Message{Key: []byte(e.Product), Value: e.data, Headers: []kafka.Header{{Key: order.HeaderID, Value: []byte(e.id)}}})
	}
	if err := writer.WriteMessages(t.Context(), messages...); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
}

// readUntil runs the bookkeeper's own loop until the products stand at the ends of their histories.
func readUntil(t *testing.T, b *books, brokers []string, topic, group string, histories ...*history) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	reader := newReader(options{brokers: brokers, topic: topic, group: group, session: 10 * time.Second}, b.log)
	ended := make(chan error, 1)
	go func() { ended <- read(ctx, reader, b) }()
	for _, h := range histories {
		for {
			var seq int64
			row := b.pool.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM bookkeeper.products WHERE product = $1`, string(h.product))
			if err := row.Scan(&seq); err != nil {
				t.Error(err)
				break
			}
			if seq >= int64(len(h.events)) {
				break
			}
			pause(ctx, 20*time.Millisecond)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// markers are a product of each partition: once it is entered, all that was published before it was read.
func markers(t *testing.T) []*history {
	t.Helper()
	list := make([]*history, 2)
	for n := 0; list[0] == nil || list[1] == nil; n++ {
		h := &history{product: product.ID(fmt.Sprintf("marker-%d", n))}
		h.adjust(t, 1)
		list[kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: []byte(h.product)}, 0, 1)] = h
	}
	return list
}

// TestReadAgainAfterACrash reads with the offsets lost each time: after the books were written and before the commit, then by a group
// that has none.
func TestReadAgainAfterACrash(t *testing.T) {
	t.Parallel()
	brokers, topic := topic(t)
	b, told := newBooks(t)
	group := localtest.Topic(t, "bookkeeper")
	p, q := draw(t, rand.New(rand.NewPCG(5, 1)), "p", 40), draw(t, rand.New(rand.NewPCG(6, 1)), "q", 40)
	publish(t, brokers, topic, append(append([]event(nil), p.events[:30]...), q.events[:10]...)...)

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	reader := newReader(options{brokers: brokers, topic: topic, group: group, session: 10 * time.Second}, b.log)
	batch, err := fetch(ctx, reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := enterAll(ctx, b, batch); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil { // crashed: nothing was committed
		t.Fatal(err)
	}

	publish(t, brokers, topic, q.events[5:]...) // the relay crashed, too, and repeats some
	publish(t, brokers, topic, p.events[30:]...)
	readUntil(t, b, brokers, topic, group, p, q)
	p.check(t, b)
	q.check(t, b)

	ends := markers(t)
	publish(t, brokers, topic, append(append(p.events, q.events...), ends[0].events[0], ends[1].events[0])...)
	readUntil(t, b, brokers, topic, localtest.Topic(t, "bookkeeper"), ends...)
	p.check(t, b)
	q.check(t, b)
	if strings.Contains(told.String(), "missing") {
		t.Fatalf("a gap is told where there was none:\n%s", told)
	}
}

// TestReadStops ends at an event of a later version, with all before it entered.
func TestReadStops(t *testing.T) {
	t.Parallel()
	brokers, topic := topic(t)
	b, _ := newBooks(t)
	h := draw(t, rand.New(rand.NewPCG(7, 1)), "p", 10)
	publish(t, brokers, topic, h.events...)
	readUntil(t, b, brokers, topic, localtest.Topic(t, "bookkeeper"), h)
	later := h.events[0]
	later.data = []byte(strings.Replace(string(later.data), `"v":1`, `"v":2`, 1))
	publish(t, brokers, topic, later)
	env := func(name string) string {
		return map[string]string{"BOOKKEEPER_POSTGRES_URL": b.pool.Config().ConnString()}[name]
	}
	code := run(t.Context(), []string{"-brokers", brokers[0], "-topic", topic, "-group", localtest.Topic(t, "bookkeeper")}, env, t.Output())
	if code != 1 {
		t.Fatalf("ended with %d", code)
	}
	h.check(t, b)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-help"}, 0, "Example"},
		{[]string{"-no"}, 2, "not defined"},
		{[]string{"now"}, 2, "expected flags only"},
		{[]string{"-session", "1ms"}, 2, "-session: expected 6s or more"},
		{nil, 2, "BOOKKEEPER_POSTGRES_URL: expected"},
		{[]string{"-pay-within", "1m"}, 2, "BOOKKEEPER_OPERATOR_TOKEN: expected"},
		{[]string{"-pay-within", "-1m"}, 2, "-pay-within: expected"},
	} {
		var out strings.Builder
		if code := run(t.Context(), c.args, func(string) string { return "" }, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: %d, %s", c.args, code, out.String())
		}
	}
}
