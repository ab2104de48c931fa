package orderstatus_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

func TestMain(m *testing.M) { localtest.Main(m) }

type bundle struct {
	t     *testing.T
	ctx   context.Context
	rdb   redis.UniversalClient
	keys  product.Keyspace
	store *orderstatus.Store
}

func newBundle(t *testing.T, c orderstatus.Config) *bundle {
	t.Helper()
	fixture := localtest.Redis(t)
	return bundleOn(t, fixture, c)
}

func bundleOn(t *testing.T, fixture localtest.RedisFixture, c orderstatus.Config) *bundle {
	t.Helper()
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second}))
	t.Cleanup(func() { _ = rdb.Close() })
	keys := product.Keyspace{Prefix: fixture.Prefix}
	return &bundle{t, context.Background(), rdb, keys, orderstatus.New(rdb, keys, c)}
}

func (b *bundle) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) get(id order.ID) order.Status {
	b.t.Helper()
	s, found, err := b.store.Get(b.ctx, id)
	b.check(err)
	if !found {
		b.t.Fatalf("status of %s is not found", id)
	}
	return s
}

func person() product.UserHash { return "00112233445566778899aabbccddeeff" }

func id(n int) order.ID {
	key, err := keyring.Parse("k1:" + base64.RawURLEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		panic(err)
	}
	return order.DeriveID(key, "p1", person(), product.MakePlace(1, int64(n+1)), 1)
}

func status(version int, state order.State) order.Status {
	return order.Status{Version: version, State: state, Product: "p1", User: person(), Quantity: 2, Digest: "d"}
}

// The verdict is never overwritten by what was known before it, in whatever order they come (F3).
func TestPutKeepsTheGreatestVersion(t *testing.T) {
	t.Parallel()
	b := newBundle(t, orderstatus.Config{})
	if _, found, err := b.store.Get(b.ctx, id(1)); err != nil || found {
		t.Fatalf("before it was put: %v, %v", found, err)
	}
	pending, accepted := status(order.VersionPending, order.StatePending), status(order.VersionAccepted, order.StateAccepted)
	rejected := status(order.VersionVerdict, order.StateRejected)
	rejected.Reason = order.ReasonLimit
	cancelled := status(order.VersionCancelled, order.StateCancelled)
	cancelled.Reason = order.ReasonOperator
	for _, c := range []struct {
		put     order.Status
		written bool
		want    order.Status
	}{
		{pending, true, pending},
		{pending, false, pending},
		{accepted, true, accepted},
		{rejected, true, rejected},
		{accepted, false, rejected},
		{pending, false, rejected},
		{rejected, false, rejected},
		{cancelled, true, cancelled},
		{rejected, false, cancelled},
	} {
		written, err := b.store.Put(b.ctx, id(1), c.put)
		b.check(err)
		if diff := cmp.Diff(c.want, b.get(id(1))); written != c.written || diff != "" {
			t.Fatalf("put version %d: written %v (-want +got):\n%s", c.put.Version, written, diff)
		}
	}
}

// A verdict that knows neither quantity nor digest leaves what was known.
func TestPutLeavesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	b := newBundle(t, orderstatus.Config{TTL: time.Hour})
	_, err := b.store.Put(b.ctx, id(1), status(order.VersionAccepted, order.StateAccepted))
	b.check(err)
	void := order.Status{Version: order.VersionVerdict, State: order.StateRejected, Reason: order.ReasonExpired, Product: "p1", User: person()}
	_, err = b.store.Put(b.ctx, id(1), void)
	b.check(err)
	_, err = b.store.Put(b.ctx, id(2), void)
	b.check(err)
	want := void
	if diff := cmp.Diff(want, b.get(id(2))); diff != "" {
		t.Fatalf("void of an unknown order (-want +got):\n%s", diff)
	}
	want.Quantity, want.Digest = 2, "d"
	if diff := cmp.Diff(want, b.get(id(1))); diff != "" {
		t.Fatalf("void of a known order (-want +got):\n%s", diff)
	}
	if ttl := b.rdb.PTTL(b.ctx, b.keys.Status(string(id(1)))).Val(); ttl <= 0 || ttl > time.Hour {
		t.Fatalf("life: %v", ttl)
	}
	if _, err := b.store.Put(b.ctx, id(1), order.Status{Version: 4}); err == nil {
		t.Fatal("version 4 was taken")
	}
	b.check(b.rdb.HSet(b.ctx, b.keys.Status(string(id(3))), "ver", "x").Err())
	if _, _, err := b.store.Get(b.ctx, id(3)); err == nil {
		t.Fatal("a status out of form was read")
	}
}

// A pipeline meets nodes that do not know the script: at first, and after they forgot it.
func TestPutManyAfterFlush(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	b := bundleOn(t, localtest.RedisFixture{Addrs: []string{server.Addr()}, Mode: server.Mode(), Prefix: "s:"}, orderstatus.Config{})
	var entries []orderstatus.Entry
	for n := range 1100 {
		entries = append(entries, orderstatus.Entry{ID: id(n), Status: status(order.VersionAccepted, order.StateAccepted)})
	}
	b.check(b.rdb.ScriptFlush(b.ctx).Err())
	for _, want := range []int{1100, 0} {
		written, err := b.store.PutMany(b.ctx, entries)
		b.check(err)
		if written != want {
			t.Fatalf("%d written, expected %d", written, want)
		}
		b.check(b.rdb.ScriptFlush(b.ctx).Err())
	}
	if got := b.get(id(1099)); got != status(order.VersionAccepted, order.StateAccepted) {
		t.Fatalf("last: %+v", got)
	}
	if written, err := b.store.PutMany(b.ctx, nil); err != nil || written != 0 {
		t.Fatalf("nothing: %d, %v", written, err)
	}
	entries[700].Status.Version = 9
	if _, err := b.store.PutMany(b.ctx, entries); err == nil {
		t.Fatal("version 9 was taken in a pipeline")
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	b := newBundle(t, orderstatus.Config{WantedMax: 3})
	var all []orderstatus.Wanted
	for n := range 3 {
		w := orderstatus.Wanted{Product: "p1", User: person(), OrderID: id(n), DeadlineMS: int64(n) * 1_700_000_000_000}
		all = append(all, w)
		for range 2 {
			b.check(b.store.Want(b.ctx, w))
		}
	}
	full := orderstatus.Wanted{Product: "p1", User: person(), OrderID: id(9)}
	if err := b.store.Want(b.ctx, full); !errors.Is(err, orderstatus.ErrWantedFull) {
		t.Fatalf("past the cap: %v", err)
	}
	b.check(b.store.Want(b.ctx, all[0])) // what is on the list stays on it
	take := func(n int) []orderstatus.Wanted {
		t.Helper()
		taken, err := b.store.TakeWanted(b.ctx, n)
		b.check(err)
		return taken
	}
	first := take(2)
	rest := take(5)
	if len(first) != 2 || len(rest) != 1 || len(take(5)) != 0 {
		t.Fatalf("taken %v, then %v", first, rest)
	}
	byID := cmpopts.SortSlices(func(a, b orderstatus.Wanted) bool { return a.DeadlineMS < b.DeadlineMS })
	if diff := cmp.Diff(all, append(first, rest...), byID); diff != "" {
		t.Fatalf("wanted (-want +got):\n%s", diff)
	}
	// What was answered is struck off; the rest comes again.
	b.check(b.store.Unwant(b.ctx, all[0], all[1]))
	b.check(b.store.Unwant(b.ctx, all[0]))
	b.check(b.store.Unwant(b.ctx))
	b.check(b.rdb.ZAdd(b.ctx, b.keys.Wanted(), redis.Z{Score: 1, Member: string(all[0].OrderID)}, redis.Z{Score: 2, Member: member(all[2])}).Err())
	if diff := cmp.Diff(all[2:], take(5)); diff != "" {
		t.Fatalf("taken again (-want +got):\n%s", diff)
	}
	if n := b.rdb.ZCard(b.ctx, b.keys.Wanted()).Val(); n != 1 {
		t.Fatalf("%d entries, expected what is out of form to be dropped", n)
	}
	if err := b.store.Want(b.ctx, orderstatus.Wanted{Product: "p|1", User: person(), OrderID: id(1)}); !errors.Is(err, product.ErrInvalid) {
		t.Fatalf("out of form: %v", err)
	}
}

func member(w orderstatus.Wanted) string {
	return string(w.Product) + "|" + string(w.User) + "|" + string(w.OrderID) + "|" + strconv.FormatInt(w.DeadlineMS, 10)
}
