package waitingroom_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// An entry goes to one reader; what a dead one had and did not acknowledge goes to another.
func TestSlotsAreSharedOut(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	slots, key := waitingroom.NewSlots(b.rdb, b.keys), b.keys.Product(b.product).Slots
	read := func(reader string, want int) []string {
		t.Helper()
		ids, err := slots.Read(b.ctx, b.product, reader, time.Millisecond)
		b.check(err)
		if len(ids) != want {
			t.Fatalf("%s read %v, expected %d", reader, ids, want)
		}
		return ids
	}
	add := func() {
		b.check(b.rdb.XAdd(b.ctx, &redis.XAddArgs{Stream: key, NoMkStream: true, Values: []string{"at", "1"}}).Err())
	}
	read("one", 0) // makes the stream
	add()
	add()
	ids := read("one", 2)
	read("two", 0)
	b.check(slots.Ack(b.ctx, b.product, ids[:1]))
	b.check(slots.Ack(b.ctx, b.product, ids[:1]))
	b.until("it is old enough", func() bool {
		claimed, err := slots.Claim(b.ctx, b.product, "two", time.Millisecond)
		b.check(err)
		return len(claimed) == 1 && claimed[0] == ids[1]
	})
	b.check(slots.Ack(b.ctx, b.product, ids))
	b.check(b.rdb.Del(b.ctx, key).Err())
	read("two", 0)
	add()
	read("two", 1)
}

// A lease that expires is told where Redis is set up to tell, and where it is not that is an error.
func TestFollowLeases(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	b := bundleOn(t, localtest.RedisFixture{Addrs: []string{server.Addr()}, Mode: server.Mode(), Prefix: "s:"})
	if err := b.room.FollowLeases(b.ctx, false, func() {}, func(product.ID) {}); err == nil || !strings.Contains(err.Error(), "notify-keyspace-events") {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	begun, hints, ended := make(chan struct{}, 10), make(chan product.ID, 10), make(chan error, 1)
	go func() {
		ended <- b.room.FollowLeases(ctx, true, func() { begun <- struct{}{} }, func(p product.ID) { hints <- p })
	}()
	<-begun
	b.check(b.rdb.Set(b.ctx, "s:{other}:seen", "1", time.Millisecond).Err())
	b.check(b.rdb.Set(b.ctx, "t:{other}:lease:x", "1", time.Millisecond).Err())
	ends := time.Now().Add(300 * time.Millisecond)
	b.check(b.room.Lease(b.ctx, b.product, user(1), ends))
	b.check(b.room.Lease(b.ctx, b.product, user(1), ends.Add(time.Hour))) // stays as it is
	if p := <-hints; p != b.product {
		t.Fatalf("a hint at %q", p)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// Set once, it needs no right to set it.
	ctx, cancel = context.WithCancel(b.ctx)
	go func() { ended <- b.room.FollowLeases(ctx, false, func() { begun <- struct{}{} }, func(product.ID) {}) }()
	<-begun
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
