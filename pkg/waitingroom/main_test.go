package waitingroom_test

import (
	"context"
	"encoding/base64"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

func TestMain(m *testing.M) {
	// Random lives of each test, and moves of one on average, where the command line says nothing else; the flags are there.
	checks := "40"
	if os.Getenv("HANJUL_REDIS") == "standalone" { // the suite's second run of this package, for what another mode of the server changes
		checks = "10"
	}
	_ = flag.Set("rapid.checks", checks)
	_ = flag.Set("rapid.steps", "50")
	localtest.Main(m)
}

// bundle is one product of a test with everything that moves its people.
type bundle struct {
	t        testing.TB
	ctx      context.Context
	rdb      redis.UniversalClient
	keys     product.Keyspace
	room     *waitingroom.Room
	admitter *waitingroom.Admitter
	counter  *stock.Counter
	product  product.ID
	opened   int64
}

// newBundle connects to the shared Redis; nothing is opened yet.
func newBundle(t testing.TB) *bundle {
	t.Helper()
	return bundleOn(t, localtest.Redis(t))
}

func bundleOn(t testing.TB, fixture localtest.RedisFixture) *bundle {
	t.Helper()
	config := redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second} // a busy machine must not look like an outage
	rdb, once := redisconn.New(redisconn.ClientOptions(config)), redisconn.New(redisconn.OnceOptions(config))
	t.Cleanup(func() {
		_ = rdb.Close()
		_ = once.Close()
	})
	keys := product.Keyspace{Prefix: fixture.Prefix}
	return &bundle{
		t: t, ctx: context.Background(), rdb: rdb, keys: keys,
		room: waitingroom.New(rdb, keys), admitter: waitingroom.NewAdmitter(once, keys), counter: stock.New(rdb, keys),
		product: "p1", opened: time.Now().Add(-time.Hour).UnixMicro(),
	}
}

// settings are open and generous, so that each test tightens what it is about.
func settings() product.Settings {
	s := product.DefaultSettings()
	s.State, s.Rate, s.Burst, s.Capacity = product.Open, 100_000, 100_000, 1000
	return s
}

// line wraps settings for the slot.
func (b *bundle) line(s product.Settings, v int64) waitingroom.LineSettings {
	return waitingroom.LineSettings{Settings: s, V: v, OpenedUS: b.opened, PassEpoch: 1}
}

// open restores the slot as inc and loads stock units.
func (b *bundle) open(s product.Settings, inc int, units int64) {
	b.t.Helper()
	b.restore(s, inc, 0, 0)
	b.check(b.counter.Settle(b.ctx, b.product, units, 0, true, nil))
}

func (b *bundle) restore(s product.Settings, inc int, front product.Place, ghost int) {
	b.t.Helper()
	nonce := "n" + product.Place(inc).String()
	b.check(b.room.RestoreBegin(b.ctx, b.product, nonce))
	b.check(b.room.RestoreCommit(b.ctx, b.product, nonce, b.line(s, 1), inc, front, ghost))
}

func (b *bundle) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) join(u product.UserHash) waitingroom.Standing {
	b.t.Helper()
	s, err := b.room.Join(b.ctx, b.product, u, nil)
	b.check(err)
	return s
}

func (b *bundle) status(u product.UserHash) waitingroom.Standing {
	b.t.Helper()
	s, err := b.room.Status(b.ctx, b.product, u, nil)
	b.check(err)
	return s
}

func (b *bundle) view() waitingroom.ProductView {
	b.t.Helper()
	v, err := b.room.View(b.ctx, b.product)
	b.check(err)
	return v
}

// admit lets through until n are in or the script names a reason; tokens come with time, so it polls.
func (b *bundle) admit(n int) {
	b.t.Helper()
	b.until("admissions", func() bool {
		r, err := b.admitter.Admit(b.ctx, b.product, n)
		b.check(err)
		n -= r.Admitted
		return n == 0
	})
}

// until polls a condition that Redis TIME brings about.
func (b *bundle) until(what string, reached func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !reached() {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: not reached", what)
		}
	}
}

// request is a bind of a standing's pass.
func (b *bundle) request(u product.UserHash, place product.Place, quantity int) waitingroom.BindRequest {
	id := b.id(u, place)
	return waitingroom.BindRequest{
		Product: b.product, User: u, Place: place, OrderID: id, ExpiresMS: time.Now().Add(time.Hour).UnixMilli(), Epoch: 1,
		Digest: order.Digest(quantity, ""), Quantity: quantity, Command: []byte("command|of|" + string(id) + "\x00\xff"),
	}
}

func (b *bundle) bind(r waitingroom.BindRequest) waitingroom.BindResult {
	b.t.Helper()
	result, err := b.room.Bind(b.ctx, r)
	b.check(err)
	return result
}

func (b *bundle) id(u product.UserHash, place product.Place) order.ID {
	return orderID(b.product, u, place)
}

// orderID derives ids as the API does, under a key of the tests' own.
func orderID(p product.ID, u product.UserHash, place product.Place) order.ID {
	return order.DeriveID(testKey(), p, u, place, 1_700_000_000_000_000)
}

func testKey() keyring.Key {
	key, err := keyring.Parse("k1:" + base64.RawURLEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		panic(err)
	}
	return key
}

func user(n int) product.UserHash {
	return product.HashUser(testKey(), product.UserID("u"+product.Place(n).String()))
}

func (b *bundle) books() waitingroom.Books {
	b.t.Helper()
	books, err := b.room.Audit(b.ctx, b.product)
	b.check(err)
	return books
}

// balance checks what holds after every step: held = Σ intents, lives began = live + ended, and returns the books.
func (b *bundle) balance() waitingroom.Books {
	b.t.Helper()
	k := b.books()
	if k.HeldSum != k.View.Held {
		b.t.Fatalf("held %d, intents %d (R3)", k.View.Held, k.HeldSum)
	}
	if k.Orderings != k.View.InFlight {
		b.t.Fatalf("ordering %d, intents %d", k.Orderings, k.View.InFlight)
	}
	began := k.Tally.Joined + k.Tally.Restored
	live := k.View.Waiting + k.View.Away + k.ActiveAll + k.View.InFlight
	if began != live+k.Tally.Ended() {
		b.t.Fatalf("began %d, live %d, ended %d (I6, I10): %+v", began, live, k.Tally.Ended(), k)
	}
	if k.Graces != k.View.Away || k.Tally.Away-k.Tally.Back-k.Tally.AwayLapsed < k.View.Away {
		b.t.Fatalf("away %d, graces %d: %+v", k.View.Away, k.Graces, k.Tally)
	}
	b.ends()
	return k
}

// ends checks that exactly the ended records will be forgotten.
func (b *bundle) ends() {
	b.t.Helper()
	stale, err := b.room.StaleEnds(b.ctx, b.product)
	b.check(err)
	if len(stale) > 0 {
		b.t.Fatalf("ended and not to be forgotten, or the reverse: %v", stale)
	}
}
