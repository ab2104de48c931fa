package stock_test

import (
	"context"
	"encoding/base64"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/lua"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// bundle is one open line of 1,000 units whose people order by rule 4 of bind: their passes are of before a loss.
type bundle struct {
	t       *testing.T
	ctx     context.Context
	rdb     redis.UniversalClient
	keys    product.Keys
	room    *waitingroom.Room
	counter *stock.Counter
}

const sale product.ID = "p1"

func newBundle(t *testing.T) *bundle {
	t.Helper()
	fixture := localtest.Redis(t)
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second}))
	t.Cleanup(func() { _ = rdb.Close() })
	space := product.Keyspace{Prefix: fixture.Prefix}
	return &bundle{t, context.Background(), rdb, space.Product(sale), waitingroom.New(rdb, space), stock.New(rdb, space)}
}

func (b *bundle) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) open() {
	b.t.Helper()
	s := product.DefaultSettings()
	s.State = product.Open
	b.check(b.room.RestoreBegin(b.ctx, sale, "n"))
	b.check(b.room.RestoreCommit(b.ctx, sale, "n", waitingroom.LineSettings{Settings: s, V: 1, OpenedUS: 1, PassEpoch: 1}, 2, 0, 0))
}

func (b *bundle) settle(base, seq int64, create bool, judged ...stock.Judged) {
	b.t.Helper()
	b.check(b.counter.Settle(b.ctx, sale, base, seq, create, judged))
}

// bind gives the user an order in flight at a place.
func (b *bundle) bind(n, quantity int) stock.Judged {
	b.t.Helper()
	j := judged(n)
	r, err := b.room.Bind(b.ctx, waitingroom.BindRequest{
		Product: sale, User: j.User, Place: j.Place, OrderID: j.OrderID, ExpiresMS: time.Now().Add(time.Hour).UnixMilli(), Epoch: 1,
		Digest: order.Digest(quantity, ""), Quantity: quantity, Command: []byte("c"),
	})
	b.check(err)
	if r.Outcome != waitingroom.BindBound {
		b.t.Fatalf("bind %d: %+v", n, r)
	}
	return j
}

func (b *bundle) view() waitingroom.Books {
	b.t.Helper()
	k, err := b.room.Audit(b.ctx, sale)
	b.check(err)
	if k.HeldSum != k.View.Held || k.Tally.Joined+k.Tally.Restored != k.View.Waiting+k.ActiveAll+k.View.InFlight+k.Tally.Ended() {
		b.t.Fatalf("books do not balance: %+v", k)
	}
	return k
}

func judged(n int) stock.Judged {
	key, err := keyring.Parse("k1:" + base64.RawURLEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		panic(err)
	}
	u := product.HashUser(key, product.UserID("u"+strconv.Itoa(n)))
	place := product.MakePlace(1, int64(n+1))
	return stock.Judged{OrderID: order.DeriveID(key, sale, u, place, 1), User: u, Place: place}
}

// A slot learns its stock only when it is told to, and a lower or equal seq never overwrites (F11, F4).
func TestSettleStock(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	for _, c := range []struct {
		base, seq int64
		create    bool
		known     bool
		want      [2]int64
	}{
		{9, 4, false, false, [2]int64{0, 0}},
		{10, 3, true, true, [2]int64{10, 3}},
		{10, 3, true, true, [2]int64{10, 3}},
		{99, 3, false, true, [2]int64{10, 3}},
		{98, 2, true, true, [2]int64{10, 3}},
		{9, 4, false, true, [2]int64{9, 4}},
		{0, 5, false, true, [2]int64{0, 5}},
		{1_700_000_000_123_456, 100_000_000, true, true, [2]int64{1_700_000_000_123_456, 100_000_000}},
	} {
		b.settle(c.base, c.seq, c.create)
		v := b.view().View
		if got := [2]int64{v.Base, v.Seq}; v.StockKnown != c.known || got != c.want {
			t.Fatalf("after %+v: known %v, %v", c, v.StockKnown, got)
		}
	}
}

// A settled order is told twice, late and with another chunk: its units are freed once.
func TestSettleIsSafeToRepeat(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	b.settle(1000, 0, true)
	first, second := b.bind(1, 3), b.bind(2, 4)
	if v := b.view().View; v.Held != 7 || v.Free() != 993 {
		t.Fatalf("held: %+v", v)
	}
	for range 3 {
		b.settle(997, 1, false, first)
		k := b.view()
		if k.View.Held != 4 || k.View.InFlight != 1 || k.View.Base != 997 || k.Judged != 1 || k.Tally.Ordered != 1 {
			t.Fatalf("settled: %+v", k)
		}
	}
	b.settle(993, 2, false, first, second)
	b.settle(997, 1, false, first)
	if k := b.view(); k.View.Held != 0 || k.View.InFlight != 0 || k.View.Base != 993 || k.View.Seq != 2 || k.Orderings != 0 {
		t.Fatalf("settled: %+v", k)
	}
	if s, err := b.room.Status(b.ctx, sale, second.User, nil); err != nil || s.State != waitingroom.Ordered || s.OrderID != second.OrderID {
		t.Fatalf("user: %+v, %v", s, err)
	}
}

// The ledger has judged, whatever the slot knows: settled before the restore, nobody orders or re-enters by it.
func TestSettleWithoutSettings(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	j := judged(1)
	b.settle(5, 9, false, j)
	b.open()
	k := b.view()
	if k.View.StockKnown || k.Judged != 1 || k.Tally.Restored != 1 || k.Tally.Ordered != 1 {
		t.Fatalf("books: %+v", k)
	}
	s, err := b.room.Status(b.ctx, sale, j.User, &waitingroom.TicketClaim{Place: j.Place, OrderID: j.OrderID})
	b.check(err)
	if s.State != waitingroom.Ordered || s.Place != j.Place {
		t.Fatalf("user: %+v", s)
	}
}

// Without a place only a record that names the order is touched; with one, only a record at or below it (R2).
func TestSettleTouchesTheRightRecord(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	b.settle(1000, 0, true)
	named := b.bind(1, 1)
	noPlace := named
	noPlace.Place = 0
	b.settle(999, 1, false, noPlace)
	if s, err := b.room.Status(b.ctx, sale, named.User, nil); err != nil || s.State != waitingroom.Ordered || s.Place != named.Place {
		t.Fatalf("named without a place: %+v, %v", s, err)
	}
	// The user has joined anew since: neither a void nor a late verdict of the old place reaches the new life.
	s, err := b.room.Join(b.ctx, sale, named.User, nil)
	b.check(err)
	b.settle(999, 1, false, noPlace, named)
	again, err := b.room.Status(b.ctx, sale, named.User, nil)
	b.check(err)
	if again.State != waitingroom.Waiting || again.Place != s.Place {
		t.Fatalf("new life: %+v", again)
	}
	// A waiting place at or below the judged one was not known to have been called: it has ordered.
	higher := stock.Judged{OrderID: judged(7).OrderID, User: named.User, Place: s.Place + 5}
	b.settle(998, 2, false, higher)
	again, err = b.room.Status(b.ctx, sale, named.User, nil)
	b.check(err)
	if again.State != waitingroom.Ordered || again.Place != higher.Place || again.OrderID != higher.OrderID {
		t.Fatalf("lower place: %+v", again)
	}
	b.view()
}

// More orders than one script takes are settled in chunks.
func TestSettleInChunks(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	b.settle(1000, 0, true)
	var all []stock.Judged
	for n := range 1201 {
		if n < 5 {
			b.bind(n, 1)
		}
		all = append(all, judged(n))
	}
	b.settle(995, 1201, false, all...)
	k := b.view()
	if k.Judged != 1201 || k.View.InFlight != 0 || k.View.Held != 0 || k.View.Base != 995 || k.Remembered != 1201 {
		t.Fatalf("books: %+v", k)
	}
}

// What no ticket can bring back is forgotten, in slices, and the counts stay.
func TestSettleForgets(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	var all []stock.Judged
	for n := range 150 {
		all = append(all, judged(n))
	}
	b.settle(5, 1, true, all...)
	old := float64(time.Now().Add(-26 * time.Hour).UnixMilli())
	for _, j := range all {
		b.check(b.rdb.ZAdd(b.ctx, b.keys.Judged, redis.Z{Score: old, Member: string(j.OrderID)}).Err())
		b.check(b.rdb.ZAdd(b.ctx, b.keys.WhoT, redis.Z{Score: old, Member: string(j.User)}).Err())
	}
	recent := float64(time.Now().Add(-24 * time.Hour).UnixMilli())
	b.check(b.rdb.ZAdd(b.ctx, b.keys.Judged, redis.Z{Score: recent, Member: string(all[0].OrderID)}).Err())
	b.check(b.rdb.ZAdd(b.ctx, b.keys.WhoT, redis.Z{Score: recent, Member: string(all[0].User)}).Err())
	var got [][2]int64
	for range 3 {
		b.settle(5, 1, false)
		k := b.view()
		got = append(got, [2]int64{k.Judged, k.Remembered})
		if k.Tally.Ordered != 150 {
			t.Fatalf("tally: %+v", k.Tally)
		}
	}
	if diff := cmp.Diff([][2]int64{{50, 50}, {1, 1}, {1, 1}}, got); diff != "" {
		t.Fatalf("judged and remembered (-want +got):\n%s", diff)
	}
}

func TestSettleOutOfForm(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	b.settle(5, 1, true)
	for name, settle := range map[string]func() error{
		"NegativeBase": func() error { return b.counter.Settle(b.ctx, sale, -1, 2, false, nil) },
		"NegativeSeq":  func() error { return b.counter.Settle(b.ctx, sale, 1, -2, false, nil) },
		"NegativePlace": func() error {
			j := judged(1)
			j.Place = -1
			return b.counter.Settle(b.ctx, sale, 1, 2, false, []stock.Judged{j})
		},
	} {
		if err := settle(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if v := b.view(); v.View.Base != 5 || v.Judged != 0 {
		t.Fatalf("changed: %+v", v)
	}
}

// A command that comes again when the slot has long forgotten its order changes no stock: what is left belongs to its seq, not to a
// memory of each order that could run out before the log does (hazard R11).
func TestSettleAfterTheOrderIsForgotten(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	b.settle(1000, 0, true)
	old, other := b.bind(1, 3), b.bind(2, 4)
	b.settle(997, 1, false, old)
	ago := float64(time.Now().Add(-26 * time.Hour).UnixMilli())
	b.check(b.rdb.ZAdd(b.ctx, b.keys.Judged, redis.Z{Score: ago, Member: string(old.OrderID)}).Err())
	b.check(b.rdb.ZAdd(b.ctx, b.keys.WhoT, redis.Z{Score: ago, Member: string(old.User)}).Err())
	b.settle(993, 2, false, other)
	if k := b.view(); k.Judged != 1 || k.Remembered != 1 {
		t.Fatalf("not forgotten: %+v", k)
	}
	for _, seq := range []int64{1, 2} { // as it was told then, and as a redone batch tells it now
		b.settle(1000-4*seq, seq, false, old)
		if v := b.view().View; v.Base != 993 || v.Seq != 2 || v.Held != 0 || v.InFlight != 0 {
			t.Fatalf("told again at seq %d: %+v", seq, v)
		}
	}
}

// More orders than a script can unpack are refused by the script itself, whoever calls it, and nothing has changed (hazard R7).
func TestSettleRefusesMoreThanItsMost(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open()
	b.settle(5, 1, true)
	k := b.keys
	keys := []string{k.Stock, k.Intents, k.Ordering, k.Judged, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Tally, k.Clock, k.Slots}
	args := []any{"4", "2", "0", "1000", "test:hints", "p"}
	for n := range 501 {
		j := judged(n)
		args = append(args, string(j.OrderID), string(j.User), strconv.FormatInt(int64(j.Place), 10))
	}
	script := redisconn.LoadScript(lua.FS, "stock_decrement.lua")
	if _, err := script.Run(b.ctx, b.rdb, keys, args...); err == nil {
		t.Fatal("501 orders were taken in one call")
	}
	if v := b.view(); v.View.Base != 5 || v.Judged != 0 {
		t.Fatalf("changed: %+v", v)
	}
	if _, err := script.Run(b.ctx, b.rdb, keys, args[:len(args)-3]...); err != nil {
		t.Fatalf("500 orders: %v", err)
	}
}
