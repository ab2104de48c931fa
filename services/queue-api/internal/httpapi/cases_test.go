package httpapi_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/live"
)

// TestCases are faults that other waiting rooms had with passes, tickets and paths, by the numbers under which we keep them. 24 to 26 and 30 are
// in TestAnswers, 9 in TestPublishedKeys, 38 in TestLineStream, 40 and 42 in TestCrowd, browsers in TestOrigins; those of the gate are in pkg/waitingroom and in admission-scheduler's admit.
func TestCases(t *testing.T) {
	t.Parallel()

	// People whose pass lapsed, and who come back together with what they had, were let in beside those who came after them.
	t.Run("Case5TheyReturnTogether", func(t *testing.T) {
		t.Parallel()
		const capacity = 3
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.Capacity = capacity }})
		people := make([]*apitest.Person, capacity)
		for i := range people {
			people[i] = b.Person(product.UserID("gone" + strconv.Itoa(i)))
			people[i].Join(t)
		}
		b.Admit(t, waitingroom.AdmitMax)
		for _, p := range people {
			want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
		}
		for i, p := range people {
			b.Person(product.UserID("next" + strconv.Itoa(i))).Join(t)
			b.Expire(t, p)
		}
		if n := b.Admit(t, waitingroom.AdmitMax); n != capacity {
			t.Fatalf("%d let through", n)
		}
		for _, p := range people {
			wantProblem(t, p.Order(t, 1, ""), http.StatusForbidden, "lapsed")
			want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "lapsed", "pass": nil})
			want(t, p.Join(t), http.StatusCreated, map[string]any{"status": "waiting"})
		}
		if view, err := b.Room.View(t.Context(), b.Product); err != nil || view.Active > capacity || view.Waiting != capacity {
			t.Fatal(view, err)
		}
		wantMessages(t, b, 0)
	})

	// A line that stands still was given a wait of nought. It has none, and says why.
	t.Run("Case6NoEstimateWhileNothingMoves", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		people := queue(t, b, 11)
		last := people[10]
		last.Poll(t)
		b.Admit(t, 5)
		want(t, last.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "estimated_wait_reason": nil})
		for version, c := range []struct {
			change func(*waitingroom.LineSettings)
			why    string
		}{
			{func(s *waitingroom.LineSettings) { s.State = product.Paused }, "paused"},
			{func(s *waitingroom.LineSettings) { s.State = product.Closed }, "closed"},
			{func(s *waitingroom.LineSettings) { s.QueueOn = false }, "queue_off"},
		} {
			b.Change(t, int64(10+version), c.change)
			want(t, last.Poll(t), http.StatusOK, map[string]any{"status": c.why, "position": 6.0, "estimated_wait": nil, "estimated_wait_reason": c.why})
		}
		b.Change(t, 20, func(*waitingroom.LineSettings) {})
		if a := last.Poll(t); a.Text("status") != "waiting" || a.Body["estimated_wait"] == nil {
			t.Fatal(a)
		}
	})

	// Nobody noticed that all was sold, and nobody that there was more. Here every answer says so within a second, everybody keeps the place,
	// and what comes in goes to them in their order.
	t.Run("Case17SoldOutAndMoreComesIn", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 1, Live: live.Config{Every: 250 * time.Millisecond, Wait: 30 * time.Second, Timeout: 30 * time.Second}})
		buyer, people := b.Admitted(t, "buyer"), queue(t, b, 4)
		for i, p := range people {
			want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "position": float64(i + 1)})
		}
		buyer.Order(t, 1, "")
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		sold := time.Now()
		// says polls until the answer is this, and fails at one that could have known and does not say it, or does not say that it is old.
		says := func(p *apitest.Person, since time.Time, status string) {
			apitest.Eventually(t, status, func() bool {
				sent := time.Now()
				a := p.Poll(t)
				age, _ := a.Body["age_ms"].(float64)
				if known := sent.Sub(since) > time.Duration(age+1)*time.Millisecond; known && a.Text("status") != status {
					t.Fatal(status, a)
				}
				if age > 1000 && a.Body["stale"] != true {
					t.Fatal(a)
				}
				return a.Text("status") == status
			})
		}
		for i, p := range people {
			says(p, sold, "sold_out")
			want(t, p.Poll(t), http.StatusOK, map[string]any{"position": float64(i + 1), "estimated_wait": nil, "estimated_wait_reason": "sold_out"})
			want(t, p.Join(t), http.StatusOK, map[string]any{"status": "sold_out", "already_in_line": true})
		}
		people = append(people, b.Person("late"))
		want(t, people[4].Join(t), http.StatusCreated, map[string]any{"status": "sold_out", "position": 5.0})
		want(t, b.Person("nobody").Poll(t), http.StatusOK, map[string]any{"status": "sold_out", "place": nil})
		left := func(want bool) {
			apitest.Eventually(t, "the public state", func() bool {
				return b.Do(t, apitest.Call{Method: http.MethodGet, Path: "/v1/products/shoe"}).Body["units_left"] == want
			})
		}
		left(false)
		if n := b.Admit(t, 10); n != 0 {
			t.Fatalf("%d let through with nothing left", n)
		}

		const more = 2
		b.Restock(t, more)
		if n := b.Admit(t, 10); n != more {
			t.Fatalf("%d let through for %d units", n, more)
		}
		back := time.Now()
		left(true)
		for i, p := range people {
			if i < more {
				says(p, back, "admitted")
				continue
			}
			says(p, back, "waiting")
			want(t, p.Poll(t), http.StatusOK, map[string]any{"position": float64(i + 1 - more)})
		}
	})

	// Two people had one number, and an old place was lost on another device. Here three processes give places out, and any of them knows all.
	t.Run("Case27EveryPlaceIsGivenOnce", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		processes := []*apitest.Bundle{b, apitest.New(t, apitest.Options{Beside: b}), apitest.New(t, apitest.Options{Beside: b})}
		const callers, each = 9, 20
		places := make([][]float64, callers)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for n := range each {
					p := processes[c%len(processes)].Person(product.UserID(strconv.Itoa(c*each + n)))
					a := p.Join(t)
					place, _ := a.Body["place"].(float64)
					places[c] = append(places[c], place)
					// At once from a second tab and by another process: the same.
					again := processes[(c+1)%len(processes)].Person(p.User).Join(t)
					if a.Status != http.StatusCreated || again.Status != http.StatusOK || again.Body["place"] != place || again.Body["already_in_line"] != true {
						t.Error(a, again)
					}
				}
			})
		}
		wg.Wait()
		seen := map[float64]bool{}
		for c, own := range places {
			for n, place := range own {
				if seen[place] || n > 0 && place <= own[n-1] {
					t.Fatalf("place %.0f is not unique and rising", place)
				}
				seen[place] = true
				// And later, when all that is left is who one is.
				if n%10 == 0 {
					p := processes[(c+2)%len(processes)].Person(product.UserID(strconv.Itoa(c*each + n)))
					want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "place": place})
				}
			}
		}
	})

	// Cases 29, 31 and 32: nothing is kept in cookies, so nothing is lost with them.
	t.Run("Case29OnlyTheTicketIsLeft", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Served: true})
		b.Person("first").Join(t)
		p := b.Person("a")
		joined := p.Join(t)
		if len(joined.Header.Values("Set-Cookie")) != 0 {
			t.Fatal(joined.Header)
		}
		for range 3 {
			header := p.Header()
			header["Accept"], header["User-Agent"] = "application/json, */*;q=0.8", "a program"
			a := b.Do(t, apitest.Call{Method: http.MethodGet, Path: "/v1/products/shoe/queue", Header: header})
			want(t, a, http.StatusOK, map[string]any{"status": "waiting", "place": joined.Body["place"], "position": 2.0})
			if a.Header.Get("Content-Type") != "application/json" || len(a.Header.Values("Set-Cookie")) != 0 {
				t.Fatal(a.Header)
			}
		}
	})

	// Another spelling of a path went past the guard.
	t.Run("Case33AnotherSpellingOfThePath", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Served: true})
		p := b.Admitted(t, "a")
		for _, path := range []string{
			"/v1/products/shoe/Orders", "/V1/products/shoe/orders", "//v1/products/shoe/orders", "/v1//products/shoe/orders", "/v1/products/shoe/orders/", "/v1/products/shoe//orders",
			"/v1/products/shoe/%6Frders", "/v1/products/shoe%2Forders", "/v1/products/shoe/./orders", "/v1/products/shoe/x/../orders", "/v1/products/%2e%2e/shoe/orders", "/v1/products/shoe/orders%00",
			"/v1/products/shoe/orders;x=1", "/v1/products/Shoe/orders",
		} {
			a := b.Do(t, apitest.Call{Method: http.MethodPost, Path: path, Body: `{"quantity":1}`, Header: p.Header()})
			if a.Status != http.StatusNotFound && a.Status != http.StatusMethodNotAllowed {
				t.Error(path, a)
			}
		}
		// And the one that is spelled right asks for a pass, with a query or without.
		p.Pass = ""
		for _, path := range []string{"/v1/products/shoe/orders", "/v1/products/shoe/orders?pass=1", "/v1/products/sho%65/orders"} {
			a := b.Do(t, apitest.Call{Method: http.MethodPost, Path: path, Body: `{"quantity":1}`, Header: p.Header()})
			if a.Status != http.StatusUnauthorized && a.Status != http.StatusNotFound && a.Status != http.StatusBadRequest {
				t.Error(path, a)
			}
		}
		wantMessages(t, b, 0)
	})

	// An error page in the middle of the wait put people out of the line. Here every second call of Redis is lost while they join and ask, and nobody's
	// place changes.
	t.Run("Case35AFaultCostsNobodyThePlace", func(t *testing.T) {
		t.Parallel()
		const people = 20
		b := apitest.New(t, apitest.Options{})
		lossy := &lossy{}
		b.Redis.AddHook(lossy)
		// tries asks until there is an answer; in between there is nothing but 503 with the time to come again.
		tries := func(what string, call func(testing.TB) apitest.Answer) (last apitest.Answer) {
			apitest.Eventually(t, what, func() bool {
				if last = call(t); last.Status == http.StatusServiceUnavailable {
					wantProblem(t, last, http.StatusServiceUnavailable, last.Problem())
					return false
				}
				if last.Status != http.StatusOK && last.Status != http.StatusCreated {
					t.Fatal(what, last)
				}
				return true
			})
			return last
		}
		var before float64
		for n := range people {
			p := b.Person(product.UserID(strconv.Itoa(n)))
			place, _ := tries("join", p.Join).Body["place"].(float64)
			if place <= before {
				t.Fatalf("%.0f behind %.0f", place, before)
			}
			before = place
			for range 3 {
				want(t, tries("poll", p.Poll), http.StatusOK, map[string]any{"status": "waiting", "place": place, "position": float64(n + 1)})
				want(t, tries("poll without the ticket", b.Person(p.User).Poll), http.StatusOK, map[string]any{"status": "waiting", "place": place})
			}
			want(t, tries("join again", p.Join), http.StatusOK, map[string]any{"already_in_line": true, "place": place})
		}
		lossy.off.Store(true)
		if v, err := b.Room.View(t.Context(), b.Product); err != nil || v.Waiting != people {
			t.Fatal(v, err)
		}
	})

	// What fails while somebody orders must not cost the attempt: half of what goes to Redis is lost here, on the way there or on the way back.
	t.Run("Case39FaultsCostNobodyTheOrder", func(t *testing.T) {
		t.Parallel()
		const buyers = 20
		b := apitest.New(t, apitest.Options{})
		people := queue(t, b, buyers)
		b.Admit(t, waitingroom.AdmitMax)
		lossy := &lossy{}
		b.Redis.AddHook(lossy)
		ids := map[string]bool{}
		for _, p := range people {
			apitest.Eventually(t, "a pass", func() bool { return p.Poll(t).Status == http.StatusOK && p.Pass != "" })
			apitest.Eventually(t, "the order", func() bool {
				a := p.Order(t, 1, "")
				if a.Status != http.StatusAccepted && a.Status != http.StatusServiceUnavailable {
					t.Fatal(a)
				}
				if id := a.Text("order_id"); id != "" {
					ids[id] = true
				}
				return a.Status == http.StatusAccepted
			})
		}
		lossy.off.Store(true)
		if v, err := b.Room.View(t.Context(), b.Product); err != nil || v.Held != buyers || v.InFlight != buyers || len(ids) != buyers {
			t.Fatal(v, err, ids)
		}
		sent := map[order.ID]bool{}
		for _, c := range b.Log(t) {
			sent[c.OrderID] = true
		}
		if len(sent) != buyers {
			t.Fatalf("%d orders in the log", len(sent))
		}
	})
}

// lossy loses half of what goes to Redis, as often before it is done as after.
type lossy struct{ off atomic.Bool }

var errLossy = errors.New("lost")

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

// lose does or leaves what is asked, and says whether its answer is lost.
func (l *lossy) lose(do func()) bool {
	fate := rand.IntN(4) //nolint:gosec // a fault, no secret
	if l.off.Load() || fate != 0 {
		do()
	}
	return !l.off.Load() && fate < 2
}

func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		if l.lose(func() { err = next(ctx, cmd) }) {
			cmd.SetErr(errLossy)
			return errLossy
		}
		return err
	}
}

func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		if l.lose(func() { err = next(ctx, cmds) }) {
			for _, cmd := range cmds {
				cmd.SetErr(errLossy)
			}
			return errLossy
		}
		return err
	}
}
