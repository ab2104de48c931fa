package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hanjul/pkg/ticket"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/live"
	"hanjul/services/queue-api/internal/streams"
)

// inBoth runs a test over each way that a stream in line can be read.
func inBoth(t *testing.T, name string, test func(t *testing.T, open opener)) {
	t.Helper()
	for form, open := range map[string]opener{"Events": apitest.WatchLine, "Socket": apitest.WatchLineBySocket} {
		t.Run(name+"/"+form, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

type opener func(t testing.TB, base, streamURL, lastEventID string) *apitest.Stream

// inLine gives a bundle whose lines are looked at often, and where it is served.
func inLine(t *testing.T, o apitest.Options) (*apitest.Bundle, string) {
	t.Helper()
	if o.Live == (live.Config{}) {
		o.Live = live.Config{Every: 5 * time.Millisecond, Wait: 30 * time.Second, Timeout: 30 * time.Second}
	}
	b := apitest.New(t, o)
	return b, b.Serve(t, nil)
}

// often has streams look for themselves all the time.
func often(c *httpapi.Config) { c.Heartbeat = 20 * time.Millisecond }

// streamURL polls for the address of the person's stream.
func streamURL(t *testing.T, p *apitest.Person) string {
	t.Helper()
	a := p.Poll(t)
	if a.Text("stream_url") == "" || a.Body["stream_url_reason"] != nil {
		t.Fatalf("no stream offered: %v", a)
	}
	return a.Text("stream_url")
}

// until reads messages up to the one that says so.
func until(t *testing.T, s *apitest.Stream, member string, value any) apitest.Event {
	t.Helper()
	for {
		e := s.Next(t)
		if e.Name != "standing" || e.ID == "" {
			t.Fatalf("%+v, want %s %v", e, member, value)
		}
		if e.Data[member] == value {
			return e
		}
	}
}

// untilEnd reads messages up to the end, which has this reason.
func untilEnd(t *testing.T, s *apitest.Stream, reason string) {
	t.Helper()
	until(t, s, "status", reason)
	if e := s.Next(t); e.Name != "end" || e.Data["reason"] != reason {
		t.Fatalf("%+v, want the end", e)
	}
	s.End(t)
}

func TestLineStream(t *testing.T) {
	t.Parallel()

	inBoth(t, "TellsWhatThePollTellsUntilTheOrder", func(t *testing.T, open opener) {
		t.Helper()
		b, base := inLine(t, apitest.Options{Surface: often})
		people := queue(t, b, 3)
		p := people[2]
		s := open(t, base, streamURL(t, p), "")
		if s.Header.Get("Cache-Control") != "no-store" {
			t.Fatal(s.Status, s.Header)
		}
		same := func(e apitest.Event, a apitest.Answer) {
			t.Helper()
			for member, value := range a.Body {
				switch member {
				case "next_poll_ms", "snapshot_at", "age_ms", "stream_url", "estimated_wait", "ticket", "stale":
				default:
					if e.Data[member] != value {
						t.Errorf("%s: %v, the poll says %v", member, e.Data[member], value)
					}
				}
			}
			if len(a.Body) != len(e.Data) {
				t.Errorf("%v, the poll says %v", e.Data, a.Body)
			}
		}
		same(until(t, s, "position", 3.0), p.Poll(t))
		b.Admit(t, 1)
		e := until(t, s, "position", 2.0)
		if e.Data["ahead"] != 1.0 || e.Data["progress"] != 0.5 {
			t.Fatal(e)
		}
		b.Admit(t, 10)
		e = until(t, s, "status", "admitted")
		same(e, p.Poll(t))
		if e.Data["pass"] != p.Pass || p.Pass == "" {
			t.Fatal(e)
		}
		if a := p.Order(t, 1, ""); a.Status != http.StatusAccepted {
			t.Fatal(a)
		}
		e = until(t, s, "status", "ordered")
		if e.Data["order_id"] != string(p.OrderID(t)) {
			t.Fatal(e)
		}
		if e = s.Next(t); e.Name != "end" || e.Data["reason"] != "ordered" {
			t.Fatal(e)
		}
		s.End(t)
		apitest.Eventually(t, "counted", func() bool { return counted(t, b, httpapi.MetricLineEnds, "finished") == 1 })
	})

	inBoth(t, "GoesOnBehindTheLastEvent", func(t *testing.T, open opener) {
		t.Helper()
		b, base := inLine(t, apitest.Options{Surface: often})
		people := queue(t, b, 3)
		p := people[2]
		address := streamURL(t, p)
		first := open(t, base, address, "")
		e := until(t, first, "position", 3.0)
		first.Close()
		again, stranger := open(t, base, address, e.ID), open(t, base, address, "none of ours")
		if told := until(t, stranger, "position", 3.0); told.ID != e.ID {
			t.Fatal("the same message has another id:", told.ID, e.ID)
		}
		b.Admit(t, 1)
		if told := again.Next(t); told.ID == e.ID {
			t.Fatal("told again:", told)
		} else if told.Data["position"] != 2.0 {
			until(t, again, "position", 2.0)
		}
		until(t, stranger, "position", 2.0)
		// Two tabs hear the same, and of the end too.
		p.Leave(t)
		untilEnd(t, again, "left")
		untilEnd(t, stranger, "left")
	})

	inBoth(t, "EndsForWhoIsPutOutOrLate", func(t *testing.T, open opener) {
		t.Helper()
		b, base := inLine(t, apitest.Options{Surface: often})
		people := queue(t, b, 3)
		var open3 []*apitest.Stream
		for _, p := range people {
			open3 = append(open3, open(t, base, streamURL(t, p), ""))
		}
		ban(t, b, people[1])
		untilEnd(t, open3[1], "evicted")
		until(t, open3[2], "position", 2.0)
		b.Admit(t, 1)
		until(t, open3[0], "status", "admitted")
		b.Expire(t, people[0])
		untilEnd(t, open3[0], "lapsed")
	})

	inBoth(t, "HeartbeatsAndAnEndForOldOnes", func(t *testing.T, open opener) {
		t.Helper()
		b, base := inLine(t, apitest.Options{Surface: func(c *httpapi.Config) {
			c.Heartbeat, c.StreamLife = 5*time.Millisecond, 400*time.Millisecond // beyond the server's limits for calls
		}})
		p := queue(t, b, 1)[0]
		s := open(t, base, streamURL(t, p), "")
		until(t, s, "position", 1.0)
		s.Beat(t)
		e := s.Next(t)
		for e.Name == "standing" { // stale for a moment, on a machine that is very busy
			e = s.Next(t)
		}
		if e.Name != "reconnect" || e.Data["retry_ms"] == nil {
			t.Fatalf("%+v, want reconnect", e)
		}
		s.End(t)
	})

	inBoth(t, "WhenTheProcessEndsReadersAreSentElsewhere", func(t *testing.T, open opener) {
		t.Helper()
		b, base := inLine(t, apitest.Options{})
		stop := b.Wake(t)
		p := queue(t, b, 1)[0]
		address := streamURL(t, p)
		var all []*apitest.Stream
		for range 5 {
			s := open(t, base, address, "")
			until(t, s, "position", 1.0)
			all = append(all, s)
		}
		stop()
		pauses := map[any]bool{}
		for _, s := range all {
			e := s.Next(t)
			for e.Name == "standing" {
				e = s.Next(t)
			}
			if e.Name != "reconnect" {
				t.Fatalf("%+v", e)
			}
			pauses[e.Data["retry_ms"]] = true
			s.End(t)
		}
		if len(pauses) == 1 {
			t.Fatal("all come back at once")
		}
		if s := open(t, base, address, ""); s.Problem != "unavailable" || s.Header.Get("Retry-After") == "" {
			t.Fatal(s.Status, s.Problem)
		}
		want(t, p.Poll(t), http.StatusOK, map[string]any{"stream_url": nil, "stream_url_reason": "streams_full"})
	})

	inBoth(t, "NoMoreThanTheProcessAndAPersonMayHave", func(t *testing.T, open opener) {
		t.Helper()
		b, base := inLine(t, apitest.Options{Streams: streams.Config{Max: 3, PerUser: 2}})
		people := queue(t, b, 3)
		addresses := make([]string, len(people))
		for i, p := range people {
			addresses[i] = streamURL(t, p)
		}
		first := open(t, base, addresses[0], "")
		open(t, base, addresses[0], "")
		full := open(t, base, addresses[0], "")
		if full.Status != http.StatusServiceUnavailable || full.Problem != "streams-full" || full.Header.Get("Retry-After") == "" {
			t.Fatal(full.Status, full.Problem, full.Header)
		}
		until(t, open(t, base, addresses[1], ""), "position", 2.0)
		if s := open(t, base, addresses[2], ""); s.Problem != "streams-full" {
			t.Fatal(s.Status, s.Problem)
		}
		want(t, people[2].Poll(t), http.StatusOK, map[string]any{"stream_url": nil, "stream_url_reason": "streams_full"})
		first.Close()
		apitest.Eventually(t, "its place", func() bool { return open(t, base, addresses[2], "").Problem == "" })
		apitest.Eventually(t, "gone", func() bool { return counted(t, b, httpapi.MetricLineEnds, "gone") > 0 })
	})

	inBoth(t, "SaysOnceThatItIsStaleWhileRedisIsAway", func(t *testing.T, open opener) {
		t.Helper()
		server := ownRedis(t)
		b, base := inLine(t, apitest.Options{
			Redis: server.addrs, Surface: often,
			Live: live.Config{Every: 5 * time.Millisecond, Wait: 10 * time.Millisecond, Timeout: 30 * time.Second, StaleFor: time.Hour},
		})
		p := queue(t, b, 1)[0]
		s := open(t, base, streamURL(t, p), "")
		until(t, s, "position", 1.0)
		if err := server.pause(); err != nil {
			t.Fatal(err)
		}
		if e := until(t, s, "stale", true); e.Data["position"] != 1.0 {
			t.Fatal(e)
		}
		s.Beat(t)
		if err := server.resume(); err != nil {
			t.Fatal(err)
		}
		if e := s.Next(t); e.Data["stale"] != false {
			t.Fatal(e)
		}
	})

	inBoth(t, "CostsRedisNothingOfItsOwn", func(t *testing.T, open opener) {
		t.Helper()
		b, base := inLine(t, apitest.Options{})
		people := queue(t, b, 40)
		for i, p := range people {
			until(t, open(t, base, streamURL(t, p), ""), "position", float64(i+1))
		}
		refreshes := func() float64 { return counted(t, b, live.MetricRefreshes, "") }
		count := &counter{}
		before := refreshes()
		b.Redis.AddHook(count)
		apitest.Eventually(t, "many refreshes", func() bool { return refreshes() >= before+50 })
		commands := float64(count.n.Load())
		if done := refreshes() - before; commands > done+5 {
			t.Fatalf("%v commands for 40 streams while the line was refreshed %v times", commands, done)
		}
	})
}

// TestStreamsForTheNearest are offered, and to who holds a pass; the others are told why not.
func TestStreamsForTheNearest(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) { c.StreamNearest = 2 }})
	people := queue(t, b, 3)
	for _, p := range people[:2] {
		addresses := map[string]bool{}
		for range 4 { // a new one now and then
			addresses[streamURL(t, p)] = true
		}
		if len(addresses) == 4 {
			t.Fatal("another address at each poll")
		}
	}
	want(t, people[2].Poll(t), http.StatusOK, map[string]any{"stream_url": nil, "stream_url_reason": "too_far"})
	b.Admit(t, 1)
	streamURL(t, people[0])
	streamURL(t, people[2])
	want(t, b.Person("new").Poll(t), http.StatusOK, map[string]any{"stream_url": nil, "stream_url_reason": "not_waiting"})

	off := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) { c.StreamNearest = 0 }})
	want(t, off.Person("a").Join(t), http.StatusCreated, map[string]any{"stream_url": nil, "stream_url_reason": "streams_off"})
}

// journal is a log that is read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// TestTokensOfStreams: an address opens its own product's streams for a minute; nothing else does, a ticket least of all (F28).
func TestTokensOfStreams(t *testing.T) {
	t.Parallel()
	var log journal
	b, base := inLine(t, apitest.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	p := b.Admitted(t, "김 서연/1")
	address := streamURL(t, p)
	path, token, _ := strings.Cut(address, "?token=")
	held, err := ticket.Verify(b.Keys.Tickets, p.Ticket, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	expired := httpapi.StreamToken(b.Keys.Tickets, p.User, held, time.Now().Add(-time.Second))
	for name, c := range map[string]struct {
		path    string
		status  int
		problem string
	}{
		"none":          {path, 401, "stream-token-invalid"},
		"empty":         {path + "?token=", 401, "stream-token-invalid"},
		"two":           {address + "&token=" + token, 401, "stream-token-invalid"},
		"a ticket":      {path + "?token=" + p.Ticket, 401, "stream-token-invalid"},
		"a pass":        {path + "?token=" + p.Pass, 401, "stream-token-invalid"},
		"cut":           {address[:len(address)-4], 401, "stream-token-invalid"},
		"of no escapes": {path + "?token=%zz" + token, 401, "stream-token-invalid"},
		"expired":       {path + "?token=" + expired, 401, "stream-token-expired"},
		"other product": {strings.Replace(address, "shoe", "unopened", 1), 403, "stream-token-foreign"},
	} {
		a := b.Do(t, apitest.Call{Method: http.MethodGet, Path: c.path, Header: p.Header()})
		wantProblem(t, a, c.status, c.problem)
		if a.Text("field") != "token" {
			t.Error(name, a)
		}
	}
	// Where the token goes for a ticket it is none.
	thief := b.Person(p.User)
	thief.Ticket = token
	wantProblem(t, thief.Poll(t), http.StatusUnauthorized, "ticket-invalid")

	s := apitest.WatchLine(t, base, address, "")
	if e := until(t, s, "status", "admitted"); e.Data["pass"] != p.Pass {
		t.Fatal(e)
	}
	s.Close()
	apitest.Eventually(t, "gone", func() bool { return counted(t, b, httpapi.MetricLineEnds, "gone") == 1 })
	if text := log.String(); !strings.Contains(text, "refused") || strings.Contains(text, token[:40]) || strings.Contains(text, expired[:40]) {
		t.Fatalf("a token is in the log:\n%s", text)
	}
}

// TestLineStreamOfASlowReader is cut when the reader stops reading, and its place is free again.
func TestLineStreamOfASlowReader(t *testing.T) {
	t.Parallel()
	for form, head := range map[string]http.Header{"Events": {}, "Socket": apitest.Handshake()} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			slowReader(t, head)
		})
	}
}

func slowReader(t *testing.T, head http.Header) {
	t.Helper()
	b := apitest.New(t, apitest.Options{Streams: streams.Config{Max: 1}, Surface: func(c *httpapi.Config) {
		c.Heartbeat, c.StreamWrite = 5*time.Millisecond, 50*time.Millisecond
	}})
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	b.Serve(t, listener)
	p := queue(t, b, 1)[0]
	address := streamURL(t, p)
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listener.conns <- server
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pipe"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = head
	if err := request.Write(client); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(client)
	for lines.Scan() && lines.Text() != "" { // the head, and no more
	}
	apitest.Eventually(t, "cut", func() bool { return counted(t, b, httpapi.MetricLineEnds, "slow") == 1 })
	if streamURL(t, p) == "" {
		t.Fatal("its place is not free")
	}
}
