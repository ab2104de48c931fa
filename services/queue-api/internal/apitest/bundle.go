// Package apitest gives the tests of queue-api one open product on real servers, with the whole surface in front of it and
// nobody behind: no scheduler and no consumer run, the test admits and judges by hand. It owns what it starts until the test
// ends, and is never linked into anything shipped.
package apitest

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/live"
	"hanjul/services/queue-api/internal/streams"
	"hanjul/services/queue-api/internal/submit"
)

const partitions = 3

// patience bounds what a test waits for; nothing asserts a time.
const patience = 30 * time.Second

// Options change a bundle. The zero value is a product that is open, with 100 units, and lets everybody in at once.
type Options struct {
	Stock    int64                   // units; 0 means 100, below 0 none
	Unloaded bool                    // Redis does not know the stock
	Settings func(*product.Settings) // changes the settings before the line opens
	Queue    int                     // most orders that wait for Kafka; 0 for the default
	Send     time.Duration           // wait for Kafka; 0 for patience
	Fault    func(step string) error // submit's crash
	Redis    []string                // a Redis of the test's own; empty for the shared one
	Timeout  time.Duration           // wait for Redis; 0 for 5 s
	Breaker  redisconn.BreakerConfig // of the client
	Streams  streams.Config          // bounds of the streams
	Surface  func(*httpapi.Config)   // changes the surface's settings
	Keys     func(*httpapi.Keys)     // changes the keys
	Live     live.Config             // bounds of the snapshots; by default each poll looks at Redis anew
	Served   bool                    // calls go to a server over TCP, else to the handler
	Logger   *slog.Logger            // nil for none
	Faulty   bool                    // a broker of the test's own, for its faults; else the shared one
	Beside   *Bundle                 // another process in front of this one's product, with connections of its own and, on the shared Redis, its keys
}

// Bundle is one product and the surface in front of it.
type Bundle struct {
	Product  product.ID
	Settings product.Settings
	OpenedUS int64
	Keys     httpapi.Keys
	Room     *waitingroom.Room
	Statuses *orderstatus.Store
	Stock    *stock.Counter
	Redis    redis.UniversalClient
	Names    product.Keyspace
	Submits  *submit.Submitter
	Sweeper  *submit.Sweeper
	Streams  *streams.Hub // does not run
	Lines    *live.Lines  // does not run
	Producer *kafka.Producer
	Handler  http.Handler
	Registry *prometheus.Registry
	Kafka    *kfake.Cluster // nil unless faults were asked for
	Brokers  kafka.Config
	Topic    string // takes the orders
	Base     string // where the server is; empty without one

	admitter *waitingroom.Admitter
	seq      int64
	base     int64
	bans     int64 // changes so far
}

// New opens a product.
func New(t testing.TB, o Options) *Bundle {
	t.Helper()
	b := prepare(t, o)
	if o.Beside != nil {
		return b
	}
	b.Open(t, 1, 0)
	if !o.Unloaded {
		b.base = o.Stock
		if o.Stock == 0 {
			b.base = 100
		}
		b.base = max(0, b.base)
		b.LoadStock(t)
	}
	return b
}

// prepare builds everything; the product is in the catalogue and its line is not open.
func prepare(t testing.TB, o Options) *Bundle {
	t.Helper()
	prefix, addrs := "own:", o.Redis
	if len(addrs) == 0 {
		fixture := localtest.Redis(t)
		prefix, addrs = fixture.Prefix, fixture.Addrs
	}
	if o.Beside != nil {
		prefix = o.Beside.Names.Prefix
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	conn := redisconn.Config{Addrs: addrs, Timeout: o.Timeout}
	options := redisconn.ClientOptions(conn)
	options.DialerRetries = 1
	rdb, once := redisconn.Share(redisconn.New(options)), redisconn.New(redisconn.OnceOptions(conn))
	t.Cleanup(func() { _, _ = rdb.Close(), once.Close() })
	check(t, rdb.Guard(o.Breaker))

	b := &Bundle{
		Product: "shoe", Redis: rdb, Names: product.Keyspace{Prefix: prefix}, Keys: Keys(t),
		Topic:    localtest.Topic(t, "orders"),
		OpenedUS: time.Now().Add(-time.Minute).UnixMicro(),
		Settings: product.DefaultSettings(),
	}
	if o.Beside != nil {
		b.OpenedUS = o.Beside.OpenedUS
	}
	b.Settings.State, b.Settings.Rate, b.Settings.Burst, b.Settings.Capacity = product.Open, 100_000, 100_000, 1_000_000
	if o.Settings != nil {
		o.Settings(&b.Settings)
	}
	if o.Keys != nil {
		o.Keys(&b.Keys)
	}
	b.Brokers = kafka.Config{ClientID: "test"}
	if o.Faulty {
		b.Kafka = localtest.KafkaCluster(t)
		b.Brokers.Brokers = b.Kafka.ListenAddrs()
	} else {
		b.Brokers.Brokers = localtest.Kafka(t)
	}
	check(t, kafka.CreateTopics(t.Context(), b.Brokers, []kafka.TopicSpec{{Name: b.Topic, Partitions: partitions}}))
	b.Room, b.Statuses = waitingroom.New(rdb, b.Names), orderstatus.New(rdb, b.Names, orderstatus.Config{})
	b.Stock, b.admitter = stock.New(rdb, b.Names), waitingroom.NewAdmitter(once, b.Names)
	b.Producer = producer(t, b.Brokers, b.Topic, o.Queue)

	registry := prometheus.NewRegistry()
	submits, err := submit.NewMetrics(registry)
	check(t, err)
	calls, err := httpapi.NewMetrics(registry)
	check(t, err)
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if o.Send == 0 {
		o.Send = patience
	}
	b.Submits = submit.New(b.Room, b.Statuses, b.Producer, logger, submits, submit.Config{
		Topic: b.Topic, Commands: Command(t), SendTimeout: o.Send, StoreTimeout: patience, Fault: o.Fault,
	})
	b.Sweeper = submit.NewSweeper(b.Submits, b.Keys.Users, 10*time.Millisecond)
	opened, err := streams.NewMetrics(registry)
	check(t, err)
	b.Registry, b.Streams = registry, streams.New(b.Statuses, logger, opened, o.Streams)
	surface := httpapi.Config{Cadence: httpapi.DefaultCadence(), Advise: true, RequestTimeout: patience, StreamNearest: 1000}
	if o.Surface != nil {
		o.Surface(&surface)
	}
	if o.Live == (live.Config{}) {
		o.Live = live.Config{Every: time.Nanosecond, Wait: patience, Timeout: patience}
	}
	snapshots, err := live.NewMetrics(registry)
	check(t, err)
	b.Lines = live.New(b.Room, nil, logger, snapshots, o.Live)
	b.Handler = httpapi.New(b.Room, b.Lines, b.Statuses, b.Submits, b.Streams, b.Keys, logger, calls, surface).Handler()
	if o.Served {
		server := httptest.NewServer(b.Handler)
		t.Cleanup(server.Close)
		b.Base = server.URL
	}
	check(t, b.Room.PutCatalogue(t.Context(), []product.ID{b.Product, "unopened"}))
	return b
}

// producer gives a running producer that is stopped when the test ends.
func producer(t testing.TB, brokers kafka.Config, topic string, queue int) *kafka.Producer {
	t.Helper()
	p, err := kafka.NewProducer(kafka.ProducerConfig{
		Config: brokers, Partitions: map[string]int{topic: partitions}, QueueRecords: queue, RetryFor: patience, DrainFor: time.Millisecond,
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = <-ended // what a broken broker left unsent is what the test was about
	})
	return p
}

// Keys are fixed keys: the same in every bundle, so that tokens can be compared.
func Keys(t testing.TB) httpapi.Keys {
	t.Helper()
	key := func(id string) keyring.Key {
		k, err := keyring.Parse(id + ":" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(id[:1], 32))))
		check(t, err)
		return k
	}
	signer, err := pass.NewSigner(key("pass"))
	check(t, err)
	return httpapi.Keys{Orders: key("order"), Users: key("user"), Tickets: keyring.Ring{key("ticket")}, Passes: signer}
}

// Open restores the line under an incarnation, as a scheduler does for a new product and after a loss.
func (b *Bundle) Open(t testing.TB, inc int, front product.Place) {
	t.Helper()
	nonce := fmt.Sprintf("nonce-%d", inc)
	check(t, b.Room.RestoreBegin(t.Context(), b.Product, nonce))
	check(t, b.Room.RestoreCommit(t.Context(), b.Product, nonce, b.line(int64(inc)), inc, front, 0))
}

// Change copies changed settings into the line. The surface sees what it keeps for a second later.
func (b *Bundle) Change(t testing.TB, version int64, change func(*waitingroom.LineSettings)) {
	t.Helper()
	line := b.line(version)
	change(&line)
	applied, err := b.Room.SettingsPut(t.Context(), b.Product, line)
	check(t, err)
	if !applied {
		t.Fatalf("settings of version %d were not taken", version)
	}
}

func (b *Bundle) line(version int64) waitingroom.LineSettings {
	return waitingroom.LineSettings{Settings: b.Settings, V: version, OpenedUS: b.OpenedUS}
}

// Evict puts a person out of the line for an hour, as the scheduler does with a ban in the ledger; with none it lifts the ban.
func (b *Bundle) Evict(t testing.TB, p *Person, until time.Time) {
	t.Helper()
	b.bans++
	ban := waitingroom.Ban{User: p.Hash(), UntilMS: until.UnixMilli(), V: b.bans}
	_, err := b.Room.Evict(t.Context(), b.Product, []waitingroom.Ban{ban}, b.bans-1, b.bans)
	check(t, err)
}

// Expire puts the end of a person's lease into the past, as if the time of the pass had gone by.
func (b *Bundle) Expire(t testing.TB, p *Person) {
	t.Helper()
	check(t, b.Redis.ZAddXX(t.Context(), b.Names.Product(b.Product).Active, redis.Z{Score: 1000, Member: string(p.Hash())}).Err())
}

// LoadStock tells the line its stock, as the consumer does on load_stock.
func (b *Bundle) LoadStock(t testing.TB) {
	t.Helper()
	b.seq++
	check(t, b.Stock.Settle(t.Context(), b.Product, b.base, b.seq, true, nil))
}

// Restock adds units, as the consumer does on an operator's adjust.
func (b *Bundle) Restock(t testing.TB, units int64) {
	t.Helper()
	b.base += units
	b.seq++
	check(t, b.Stock.Settle(t.Context(), b.Product, b.base, b.seq, false, nil))
}

// Admit lets up to n people through and returns how many.
func (b *Bundle) Admit(t testing.TB, n int) int {
	t.Helper()
	result, err := b.admitter.Admit(t.Context(), b.Product, n)
	check(t, err)
	return result.Admitted
}

// Judge does what the consumer does with an order: decrement, and the status unless it is lost.
func (b *Bundle) Judge(t testing.TB, c order.Command, state order.State, reason order.Reason, tell bool) {
	t.Helper()
	if state == order.StateConfirmed {
		b.base -= int64(c.Quantity)
	}
	b.seq++
	hash := product.HashUser(b.Keys.Users, c.User)
	check(t, b.Stock.Settle(t.Context(), b.Product, b.base, b.seq, false, []stock.Judged{{OrderID: c.OrderID, User: hash, Place: c.Place}}))
	if !tell {
		return
	}
	_, err := b.Statuses.Put(t.Context(), c.OrderID, order.Status{
		Version: order.VersionVerdict, State: state, Reason: reason, Product: b.Product, User: hash,
		Quantity: c.Quantity, Digest: order.Digest(c.Quantity, c.IdempotencyKey),
	})
	check(t, err)
}

// Log reads every command in Kafka.
func (b *Bundle) Log(t testing.TB) []order.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, end, err := kafka.Offsets(ctx, b.Brokers, b.Topic)
	check(t, err)
	var commands []order.Command
	for p := range end {
		check(t, kafka.Read(ctx, b.Brokers, b.Topic, p, first[p], end[p], func(m kafka.Message) error {
			c, err := order.DecodeCommand(m.Value)
			if err == nil && string(m.Key) != string(c.Product) {
				t.Errorf("the key is %q, the product %q", m.Key, c.Product)
			}
			commands = append(commands, c)
			return err
		}))
	}
	return commands
}

// Messages is the number of records in Kafka.
func (b *Bundle) Messages(t testing.TB) int64 {
	t.Helper()
	_, end, err := kafka.Offsets(t.Context(), b.Brokers, b.Topic)
	check(t, err)
	var sum int64
	for _, offset := range end {
		sum += offset
	}
	return sum
}

// Due makes the attention that every bound order wants due now, as if its time had come.
func (b *Bundle) Due(t testing.TB) {
	t.Helper()
	ordering := b.Names.Product(b.Product).Ordering
	ids, err := b.Redis.ZRange(t.Context(), ordering, 0, -1).Result()
	check(t, err)
	for _, id := range ids {
		check(t, b.Redis.ZAdd(t.Context(), ordering, redis.Z{Score: 1, Member: id}).Err())
	}
}

// Stall makes requests to append to Kafka wait; the function returned lets them go, and they are appended then. reached
// tells each that waits. The bundle must be a faulty one.
func (b *Bundle) Stall(t testing.TB) (reached <-chan struct{}, release func()) {
	t.Helper()
	waiting, open := make(chan struct{}, 1000), make(chan struct{})
	var once sync.Once
	release = func() { once.Do(func() { close(open) }) }
	t.Cleanup(release)
	b.Kafka.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Kafka.KeepControl()
		b.Kafka.SleepControl(func() {
			waiting <- struct{}{}
			<-open
		})
		return nil, nil, false
	})
	return waiting, release
}

// Eventually polls until ok holds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pause := kafka.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}
	for !ok() {
		if err := pause.Wait(ctx); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
