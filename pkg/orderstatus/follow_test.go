package orderstatus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
)

// follower runs Follow and hands over what it was told, and why it ended.
type follower struct {
	begun chan struct{}
	hints chan order.ID
	ended chan error
	stop  context.CancelFunc
}

func (b *bundle) follow() *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{make(chan struct{}, 10), make(chan order.ID, 100), make(chan error, 1), cancel}
	go func() {
		f.ended <- b.store.Follow(ctx, func() { f.begun <- struct{}{} }, func(id order.ID) { f.hints <- id })
	}()
	return f
}

// A status that was written is hinted at, one that was not is not. Hints of one server arrive in order, those of several in any: the
// last word of each tells that nothing is on its way any more.
func TestFollowHearsWhatWasWritten(t *testing.T) {
	t.Parallel()
	b, other := newBundle(t, orderstatus.Config{}), newBundle(t, orderstatus.Config{})
	f := b.follow()
	<-f.begun
	put := func(to *bundle, n, version int) {
		t.Helper()
		_, err := to.store.Put(t.Context(), id(n), status(version, order.StateAccepted))
		to.check(err)
	}
	put(b, 1, 1)
	put(b, 1, 1)
	put(b, 1, 0)
	put(other, 9, 1) // under another prefix
	b.check(b.rdb.Publish(t.Context(), b.keys.Hints(), "none of ours").Err())
	_, err := b.store.PutMany(t.Context(), []orderstatus.Entry{{ID: id(1), Status: status(2, order.StateConfirmed)}, {ID: id(2), Status: status(2, order.StateConfirmed)}})
	b.check(err)
	put(b, 3, 1)
	last := b.lastWords(100)
	got := map[order.ID]int{}
	for len(last) > 0 {
		heard := <-f.hints
		if last[heard] {
			delete(last, heard)
			continue
		}
		got[heard]++
	}
	if diff := cmp.Diff(map[order.ID]int{id(1): 2, id(2): 1, id(3): 1}, got); diff != "" {
		t.Fatal(diff)
	}
	f.stop()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// lastWords has every server that may hold a status publish an id of its own, numbered from the given one.
func (b *bundle) lastWords(from int) map[order.ID]bool {
	b.t.Helper()
	last := map[order.ID]bool{}
	var mu sync.Mutex
	say := func(ctx context.Context, server *redis.Client) error {
		mu.Lock()
		word := id(from + len(last))
		last[word] = true
		mu.Unlock()
		return server.Publish(ctx, b.keys.Hints(), string(word)).Err()
	}
	switch rdb := b.rdb.(type) {
	case *redis.ClusterClient:
		b.check(rdb.ForEachMaster(b.t.Context(), say))
	case *redis.Client:
		b.check(say(b.t.Context(), rdb))
	default:
		b.t.Fatalf("a client of unknown kind: %T", rdb)
	}
	return last
}

// A connection that is lost or silent ends it.
func TestFollowNoticesALostConnection(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	b := bundleOn(t, localtest.RedisFixture{Addrs: []string{server.Addr()}, Mode: server.Mode(), Prefix: "s:"}, orderstatus.Config{})
	f := b.follow()
	<-f.begun
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = admin.Close() }()
	b.check(admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	if err := <-f.ended; err == nil || errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.stop()
	f = b.follow()
	defer f.stop()
	<-f.begun
	b.check(server.Pause())
	err := <-f.ended
	b.check(server.Resume())
	if err == nil || errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A stopped follower that hears nothing ends at once.
func TestFollowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBundle(t, orderstatus.Config{})
	f := b.follow()
	<-f.begun
	f.stop()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	gone, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	if err := b.store.Follow(gone, func() {}, func(order.ID) {}); err == nil {
		t.Fatal("followed with a context that had ended")
	}
}

func TestGetMany(t *testing.T) {
	t.Parallel()
	b := newBundle(t, orderstatus.Config{})
	var ids []order.ID
	var entries []orderstatus.Entry
	for n := range 1100 {
		ids = append(ids, id(n))
		if n%2 == 0 {
			entries = append(entries, orderstatus.Entry{ID: id(n), Status: status(order.VersionAccepted, order.StateAccepted)})
		}
	}
	_, err := b.store.PutMany(t.Context(), entries)
	b.check(err)
	got, err := b.store.GetMany(t.Context(), ids)
	b.check(err)
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Fatal(diff)
	}
	// One that cannot be read does not hide the others.
	b.check(b.rdb.HSet(t.Context(), b.keys.Status(string(id(0))), "ver", "x").Err())
	got, err = b.store.GetMany(t.Context(), ids)
	if err == nil {
		t.Fatal("a status out of form was read")
	}
	if diff := cmp.Diff(entries[1:], got); diff != "" {
		t.Fatal(diff)
	}
	if got, err := b.store.GetMany(t.Context(), nil); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
}
