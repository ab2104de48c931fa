package orderstatus_test

import (
	"context"
	"errors"
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

// A status that was written is hinted at, one that was not is not.
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
	got := map[order.ID]int{}
	for got[id(3)] == 0 {
		got[<-f.hints]++
	}
	if diff := cmp.Diff(map[order.ID]int{id(1): 2, id(2): 1, id(3): 1}, got); diff != "" {
		t.Fatal(diff)
	}
	f.stop()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
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
