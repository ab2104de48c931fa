package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// hotOrders is how many orders wait in the log of one product when the consumer starts.
const hotOrders = 20_000

// BenchmarkHotProduct is one product, one partition, one consumer: from the log through judge and decrement to the event on the topic,
// with a signed pass on every command. The ceiling is the same number of rows put into a table of the ledger's own form in batches of
// 500, one transaction each, on the same Postgres. Time runs from the first event's timestamp to the last one's, so that the start of
// the process and the join of the group are not measured.
func BenchmarkHotProduct(b *testing.B) {
	stack, err := local.StartStack(b.Context(), local.StackOptions{DataDir: b.TempDir(), BinDir: build(b), PerService: 1, Log: os.Stderr})
	localtest.Need(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			b.Error(err)
		}
	})
	for n := range b.N {
		id := product.ID(fmt.Sprintf("hot-%d", n))
		ops := hot(b, stack, id)
		report(b, "hot-product", ops, bareInsert(b, stack.Setting("HANJUL_POSTGRES_URL")))
	}
}

// hot fills the log while the consumer is away, starts it, and returns orders per second.
func hot(b *testing.B, stack *local.Stack, id product.ID) float64 {
	b.Helper()
	openHot(b, stack, id)
	consumer := stack.Processes(local.Consumer)[0]
	consumer.Stop(b.Context())
	fill(b, stack, id)

	conf := kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")}
	events := stack.Setting("HANJUL_TOPIC_EVENTS")
	partition := kafka.Partition([]byte(id), local.DefaultPartitions)
	_, ends, err := kafka.Offsets(b.Context(), conf, events)
	if err != nil {
		b.Fatal(err)
	}
	from := ends[partition]
	b.ResetTimer()
	if err := consumer.Restart(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer profile(b, b.Name(), consumer)()
	for limit := time.Now().Add(5 * time.Minute); ; {
		_, ends, err = kafka.Offsets(b.Context(), conf, events)
		if err != nil {
			b.Fatal(err)
		}
		if ends[partition]-from >= hotOrders {
			break
		}
		if time.Now().After(limit) {
			b.Fatalf("%d of %d events came out", ends[partition]-from, hotOrders)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		}
	}
	b.StopTimer()
	var first, last time.Time
	if err := kafka.Read(b.Context(), conf, events, partition, from, from+hotOrders, func(m kafka.Message) error {
		if first.IsZero() {
			first = m.Time
		}
		last = m.Time
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return hotOrders / last.Sub(first).Seconds()
}

// openHot makes and opens the product, with a unit for each order.
func openHot(b *testing.B, stack *local.Stack, id product.ID) {
	b.Helper()
	target, err := sale.Of(stack, false)
	if err != nil {
		b.Fatal(err)
	}
	settings := sale.Settings{Rate: 1, Burst: 1, Capacity: 1, PassLife: time.Minute, OrderTTL: time.Hour}
	if err := sale.Open(b.Context(), target, id, hotOrders, settings); err != nil {
		b.Fatal(err)
	}
}

// hotOrder is the id of the order number n.
func hotOrder(n int) string { return fmt.Sprintf("0189%04x-0000-7000-8000-%012x", n%0xffff, n) }

// fill puts signed place commands of as many people into the log, and returns their passes.
func fill(b *testing.B, stack *local.Stack, id product.ID) (passes []string) {
	b.Helper()
	line, err := os.ReadFile(stack.Keys().Pass)
	if err != nil {
		b.Fatal(err)
	}
	key, err := keyring.Parse(string(line))
	if err != nil {
		b.Fatal(err)
	}
	signer, err := pass.NewSigner(key)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	records := make([]kafka.Record, 0, hotOrders)
	for n := range hotOrders {
		p := pass.Pass{
			User: product.UserID(fmt.Sprintf("user-%d", n)), Product: id, Place: product.MakePlace(1, int64(n)+1),
			OrderID: order.ID(hotOrder(n)), Epoch: 1,
			Admitted: now, IssuedAt: now, ExpiresAt: now.Add(time.Hour),
		}
		text, err := signer.Sign(p)
		if err != nil {
			b.Fatal(err)
		}
		passes = append(passes, text)
		bytes, err := order.Command{
			Kind: order.KindPlace, ID: string(p.OrderID), Product: id, OrderID: p.OrderID, User: p.User, Place: p.Place, Quantity: 1,
			Pass: text, DeadlineMS: now.Add(time.Hour).UnixMilli(), AtMS: now.UnixMilli(),
		}.Encode()
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, kafka.Record{Topic: stack.Setting("HANJUL_TOPIC_ORDERS"), Key: []byte(id), Value: bytes})
	}
	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config:     kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")},
		Partitions: map[string]int{stack.Setting("HANJUL_TOPIC_ORDERS"): local.DefaultPartitions}, QueueRecords: hotOrders,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- producer.Run(ctx) }()
	for _, result := range producer.Produce(b.Context(), records) {
		if result.Outcome != kafka.Accepted {
			b.Errorf("fill the log: %s: %v", result.Outcome, result.Err)
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return passes
}

// bareInsert is the ceiling: the rows alone, without judging, events or Kafka.
func bareInsert(b *testing.B, url string) float64 {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	if _, err := conn.Exec(b.Context(), `CREATE TABLE IF NOT EXISTS bare (LIKE orders INCLUDING ALL); TRUNCATE bare`); err != nil {
		b.Fatal(err)
	}
	const batch = 500
	begun := time.Now()
	for from := 0; from < hotOrders; from += batch {
		ids, users, places := make([]string, batch), make([]string, batch), make([]int64, batch)
		for i := range batch {
			n := from + i
			ids[i] = hotOrder(n)
			users[i], places[i] = fmt.Sprintf("user-%d", n), int64(n+1)
		}
		_, err := conn.Exec(b.Context(), `
			INSERT INTO bare (order_id, product_id, user_id, user_hash, place, quantity, status, version, seq)
			SELECT id::uuid, 'bare', u, md5(u), p, 1, 'confirmed', 1, p FROM unnest($1::text[], $2::text[], $3::bigint[]) AS t (id, u, p)`,
			ids, users, places)
		if err != nil {
			b.Fatal(err)
		}
	}
	return hotOrders / time.Since(begun).Seconds()
}
