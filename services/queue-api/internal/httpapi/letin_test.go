package httpapi_test

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/live"
)

// away gives a line of three whose Redis was stopped, and is not asked any more.
func away(t *testing.T, perSecond float64, settings func(*product.Settings)) (*apitest.Bundle, []*apitest.Person) {
	t.Helper()
	server := ownRedis(t)
	b := apitest.New(t, apitest.Options{
		Redis: server.addrs, Timeout: 500 * time.Millisecond, Breaker: redisconn.BreakerConfig{Failures: 3, OpenFor: time.Hour},
		Live:     live.Config{Every: time.Nanosecond, Wait: 30 * time.Second, StaleFor: time.Hour},
		Surface:  func(c *httpapi.Config) { c.FailOpen = perSecond },
		Settings: settings,
	})
	people := queue(t, b, 3)
	want(t, people[0].Poll(t), http.StatusOK, map[string]any{"position": 1.0})
	if err := server.pause(); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "not asked", func() bool {
		wait, _ := strconv.Atoi(people[0].Leave(t).Header.Get("Retry-After"))
		return wait > 1
	})
	return b, people
}

// TestFailOpen: while Redis is away, and only where it was chosen, people are let in by a pass of no place, never more than the rate and
// a second's burst, and each once; whoever waits keeps the place. Nothing can be ordered here.
func TestFailOpen(t *testing.T) {
	t.Parallel()
	const perSecond = 5
	began := time.Now()
	b, waiting := away(t, perSecond, nil)
	people := make([]*apitest.Person, 200)
	var crowd sync.WaitGroup
	for i := range people {
		people[i] = b.Person(product.UserID("c" + strconv.Itoa(i)))
		crowd.Go(func() {
			a := people[i].Join(t)
			if people[i].Pass == "" {
				wantProblem(t, a, http.StatusServiceUnavailable, "unavailable")
				return
			}
			want(t, a, http.StatusOK, map[string]any{
				"status": "admitted", "place": nil, "position": nil, "ticket": nil, "order_id": nil, "already_in_line": false, "stale": true,
			})
		})
	}
	crowd.Wait()
	in := 0
	for _, p := range people {
		if p.Pass == "" {
			continue
		}
		in++
		says, err := b.Keys.Passes.Verifier().Verify(p.Pass)
		if !errors.Is(err, pass.ErrPlaceless) || says.User != p.User || says.Product != b.Product || says.Place != 0 || !says.ExpiresAt.After(says.IssuedAt) ||
			says.OrderID != order.DeriveNonceID(b.Keys.Orders, b.Product, p.Hash(), says.Nonce, says.Admitted) {
			t.Fatalf("%+v, %v", says, err)
		}
		first := p.Pass
		want(t, p.Join(t), http.StatusOK, map[string]any{"pass": first})
		want(t, p.Poll(t), http.StatusOK, map[string]any{"pass": first})
		wantProblem(t, p.Order(t, 1, ""), http.StatusServiceUnavailable, "unavailable")
	}
	if most := perSecond*time.Since(began).Seconds() + perSecond; in < 1 || float64(in) > most {
		t.Fatalf("%d people are in, at most %v", in, most)
	}
	apitest.Eventually(t, "one who waits is let in", func() bool {
		held := waiting[1].Ticket
		a := waiting[1].Poll(t)
		if a.Text("status") == "admitted" {
			want(t, a, http.StatusOK, map[string]any{"place": nil, "ticket": held})
			return true
		}
		want(t, a, http.StatusOK, map[string]any{"status": "waiting", "position": 2.0})
		return false
	})
	wantMessages(t, b, 0)
}

// TestFailOpenIsShut without the setting, and for a product that was paused.
func TestFailOpenIsShut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		perSecond float64
		settings  func(*product.Settings)
	}{
		"ByDefault": {0, nil},
		"Paused":    {100, func(s *product.Settings) { s.State = product.Paused }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, waiting := away(t, c.perSecond, c.settings)
			for range 20 {
				wantProblem(t, b.Person("a").Join(t), http.StatusServiceUnavailable, "unavailable")
				want(t, waiting[0].Poll(t), http.StatusOK, map[string]any{"position": 1.0, "pass": nil})
			}
		})
	}
}

// TestAPassOfNoPlaceBuysNothing once Redis is back: its holder is told to join the line, and a place in it is another matter.
func TestAPassOfNoPlaceBuysNothing(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{})
	p := b.Admitted(t, "a")
	genuine := p.Pass
	id, says := p.OrderID(t), p.Claims(t)
	says.Place, says.Nonce = 0, "AAAAAAAAAAAAAAAAAAAAAA"
	text, err := b.Keys.Passes.Sign(says)
	if err != nil {
		t.Fatal(err)
	}
	p.Pass = text
	for range 2 {
		wantProblem(t, p.Order(t, 1, ""), http.StatusForbidden, "pass-placeless")
	}
	wantMessages(t, b, 0)
	thief := b.Person("thief")
	thief.Pass = text
	wantProblem(t, thief.Order(t, 1, ""), http.StatusForbidden, "pass-foreign")
	want(t, p.Read(t, id), http.StatusOK, map[string]any{"status": "pending", "known": false}) // the ticket's claim; the pass claims none
	p.Pass = genuine
	if a := p.Order(t, 1, ""); a.Status != http.StatusAccepted {
		t.Fatal(a)
	}
	wantMessages(t, b, 1)
}
