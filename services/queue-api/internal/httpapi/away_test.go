package httpapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/redisconn"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/live"
)

// TestOutcomeUnknown cuts the way to Kafka's answer: the order is in the log later, and nobody was told that it failed (I12).
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Send: 50 * time.Millisecond, Faulty: true})
	p := b.Admitted(t, "a")
	id := p.OrderID(t)
	_, release := b.Stall(t)
	a := p.Order(t, 1, "k")
	wantProblem(t, a, http.StatusServiceUnavailable, "outcome-unknown")
	wantLinked(t, a, id)
	want(t, p.Read(t, id), http.StatusOK, map[string]any{"status": "pending", "known": true, "order_id": string(id)})
	want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "ordered", "order_id": string(id)})
	wantProblem(t, p.Order(t, 2, "k"), http.StatusConflict, "pass-spent")
	release()
	apitest.Eventually(t, "the same order accepted", func() bool { return p.Order(t, 1, "k").Status == http.StatusAccepted })
	want(t, p.Read(t, id), http.StatusOK, map[string]any{"status": "accepted"})
	for _, c := range b.Log(t) {
		if c.OrderID != id || c.Quantity != 1 {
			t.Fatal(c)
		}
	}
}

// TestOverload says busy before the pass becomes an order (F2).
func TestOverload(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Queue: 1, Faulty: true})
	first, second := b.Admitted(t, "a"), b.Admitted(t, "b")
	reached, release := b.Stall(t)
	done := make(chan apitest.Answer, 1)
	go func() { done <- first.Order(t, 1, "") }()
	<-reached
	a := second.Order(t, 1, "")
	wantProblem(t, a, http.StatusServiceUnavailable, "busy")
	wantLinked(t, a, second.OrderID(t))
	want(t, second.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
	release()
	want(t, <-done, http.StatusAccepted, nil)
	// The place is free a moment after the answer that it was held for.
	apitest.Eventually(t, "the second accepted", func() bool { return second.Order(t, 1, "").Status == http.StatusAccepted })
	wantMessages(t, b, 2)
}

// TestRedisAway is answered, with when to come again, and is over when it is over.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := ownRedis(t)
	b := apitest.New(t, apitest.Options{Redis: server.addrs, Timeout: 50 * time.Millisecond})
	p, waiting := b.Admitted(t, "a"), b.Person("w")
	if err := server.pause(); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, waiting.Join(t), http.StatusServiceUnavailable, "unavailable")
	wantProblem(t, waiting.Poll(t), http.StatusServiceUnavailable, "unavailable")
	wantProblem(t, p.Read(t, p.OrderID(t)), http.StatusServiceUnavailable, "unavailable")
	// Whether a bind that got no answer happened is known to nobody.
	a := p.Order(t, 1, "")
	if typ := a.Problem(); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || typ != "outcome-unknown" && typ != "unavailable" {
		t.Fatal(a)
	}
	wantMessages(t, b, 0)
	if err := server.resume(); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "join", func() bool { return waiting.Join(t).Status < 300 })
	apitest.Eventually(t, "order", func() bool { return p.Order(t, 1, "").Status == http.StatusAccepted })
	for _, c := range b.Log(t) {
		if c.Kind != order.KindPlace || c.OrderID != p.OrderID(t) {
			t.Fatal(c)
		}
	}
}

// TestRedisIsNotAskedWhileItIsAway: behind an open breaker joins, orders, and polls that no snapshot can answer are told when to come
// again, with nothing sent; who waits is told the last snapshot. It stays so although Redis is back, until the next try.
func TestRedisIsNotAskedWhileItIsAway(t *testing.T) {
	t.Parallel()
	server := ownRedis(t)
	const openFor = time.Hour
	b := apitest.New(t, apitest.Options{
		Redis: server.addrs, Timeout: 500 * time.Millisecond, Breaker: redisconn.BreakerConfig{Failures: 3, OpenFor: openFor},
		Live: live.Config{Every: time.Nanosecond, Wait: 30 * time.Second, StaleFor: time.Hour},
	})
	buyer := b.Admitted(t, "a")
	people := queue(t, b, 3)
	want(t, people[2].Poll(t), http.StatusOK, map[string]any{"position": 3.0, "stale": false})
	if err := server.pause(); err != nil {
		t.Fatal(err)
	}
	refused := func(a apitest.Answer) {
		t.Helper()
		wantProblem(t, a, http.StatusServiceUnavailable, "unavailable")
		if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 3*int(openFor.Seconds()) {
			t.Fatal(a.Header)
		}
	}
	apitest.Eventually(t, "refused at once", func() bool {
		a := b.Person("b").Join(t)
		wait, _ := strconv.Atoi(a.Header.Get("Retry-After"))
		return wait > 1 // before it is open the answer is one second
	})
	for round := range 2 {
		for range 50 {
			refused(b.Person("b").Join(t))
			refused(b.Person("b").Poll(t))
			refused(people[0].Leave(t))
			refused(buyer.Poll(t))
			refused(buyer.Read(t, buyer.OrderID(t)))
			refused(buyer.Order(t, 1, "k"))
		}
		apitest.Eventually(t, "an answer that says it is stale", func() bool {
			a := people[2].Poll(t)
			want(t, a, http.StatusOK, map[string]any{"status": "waiting", "position": 3.0})
			return a.Body["stale"] == true && a.Body["age_ms"].(float64) > 1000
		})
		if round > 0 {
			break
		}
		if err := server.resume(); err != nil {
			t.Fatal(err)
		}
	}
	wantMessages(t, b, 0)
}
