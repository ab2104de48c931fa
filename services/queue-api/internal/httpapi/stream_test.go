package httpapi_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/streams"
)

// wantEvent fails unless the next event of an order has this version and status.
func wantEvent(t *testing.T, s *apitest.Stream, id, status string) apitest.Event {
	t.Helper()
	e := s.Next(t)
	if e.Name != "order" || e.ID != id || e.Data["status"] != status {
		t.Fatalf("%+v, want version %s, %s", e, id, status)
	}
	return e
}

// wantEnd fails unless the stream says that it is over and is.
func wantEnd(t *testing.T, s *apitest.Stream) {
	t.Helper()
	if e := s.Next(t); e.Name != "end" || e.Data["reason"] != "judged" {
		t.Fatalf("%+v, want the end", e)
	}
	s.End(t)
}

func TestStream(t *testing.T) {
	t.Parallel()

	t.Run("TellsWhatReadTellsUntilTheVerdict", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		base := b.Serve(t, nil)
		b.Wake(t)
		p := b.Admitted(t, "김 서연")
		id := p.OrderID(t)
		p.Order(t, 2, "")
		s := p.Watch(t, base, id, "")
		if s.Status != http.StatusOK || s.Header.Get("Content-Type") != "text/event-stream" || s.Header.Get("Cache-Control") != "no-store" {
			t.Fatal(s.Status, s.Header)
		}
		if e := s.Any(t); e.Retry == "" {
			t.Fatalf("no pause first: %+v", e)
		}
		e := wantEvent(t, s, "1", "accepted")
		for member, value := range p.Read(t, id).Body {
			if member != "next_poll_ms" && e.Data[member] != value {
				t.Errorf("%s: %v, read says %v", member, e.Data[member], value)
			}
		}
		b.Judge(t, b.Log(t)[0], order.StateRejected, order.ReasonSoldOut, true)
		if e = wantEvent(t, s, "2", "rejected"); e.Data["reason"] != "sold_out" {
			t.Fatal(e)
		}
		wantEnd(t, s)
		if n := counted(t, b, httpapi.MetricStreamEnds, "judged"); n != 1 {
			t.Fatal(n)
		}
	})

	t.Run("GoesOnBehindTheLastEvent", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		base := b.Serve(t, nil)
		b.Wake(t)
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		p.Order(t, 1, "")
		s := p.Watch(t, base, id, "1")
		again := p.Watch(t, base, id, "none of ours")
		wantEvent(t, again, "1", "accepted")
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		wantEvent(t, s, "2", "confirmed") // not version 1 again
		wantEnd(t, s)
		wantEvent(t, again, "2", "confirmed")
		wantEnd(t, again)
		late := p.Watch(t, base, id, "1")
		wantEvent(t, late, "2", "confirmed")
		wantEnd(t, late)
		if s := p.Watch(t, base, id, "2"); s.Status != http.StatusNoContent {
			t.Fatal(s.Status)
		}
	})

	t.Run("AForgottenOrderIsAskedForAndComesBack", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) { c.Heartbeat = 5 * time.Millisecond }})
		base := b.Serve(t, nil)
		b.Wake(t)
		p := b.Admitted(t, "a")
		p.Order(t, 1, "")
		id := p.OrderID(t)
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", false)
		status := b.Names.Status(string(id))
		if err := b.Redis.Del(t.Context(), status).Err(); err != nil {
			t.Fatal(err)
		}
		s := p.Watch(t, base, id, "")
		if e := wantEvent(t, s, "0", "pending"); e.Data["known"] != false {
			t.Fatal(e)
		}
		wantWanted(t, b, p, true)
		// Forgotten with everything else, it is asked for again at a heartbeat.
		if err := b.Redis.Del(t.Context(), b.Names.Wanted()).Err(); err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, "wanted again", func() bool { return b.Redis.ZCard(t.Context(), b.Names.Wanted()).Val() == 1 })
		found := order.Status{Version: order.VersionVerdict, State: order.StateConfirmed, Product: b.Product, User: p.Hash(), Quantity: 1}
		if _, err := b.Statuses.Put(t.Context(), id, found); err != nil {
			t.Fatal(err)
		}
		wantEvent(t, s, "2", "confirmed")
		wantEnd(t, s)
	})

	t.Run("ForItsOwnerOnly", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		base := b.Serve(t, nil)
		p, other := b.Admitted(t, "a"), b.Admitted(t, "b")
		p.Order(t, 1, "")
		id := p.OrderID(t)
		for _, c := range []struct {
			who     *apitest.Person
			id      order.ID
			status  int
			problem string
		}{
			{other, id, http.StatusNotFound, "order-unknown"},
			{b.Person("c"), id, http.StatusNotFound, "order-unknown"},
			{b.Person(""), id, http.StatusUnauthorized, "identity-invalid"},
			{&apitest.Person{}, "x", http.StatusUnauthorized, "identity-invalid"},
			{p, "x", http.StatusBadRequest, "malformed-request"},
		} {
			if s := c.who.Watch(t, base, c.id, ""); s.Status != c.status || s.Problem != c.problem {
				t.Errorf("%q asks for %s: %d %s", c.who.User, c.id, s.Status, s.Problem)
			}
		}
		thief := *other
		thief.Pass = p.Pass
		if s := thief.Watch(t, base, id, ""); s.Status != http.StatusForbidden || s.Problem != "pass-foreign" {
			t.Error(s.Status, s.Problem)
		}
	})

	t.Run("NoMoreThanTheProcessAndAPersonMayHave", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Streams: streams.Config{Max: 3, PerUser: 2}})
		base := b.Serve(t, nil)
		p, other, third := b.Admitted(t, "a"), b.Admitted(t, "b"), b.Admitted(t, "c")
		open := func(p *apitest.Person) *apitest.Stream { return p.Watch(t, base, p.OrderID(t), "") }
		first := open(p)
		open(p)
		full := open(p)
		if full.Status != http.StatusServiceUnavailable || full.Problem != "streams-full" || full.Header.Get("Retry-After") == "" {
			t.Fatal(full.Status, full.Problem, full.Header)
		}
		if s := open(other); s.Status != http.StatusOK {
			t.Fatal(s.Status)
		}
		if s := open(third); s.Problem != "streams-full" {
			t.Fatal(s.Status, s.Problem)
		}
		first.Close()
		apitest.Eventually(t, "its place", func() bool { return open(third).Status == http.StatusOK })
		apitest.Eventually(t, "gone", func() bool { return counted(t, b, httpapi.MetricStreamEnds, "gone") > 0 })
	})

	t.Run("HeartbeatsAndAnEndForOldOnes", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) {
			c.Heartbeat, c.StreamLife = 5*time.Millisecond, 400*time.Millisecond // beyond the server's limits for calls
		}})
		base := b.Serve(t, nil)
		p := b.Admitted(t, "a")
		p.Order(t, 1, "")
		s := p.Watch(t, base, p.OrderID(t), "")
		wantEvent(t, s, "1", "accepted")
		if e := s.Any(t); e.Comment == "" {
			t.Fatalf("%+v, want a comment", e)
		}
		e := s.Next(t)
		if _, err := strconv.Atoi(e.Retry); err != nil || e.Name != "reconnect" || e.Data["retry_ms"] == nil {
			t.Fatalf("%+v, want reconnect", e)
		}
		s.End(t)
	})

	t.Run("WhenTheProcessEndsReadersAreSentElsewhere", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		base := b.Serve(t, nil)
		stop := b.Wake(t)
		p := b.Admitted(t, "a")
		p.Order(t, 1, "")
		var open []*apitest.Stream
		for range 5 {
			s := p.Watch(t, base, p.OrderID(t), "")
			wantEvent(t, s, "1", "accepted")
			open = append(open, s)
		}
		stop()
		pauses := map[string]bool{}
		for _, s := range open {
			e := s.Next(t)
			if e.Name != "reconnect" {
				t.Fatalf("%+v", e)
			}
			pauses[e.Retry] = true
			s.End(t)
		}
		if len(pauses) == 1 {
			t.Fatal("all come back at once")
		}
		if s := p.Watch(t, base, p.OrderID(t), ""); s.Problem != "unavailable" || s.Header.Get("Retry-After") == "" {
			t.Fatal(s.Status, s.Problem)
		}
	})
}

// TestStreamsOutliveTheirSubscription kills the connection that hints come over again and again while verdicts are told, with no
// re-read to help: what was written before the subscription stood again is read when it does.
func TestStreamsOutliveTheirSubscription(t *testing.T) {
	t.Parallel()
	own := ownRedis(t)
	b := apitest.New(t, apitest.Options{Redis: own.addrs, Streams: streams.Config{Reread: time.Hour, Refollow: time.Millisecond}})
	base := b.Serve(t, nil)
	b.Wake(t)
	const people = 40
	open := make([]*apitest.Stream, people)
	ids := make([]order.ID, people)
	for i := range open {
		p := b.Admitted(t, product.UserID("u"+strconv.Itoa(i)))
		p.Order(t, 1, "")
		ids[i] = p.OrderID(t)
		open[i] = p.Watch(t, base, ids[i], "")
		wantEvent(t, open[i], "1", "accepted")
	}
	admin := redis.NewClient(&redis.Options{Addr: own.addrs[0]})
	defer func() { _ = admin.Close() }()
	killed := int64(0)
	for i, c := range b.Log(t) {
		b.Judge(t, c, order.StateConfirmed, "", true)
		if i%4 == 0 {
			n, err := admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
			if err != nil {
				t.Fatal(err)
			}
			killed += n
		}
	}
	if killed == 0 {
		apitest.Eventually(t, "a subscription to kill", func() bool {
			n, err := admin.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result()
			return err == nil && n > 0
		})
	}
	var readers sync.WaitGroup
	for _, s := range open {
		readers.Go(func() {
			wantEvent(t, s, "2", "confirmed")
			wantEnd(t, s)
		})
	}
	readers.Wait()
}

// pipes is a listener whose connections have no buffer at all, so that a reader who does not read is noticed at once.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestStreamOfASlowReader is cut when the reader stops reading, and its place is free again.
func TestStreamOfASlowReader(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Streams: streams.Config{Max: 1}, Surface: func(c *httpapi.Config) {
		c.Heartbeat, c.StreamWrite = 5*time.Millisecond, 50*time.Millisecond
	}})
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	b.Serve(t, listener)
	p := b.Admitted(t, "a")
	p.Order(t, 1, "")
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listener.conns <- server
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pipe/v1/orders/"+string(p.OrderID(t))+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range p.Header() {
		request.Header.Set(name, value)
	}
	if err := request.Write(client); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(client)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	apitest.Eventually(t, "cut", func() bool { return counted(t, b, httpapi.MetricStreamEnds, "slow") == 1 })
	stream, err := b.Streams.Open(p.OrderID(t), p.Hash())
	if err != nil {
		t.Fatal(err)
	}
	stream.Close()
}
