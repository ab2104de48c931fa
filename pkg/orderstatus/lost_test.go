package orderstatus_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/redisconn"
)

// losing is a connection that breaks once: after scripts were sent over it and when the server begins to answer, so it has run at
// least the first of them.
type losing struct {
	net.Conn
	once *atomic.Bool
	sent bool
}

func (c *losing) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("evalsha")) && c.once.CompareAndSwap(true, false) {
		c.sent = true
	}
	return c.Conn.Write(b)
}

func (c *losing) Read(b []byte) (int, error) {
	if !c.sent {
		return c.Conn.Read(b)
	}
	_, _ = c.Conn.Read(b)
	_ = c.Close()
	return 0, net.ErrClosed
}

// A pipeline whose answer is lost is sent again as a whole, what had run included: each status is as if it had been put once, and a
// newer one that came in between stays (hazard R2).
func TestPutManyAfterALostAnswer(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	b := bundleOn(t, fixture, orderstatus.Config{})
	options := redisconn.ClientOptions(redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second})
	var lose atomic.Bool
	var dialled atomic.Int64
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &losing{Conn: conn, once: &lose}, err
	}
	rdb := redisconn.New(options)
	defer func() { _ = rdb.Close() }()
	store := orderstatus.New(rdb, b.keys, orderstatus.Config{})

	var entries []orderstatus.Entry
	for n := range 50 {
		entries = append(entries, orderstatus.Entry{ID: id(n), Status: status(order.VersionAccepted, order.StateAccepted)})
	}
	_, err := store.PutMany(b.ctx, entries[:1]) // every node knows the script now
	b.check(err)
	verdict := status(order.VersionVerdict, order.StateConfirmed)
	_, err = b.store.Put(b.ctx, id(7), verdict)
	b.check(err)

	before := dialled.Load()
	lose.Store(true)
	_, err = store.PutMany(b.ctx, entries)
	b.check(err)
	if lose.Load() || dialled.Load() == before {
		t.Fatal("no answer was lost")
	}
	for n, e := range entries {
		want := e.Status
		if n == 7 {
			want = verdict
		}
		if got := b.get(e.ID); got != want {
			t.Errorf("status %d: %+v, expected %+v", n, got, want)
		}
	}
}
