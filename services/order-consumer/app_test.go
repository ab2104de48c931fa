package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/pass"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
)

// start runs a whole process and waits until it is ready. stop asks it to end and says what it ended with.
func (w *world) start(t *testing.T, more ...string) (admin string, stop func() error) {
	t.Helper()
	source := config.NewSource(w.environ(more...), service)
	settings := loadConfig(source)
	if err := source.Err(); err != nil {
		t.Fatalf("settings: %v", err)
	}
	app, err := newApp(slog.New(slog.DiscardHandler), settings, telemetry.NewBuild("", ""))
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	ended := false
	stop = func() error {
		cancel()
		if ended {
			return nil
		}
		ended = true
		return <-done
	}
	t.Cleanup(func() { _ = stop() })
	if err := app.admin.Ready(t.Context()); err != nil {
		t.Fatalf("admin: %v", err)
	}
	admin = "http://" + app.admin.Addr().String()
	until(t, "ready", func() error {
		status, body, err := get(t.Context(), admin+"/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, body)
		}
		return err
	})
	return admin, stop
}

func get(ctx context.Context, url string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	var text strings.Builder
	_, err = fmt.Fprint(&text, response.Header.Get("Content-Type"), " ")
	buffer := make([]byte, 1<<20)
	for err == nil {
		var n int
		n, err = response.Body.Read(buffer)
		text.Write(buffer[:n])
	}
	return response.StatusCode, text.String(), response.Body.Close()
}

// until waits for what servers bring about in their own time.
func until(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for pause := (kafka.Backoff{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}); ; {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %s: %v", what, err)
		}
		if err := pause.Wait(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// readKey reads a key of the test's.
func readKey(t *testing.T, path string) keyring.Key {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	key, err := keyring.Parse(string(text))
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	return key
}

// client is what the test does from outside: it orders, asks and looks.
type client struct {
	*world
	t        *testing.T
	books    *ledger.Ledger
	statuses *orderstatus.Store
	units    *stock.Counter
	room     *waitingroom.Room
	producer *kafka.Producer
	signer   *pass.Signer
}

func (w *world) client(t *testing.T) *client {
	t.Helper()
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: w.redis.Addrs}))
	t.Cleanup(func() { _ = rdb.Close() })
	keys := product.Keyspace{Prefix: w.redis.Prefix}
	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config: kafka.Config{Brokers: w.brokers, ClientID: "test"}, Partitions: map[string]int{w.topics.Orders: 3},
	})
	if err != nil {
		t.Fatalf("producer: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- producer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("producer: %v", err)
		}
	})
	signer, err := pass.NewSigner(readKey(t, w.keys.Pass))
	if err != nil {
		t.Fatalf("signer: %v", err)
	}
	books, err := ledger.Open(t.Context(), postgres.At(w.url), ledger.Config{Topics: w.topics})
	if err != nil {
		t.Fatalf("ledger: %v", err)
	}
	t.Cleanup(books.Close)
	return &client{
		world: w, t: t, books: books, producer: producer, signer: signer,
		statuses: orderstatus.New(rdb, keys, orderstatus.Config{}), units: stock.New(rdb, keys),
		room: waitingroom.New(rdb, keys),
	}
}

// place is a user's order as queue-api would send it.
func (c *client) place(p product.ID, user product.UserID, place product.Place, quantity int) (order.ID, kafka.Record) {
	c.t.Helper()
	hash := product.HashUser(readKey(c.t, c.keys.User), user)
	id := order.DeriveID(readKey(c.t, c.keys.Order), p, hash, place, 1)
	now := time.Now()
	token, err := c.signer.Sign(pass.Pass{
		User: user, Product: p, Place: place, OrderID: id, Epoch: 1, Admitted: now, IssuedAt: now, ExpiresAt: now.Add(time.Minute),
	})
	if err != nil {
		c.t.Fatalf("sign: %v", err)
	}
	value, err := order.Command{
		Kind: order.KindPlace, ID: string(id), Product: p, OrderID: id, User: user, Place: place, Quantity: quantity, Pass: token,
		DeadlineMS: now.Add(time.Minute).UnixMilli(), AtMS: now.UnixMilli(),
	}.Encode()
	if err != nil {
		c.t.Fatalf("encode: %v", err)
	}
	return id, kafka.Record{Topic: c.topics.Orders, Key: []byte(p), Value: value}
}

func (c *client) send(records ...kafka.Record) {
	c.t.Helper()
	for _, result := range c.producer.Produce(c.t.Context(), records) {
		if result.Err != nil {
			c.t.Fatalf("send: %v", result.Err)
		}
	}
}

// untilStatus waits for the status that the order's user would read.
func (c *client) untilStatus(id order.ID, state order.State, reason order.Reason) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%s: %s %s", id, state, reason), func() error {
		status, _, err := c.statuses.Get(c.t.Context(), id)
		if err == nil && (status.State != state || status.Reason != reason) {
			err = fmt.Errorf("status %+v", status)
		}
		return err
	})
}

// facts reads the topic of events: per product the types, in the order of the log.
func (c *client) facts(p product.ID) []order.EventType {
	c.t.Helper()
	cluster := kafka.Config{Brokers: c.brokers}
	partition := kafka.Partition([]byte(p), 3)
	first, end, err := kafka.Offsets(c.t.Context(), cluster, c.topics.Events)
	if err != nil {
		c.t.Fatalf("offsets: %v", err)
	}
	var types []order.EventType
	err = kafka.Read(c.t.Context(), cluster, c.topics.Events, partition, first[partition], end[partition], func(m kafka.Message) error {
		event, err := order.DecodeEvent(m.Value)
		if err == nil && event.Product == p {
			types = append(types, event.Type)
		}
		return err
	})
	if err != nil {
		c.t.Fatalf("events: %v", err)
	}
	return types
}

// The whole till: an operator's stock leaves through the outbox and is judged, orders are judged and told, events come out, a
// status that Redis forgot comes back, an order that nobody knows is rejected. Two processes share the work; one stops and starts.
func TestApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	quick := []string{"HANJUL_CONSUMER_VOID_GRACE=1ms", "HANJUL_CONSUMER_RELAY_POLL=20ms"}
	admin, _ := w.start(t, quick...)
	_, stopSecond := w.start(t, quick...)
	c := w.client(t)

	const apple = product.ID("apple")
	adjust, err := order.Command{Kind: order.KindAdjust, ID: "make-apple", Product: apple, Delta: 3}.Sign(readKey(t, w.keys.Command))
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	value, err := adjust.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	action := ledger.Action{RequestID: "make-apple", Operator: "test", Product: apple}
	if _, err := c.books.PutProduct(t.Context(), action, product.DefaultSettings(), &ledger.Movement{Delta: 3, Command: value}); err != nil {
		t.Fatalf("put product: %v", err)
	}
	until(t, "stock adjusted", func() error {
		have, err := c.books.StockOf(t.Context(), apple)
		if err == nil && have.Total != 3 {
			err = fmt.Errorf("stock %+v", have)
		}
		return err
	})

	first, one := c.place(apple, "ann", 1, 2)
	second, two := c.place(apple, "ben", 2, 2)
	c.send(one, two, one) // The copy changes nothing.
	c.untilStatus(first, order.StateConfirmed, "")
	c.untilStatus(second, order.StateRejected, order.ReasonSoldOut)

	if err := stopSecond(); err != nil {
		t.Errorf("the second process ended with %v", err)
	}
	third, three := c.place(apple, "cid", 3, 1)
	c.send(three)
	c.untilStatus(third, order.StateConfirmed, "")
	w.start(t, quick...)

	// Nobody knows this one, and its deadline is gone. It is voided once its line is there, where its id is closed first.
	const nonce = "n"
	if err := c.room.RestoreBegin(t.Context(), apple, nonce); err != nil {
		t.Fatalf("restore: %v", err)
	}
	line := waitingroom.LineSettings{Settings: product.DefaultSettings(), V: 1, OpenedUS: time.Now().UnixMicro(), PassEpoch: 1}
	if err := c.room.RestoreCommit(t.Context(), apple, nonce, line, 1, 0, 0); err != nil {
		t.Fatalf("restore: %v", err)
	}
	hash := product.HashUser(readKey(t, w.keys.User), "dan")
	lost := order.DeriveID(readKey(t, w.keys.Order), apple, hash, 4, 1)
	err = c.statuses.Want(t.Context(), orderstatus.Wanted{Product: apple, User: hash, OrderID: lost, DeadlineMS: 1})
	if err != nil {
		t.Fatalf("want: %v", err)
	}
	c.untilStatus(lost, order.StateRejected, order.ReasonExpired)

	until(t, "all published", func() error {
		if types := c.facts(apple); len(types) < 5 {
			return fmt.Errorf("events %v", types)
		}
		return nil
	})
	want := []order.EventType{order.StockAdjusted, order.Confirmed, order.Rejected, order.Confirmed, order.Rejected}
	if got := c.facts(apple); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("events %v, want %v", got, want)
	}
	_, metrics, err := get(t.Context(), admin+"/metrics")
	if err != nil {
		t.Fatalf("metrics: %v", err)
	}
	for _, name := range []string{"hanjul_relay_shards", "hanjul_fulfil_commands_total", "hanjul_reconcile_orders_total", "hanjul_kafka_produce_records_total", "hanjul_build_info"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("metric %s is missing", name)
		}
	}
}

// Redis is emptied after the verdicts: a process that starts brings statuses back without being asked, one that was asked does so at once.
func TestAppBringsBackWhatRedisLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	private := localtest.PrivateRedis(t)
	w.redis.Addrs = []string{private.Addr()}
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	const pear = product.ID("pear")
	c := w.client(t)
	ledgertest.Product(t, c.books, pear, 5)
	_, stop := w.start(t)
	ids := make([]order.ID, 3)
	for i := range ids {
		var record kafka.Record
		ids[i], record = c.place(pear, product.UserID(fmt.Sprintf("user-%d", i)), product.Place(i+1), 1)
		c.send(record)
	}
	for _, id := range ids {
		c.untilStatus(id, order.StateConfirmed, "")
	}
	empty := func() {
		rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: w.redis.Addrs}))
		defer func() { _ = rdb.Close() }()
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatalf("empty redis: %v", err)
		}
	}

	empty()
	user := product.HashUser(readKey(t, w.keys.User), "user-0")
	if err := c.statuses.Want(t.Context(), orderstatus.Wanted{Product: pear, User: user, OrderID: ids[0]}); err != nil {
		t.Fatalf("want: %v", err)
	}
	c.untilStatus(ids[0], order.StateConfirmed, "")

	if err := stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	empty()
	w.start(t)
	for _, id := range ids {
		c.untilStatus(id, order.StateConfirmed, "")
	}
}

// A process with no partitions is ready: more processes than partitions is no fault.
func TestAppIsReadyWithoutPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	var stops []func() error
	for range 4 {
		admin, stop := w.start(t)
		stops = append(stops, stop)
		_, body, err := get(t.Context(), admin+"/readyz")
		var answer struct {
			Ready bool `json:"ready"`
		}
		_, text, _ := strings.Cut(body, " ")
		if err := errors.Join(err, json.Unmarshal([]byte(text), &answer)); err != nil || !answer.Ready {
			t.Logf("ready once, now %q: %v", body, err) // A rebalance may be under way.
		}
	}
	for _, stop := range stops {
		if err := stop(); err != nil {
			t.Errorf("ended with %v", err)
		}
	}
}
