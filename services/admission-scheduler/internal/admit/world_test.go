package admit_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

// within is how long an event is waited for: it bounds a hang and is no expectation.
const within = 30 * time.Second

// world is one test's Redis, ledger and log of commands, with a product "p" that is open.
type world struct {
	t     testing.TB
	url   string
	keys  product.Keyspace
	conn  redisconn.Config
	rdb   redis.UniversalClient
	once  redis.UniversalClient
	room  *waitingroom.Room
	books *ledger.Ledger
	log   *commands
	calls int
}

const p = product.ID("p")

func newWorld(t testing.TB, units int64, change func(*product.Settings)) *world {
	t.Helper()
	fixture := localtest.Redis(t)
	return newWorldAt(t, fixture.Addrs, fixture.Prefix, units, change)
}

func newWorldAt(t testing.TB, addrs []string, prefix string, units int64, change func(*product.Settings)) *world {
	t.Helper()
	conn := redisconn.Config{Addrs: addrs, Timeout: 5 * time.Second}
	w := &world{t: t, url: ledgertest.URL(t), keys: product.Keyspace{Prefix: prefix}, conn: conn}
	w.rdb, w.once = redisconn.New(redisconn.ClientOptions(conn)), redisconn.New(redisconn.OnceOptions(conn))
	t.Cleanup(func() { _, _ = w.rdb.Close(), w.once.Close() })
	w.room, w.books = waitingroom.New(w.rdb, w.keys), ledgertest.OpenAt(t, w.url)
	// A query cut off by the end of its scheduler gives its connection back a moment later.
	t.Cleanup(func() {
		until(t, "connections are given back", func() bool { return w.books.Pool().Stat().AcquiredConns() == 0 })
	})
	w.log = &commands{t: t, key: commandKey(t), books: w.books, counter: stock.New(w.rdb, w.keys), answers: true}
	ledgertest.Product(t, w.books, p, units, change)
	w.act(w.books.Open)
	return w
}

func commandKey(t testing.TB) keyring.Key {
	t.Helper()
	key, err := keyring.Parse("c1:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// action is the next operator's action on the product.
func (w *world) action() ledger.Action {
	w.calls++
	return ledger.Action{RequestID: "r" + strconv.Itoa(w.calls), Operator: "test", Product: p}
}

// act does one of the ledger's changes that take nothing but an action.
func (w *world) act(do func(context.Context, ledger.Action) (ledger.ActionResult, error)) {
	w.t.Helper()
	if _, err := do(w.t.Context(), w.action()); err != nil {
		w.t.Fatal(err)
	}
}

// scheduler is one running loop, with a ledger pool and metrics of its own.
type scheduler struct {
	*admit.Loop
	registry *prometheus.Registry
	stop     func() // ends it and waits; safe to call twice
}

func (w *world) scheduler(change func(*admit.Config)) *scheduler {
	w.t.Helper()
	s := &scheduler{registry: prometheus.NewRegistry()}
	c := admit.Config{
		Room: w.room, Admitter: waitingroom.NewAdmitter(w.once, w.keys), Ledger: w.books, Producer: w.log,
		TopicOrders: "orders", Commands: w.log.key,
		Tick: 5 * time.Millisecond, Deadline: 5 * time.Second, Concurrency: 4, Upkeep: 20 * time.Millisecond, Registerer: s.registry,
	}
	if change != nil {
		change(&c)
	}
	var err error
	if s.Loop, err = admit.New(slog.New(slog.DiscardHandler), c); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	}()
	s.stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(s.stop)
	return s
}

// gauge is the value of one of the scheduler's gauges.
func (s *scheduler) gauge(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	return s.count(t, name, labels...)
}

// count is the value of one of the scheduler's counters, or how often its histogram observed; labels are values in the order of their names.
func (s *scheduler) count(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var got []string
			for _, label := range m.GetLabel() {
				got = append(got, label.GetValue())
			}
			if reflect.DeepEqual(got, labels) || len(got)+len(labels) == 0 {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// until polls for an event.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	deadline := time.After(within)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !happened() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("never came: %s", what)
		}
	}
}

// view is the product's state; the zero view while it has none.
func (w *world) view() waitingroom.ProductView {
	v, _ := w.room.View(w.t.Context(), p)
	return v
}

func (w *world) line() waitingroom.Line {
	w.t.Helper()
	l, err := w.room.Line(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) row() ledger.ProductRow {
	w.t.Helper()
	row, err := w.books.Product(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

// open waits until the product can be joined and its units are known.
func (w *world) open() {
	w.t.Helper()
	until(w.t, "the line opens", func() bool { v := w.view(); return v.State == product.Open && v.StockKnown })
}

// user is the nth person's hash.
func user(n int) product.UserHash {
	return product.HashUser(keyring.Key{}, product.UserID("u"+strconv.Itoa(n)))
}

// join puts people n to m−1 into the line and returns their places.
func (w *world) join(n, m int) map[product.UserHash]product.Place {
	w.t.Helper()
	places := make(map[product.UserHash]product.Place)
	for i := n; i < m; i++ {
		s, err := w.room.Join(w.t.Context(), p, user(i), nil)
		if err != nil {
			w.t.Fatal(err)
		}
		places[user(i)] = s.Place
	}
	return places
}

// lose takes everything that Redis knows of the product, as the loss of its node would.
func (w *world) lose() {
	w.t.Helper()
	keys := reflect.ValueOf(w.keys.Product(p))
	var names []string
	for i := range keys.NumField() {
		names = append(names, keys.Field(i).String())
	}
	if err := w.rdb.Del(w.t.Context(), names...).Err(); err != nil {
		w.t.Fatal(err)
	}
}

// commands stand for the topic orders and, where answers is set, for the consumer behind it.
type commands struct {
	t       testing.TB
	key     keyring.Key
	books   *ledger.Ledger
	counter *stock.Counter
	answers bool

	mu   sync.Mutex
	seen []order.Command
}

func (c *commands) Produce(ctx context.Context, records []kafka.Record) []kafka.Result {
	results := make([]kafka.Result, len(records))
	for i, record := range records {
		command, err := order.DecodeCommand(record.Value)
		if err == nil {
			err = command.Verify(keyring.Ring{c.key})
		}
		if err != nil || string(record.Key) != string(command.Product) || record.Topic != "orders" {
			c.t.Errorf("not a command: %v, key %q, topic %q", err, record.Key, record.Topic)
		}
		c.mu.Lock()
		c.seen = append(c.seen, command)
		c.mu.Unlock()
		results[i].Outcome = kafka.Accepted
		if !c.answers {
			continue
		}
		if s, err := c.books.StockOf(ctx, command.Product); err == nil {
			err = c.counter.Settle(ctx, command.Product, s.Left(), s.Seq, true, nil)
			if err != nil && ctx.Err() == nil {
				c.t.Errorf("settle: %v", err)
			}
		}
	}
	return results
}

func (c *commands) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}
