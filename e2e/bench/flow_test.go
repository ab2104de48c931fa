package bench

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/kafka"
	"hanjul/pkg/product"
)

// oneByOne makes the consumer take message by message.
const oneByOne = "HANJUL_CONSUMER_BATCH_RECORDS=1"

// start runs one of each binary until the benchmark ends.
func start(b *testing.B, bin string) *local.Stack {
	b.Helper()
	stack, err := local.StartStack(b.Context(), local.StackOptions{DataDir: b.TempDir(), BinDir: bin, PerService: 1, Log: os.Stderr})
	localtest.Need(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			b.Error(err)
		}
	})
	return stack
}

// flow is orders of some products that wait in the log, and the consumer that takes them to their events. With settings it is a
// consumer from bin that has these besides the stack's own, else the stack's.
type flow struct {
	stack    *local.Stack
	first    int // index of its first product among all of the stack: keeps the order ids of flows apart
	ids      []product.ID
	each     int // orders of each product
	settings string
	bin      string
}

// flown is what came of it. Orders per second run from the first event's timestamp to the last one's, so that the start of the process
// and its join of the group are not in them; drained is from that start to the last event.
type flown struct {
	perSecond float64
	drained   time.Duration
}

// measure fills the log while the consumer is away, and starts it.
func (f flow) measure(b *testing.B) flown {
	b.Helper()
	f.open(b)
	consumer := f.stack.Processes(local.Consumer)[0]
	consumer.Stop(b.Context())
	records, _ := f.sign(b)
	f.send(b, records, 0)
	from := f.ends(b)
	begun := time.Now()
	if f.settings == "" {
		if err := consumer.Restart(b.Context()); err != nil {
			b.Fatal(err)
		}
		defer profile(b, b.Name(), consumer)()
	} else {
		other, err := local.StartProcess(b.Context(), local.ProcessOptions{
			Name: "order-consumer-other", Path: filepath.Join(f.bin, "order-consumer"), AdminAddr: consumer.AdminAddr(), Log: os.Stderr,
			Env: append(f.stack.Env(), f.settings, "HANJUL_ADMIN_LISTEN="+consumer.AdminAddr()),
		})
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			other.Stop(context.WithoutCancel(b.Context()))
			if err := consumer.Restart(b.Context()); err != nil {
				b.Error(err)
			}
		}()
	}
	f.await(b, from)
	first, last := f.span(b, from)
	return flown{float64(f.orders()) / last.Sub(first).Seconds(), last.Sub(begun)}
}

// open makes and opens the products, with a unit for each order.
func (f flow) open(b *testing.B) {
	b.Helper()
	target, err := sale.Of(f.stack, false)
	if err != nil {
		b.Fatal(err)
	}
	settings := sale.Settings{Rate: 1, Burst: 1, Capacity: 1, PassLife: time.Minute, OrderTTL: time.Hour}
	for _, id := range f.ids {
		if err := sale.Open(b.Context(), target, id, f.each, settings); err != nil {
			b.Fatal(err)
		}
	}
}

// orders is how many there are of all products.
func (f flow) orders() int { return f.each * len(f.ids) }

// sign makes the orders; each is of another person.
func (f flow) sign(b *testing.B) (records []kafka.Record, passes []string) {
	b.Helper()
	records, passes, err := sale.SignOrders(f.stack, f.ids, f.first, f.each)
	if err != nil {
		b.Fatal(err)
	}
	return records, passes
}

func (f flow) send(b *testing.B, records []kafka.Record, perSecond int) {
	b.Helper()
	if err := sale.SendOrders(b.Context(), f.stack, records, perSecond); err != nil {
		b.Fatal(err)
	}
}

func (f flow) kafka() (conf kafka.Config, events string) {
	return kafka.Config{Brokers: strings.Split(f.stack.Setting("HANJUL_KAFKA_BROKERS"), ",")}, f.stack.Setting("HANJUL_TOPIC_EVENTS")
}

func (f flow) ends(b *testing.B) map[int]int64 {
	b.Helper()
	conf, events := f.kafka()
	_, ends, err := kafka.Offsets(b.Context(), conf, events)
	if err != nil {
		b.Fatal(err)
	}
	return ends
}

// await returns when every event is on the topic.
func (f flow) await(b *testing.B, from map[int]int64) {
	b.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; {
		var out int64
		for partition, end := range f.ends(b) {
			out += end - from[partition]
		}
		if out >= int64(f.orders()) {
			return
		}
		if time.Now().After(limit) {
			b.Fatalf("%d of %d events came out", out, f.orders())
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		}
	}
}

// span is the time of the first event and of the last.
func (f flow) span(b *testing.B, from map[int]int64) (first, last time.Time) {
	b.Helper()
	conf, events := f.kafka()
	for partition, end := range f.ends(b) {
		if err := kafka.Read(b.Context(), conf, events, partition, from[partition], end, func(m kafka.Message) error {
			if first.IsZero() || m.Time.Before(first) {
				first = m.Time
			}
			if m.Time.After(last) {
				last = m.Time
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	return first, last
}
