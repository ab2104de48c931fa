package waitingroom_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
)

// loser cuts a connection after a script was sent over it and before its answer was read.
type loser struct {
	cut atomic.Int32 // how many answers are still to be lost
}

func (l *loser) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	return &losing{Conn: conn, loser: l}, err
}

type losing struct {
	net.Conn
	loser *loser
	lose  bool
}

func (c *losing) Write(b []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(b), []byte("evalsha")) && c.loser.cut.Add(-1) >= 0 {
		c.lose = true
	}
	return c.Conn.Write(b)
}

func (c *losing) Read(b []byte) (int, error) {
	if c.lose {
		// The server has run it once it begins to answer.
		_, _ = c.Conn.Read(b)
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}

// An answer that is lost: the client asks again and hears the same place; an admission is never repeated (F41).
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	b := bundleOn(t, fixture)
	b.open(settings(), 1, 100)
	for n := range 20 {
		b.join(user(n))
	}
	b.awaitTokens()
	b.admit(1)
	expired := b.request(user(99), 1, 1)
	expired.ExpiresMS = 1000
	b.bind(expired) // every script is known to the server now
	before := b.books().Tally

	l := &loser{}
	config := redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second}
	retrying, once := redisconn.ClientOptions(config), redisconn.OnceOptions(config)
	retrying.Dialer, once.Dialer = l.dial, l.dial
	rdb, single := redisconn.New(retrying), redisconn.New(once)
	defer func() {
		_ = rdb.Close()
		_ = single.Close()
	}()

	room, admitter := waitingroom.New(rdb, b.keys), waitingroom.NewAdmitter(single, b.keys)
	l.cut.Store(1)
	s, err := room.Join(b.ctx, b.product, user(50), nil)
	b.check(err)
	if s.Created || s.State != waitingroom.Waiting || s.Position != s.Total {
		t.Fatalf("join with a lost answer: %+v", s)
	}
	if k := b.books().Tally; k.Joined != before.Joined+1 {
		t.Fatalf("joined %d, expected one more than %d", k.Joined, before.Joined)
	}
	l.cut.Store(1)
	if r, err := admitter.Admit(b.ctx, b.product, 3); err == nil {
		t.Fatalf("admit with a lost answer: %+v", r)
	}
	if k := b.books().Tally; k.Admitted != before.Admitted+3 {
		t.Fatalf("admitted %d, expected three more than %d", k.Admitted, before.Admitted)
	}
	place := b.status(user(0)).Place
	request := b.request(user(0), place, 2)
	l.cut.Store(1)
	r, err := room.Bind(b.ctx, request)
	b.check(err)
	if r.Outcome != waitingroom.BindBound || r.First || string(r.Command) != string(request.Command) {
		t.Fatalf("bind with a lost answer: %+v", r)
	}
	b.balance()
}
