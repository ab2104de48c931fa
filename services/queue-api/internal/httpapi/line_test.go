package httpapi_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
)

// want fails unless the answer has the status and, of the members named, the values.
func want(t *testing.T, a apitest.Answer, status int, members map[string]any) {
	t.Helper()
	got := map[string]any{}
	for name := range members {
		got[name] = a.Body[name]
	}
	if a.Status != status {
		t.Fatalf("status %d, want %d: %v", a.Status, status, a)
	}
	if diff := cmp.Diff(members, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%v\n%s", a, diff)
	}
}

// wantProblem fails unless the answer is this problem, with Retry-After exactly where it says to come again.
func wantProblem(t *testing.T, a apitest.Answer, status int, typ string) {
	t.Helper()
	if a.Status != status || a.Problem() != typ {
		t.Fatalf("want %d %s, got %v", status, typ, a)
	}
	if later := status == 503 || status == 429; later != (a.Header.Get("Retry-After") != "") {
		t.Fatalf("Retry-After is %q: %v", a.Header.Get("Retry-After"), a)
	}
	if a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("Cache-Control is %q", a.Header.Get("Cache-Control"))
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()

	t.Run("AFirstJoinIsANewPlaceWithItsTicket", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("김 서연/1")
		a := p.Join(t)
		want(t, a, http.StatusCreated, map[string]any{
			"product": "shoe", "status": "waiting", "already_in_line": false, "position": 1.0, "ahead": 0.0, "total": 1.0,
			"estimated_wait": nil, "estimated_wait_reason": "not_yet_moving", "progress": 1.0, "progress_reason": nil,
			"stream_url_reason": nil, "pass": nil, "order_id": nil, "order_url": nil,
			"can_join": false, "message": nil,
		})
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Location") != "/v1/products/shoe/queue" {
			t.Fatal(a.Header)
		}
		held, err := ticket.Verify(b.Keys.Tickets, p.Ticket, time.Now())
		if err != nil || held.User != p.Hash() || held.Product != b.Product || float64(held.Place) != a.Body["place"] {
			t.Fatal(held, err, a)
		}
	})

	t.Run("AgainKeepsThePlaceAndSaysSo", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		first, second := b.Person("a"), b.Person("b")
		place := first.Join(t).Body["place"]
		want(t, second.Join(t), http.StatusCreated, map[string]any{"position": 2.0, "ahead": 1.0})
		want(t, first.Join(t), http.StatusOK, map[string]any{"already_in_line": true, "place": place, "position": 1.0, "total": 2.0})
		want(t, b.Person("a").Join(t), http.StatusOK, map[string]any{"place": place}) // another tab, without the ticket
	})

	t.Run("AtOnceFromManyTabsIsOnePlace", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		places, created := sync.Map{}, make(chan bool, 50)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				a := b.Person("a").Join(t)
				places.Store(a.Body["place"], true)
				created <- a.Status == http.StatusCreated
			})
		}
		wg.Wait()
		close(created)
		n, made := 0, 0
		places.Range(func(any, any) bool { n++; return true })
		for c := range created {
			if c {
				made++
			}
		}
		if n != 1 || made != 1 {
			t.Fatalf("%d places, %d created", n, made)
		}
	})

	t.Run("RefusedByTheProduct", func(t *testing.T) {
		t.Parallel()
		for state, typ := range map[product.State]string{product.NotOpen: "not-open", product.Closed: "closed"} {
			b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.State = state }})
			wantProblem(t, b.Person("a").Join(t), http.StatusConflict, typ)
		}
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.MaxLen = 1 }})
		b.Person("a").Join(t)
		wantProblem(t, b.Person("b").Join(t), http.StatusServiceUnavailable, "line-full")
		want(t, b.Person("a").Join(t), http.StatusOK, nil)
	})

	t.Run("AnEvictedPersonMayNotJoinWhileBanned", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("a")
		ban(t, b, p)
		wantProblem(t, p.Join(t), http.StatusForbidden, "revoked")
	})

	t.Run("AfterLeavingIsANewPlaceAtTheEnd", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("a")
		old := p.Join(t).Body["place"].(float64)
		b.Person("b").Join(t)
		want(t, p.Leave(t), http.StatusOK, map[string]any{"status": "left", "can_join": true})
		a := p.Join(t)
		want(t, a, http.StatusCreated, map[string]any{"position": 2.0})
		if a.Body["place"].(float64) <= old {
			t.Fatal(old, a)
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()

	t.Run("EveryStatusOfALife", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("a")
		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "not_in_line", "place": nil, "position": nil, "ticket": nil, "can_join": true})
		place := p.Join(t).Body["place"]
		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "place": place, "position": 1.0})
		b.Admit(t, 1)
		a := p.Poll(t)
		want(t, a, http.StatusOK, map[string]any{"status": "admitted", "place": place, "position": nil, "order_id": nil, "can_join": false})

		claims := p.Claims(t)
		standing, err := b.Room.Status(t.Context(), b.Product, p.Hash(), nil)
		if err != nil {
			t.Fatal(err)
		}
		lease := time.UnixMilli(standing.LeaseEndMS)
		if claims.User != "a" || claims.Product != b.Product || float64(claims.Place) != place ||
			claims.OrderID != order.DeriveID(b.Keys.Orders, b.Product, p.Hash(), claims.Place, b.OpenedUS) ||
			claims.Admitted.UnixMilli() != standing.AdmittedMS || claims.ExpiresAt.Before(lease) || claims.ExpiresAt.Sub(lease) >= time.Second {
			t.Fatalf("%+v of %+v", claims, standing)
		}
		if again := p.Poll(t); again.Body["pass"] != a.Body["pass"] {
			t.Fatal("another pass of the same lease")
		}

		id := string(p.OrderID(t))
		if a := p.Order(t, 1, ""); a.Status != http.StatusAccepted {
			t.Fatal(a)
		}
		ordered := map[string]any{"status": "ordered", "order_id": id, "order_url": "/v1/orders/" + id, "pass": nil}
		want(t, p.Poll(t), http.StatusOK, ordered)
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		want(t, p.Poll(t), http.StatusOK, ordered)
	})

	t.Run("WaitingGivesWayToTheProductAndKeepsThePlace", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		waiting, admitted, nobody := b.Person("w"), b.Admitted(t, "a"), b.Person("n")
		place := waiting.Join(t).Body["place"]
		version := int64(10)
		for _, c := range []struct {
			change func(*waitingroom.LineSettings)
			want   string
		}{
			{func(s *waitingroom.LineSettings) { s.State, s.Reason = product.Paused, "a break" }, "paused"},
			{func(s *waitingroom.LineSettings) { s.State, s.QueueOn = product.Paused, false }, "queue_off"},
			{func(s *waitingroom.LineSettings) { s.State, s.QueueOn = product.NotOpen, false }, "not_open"},
			{func(s *waitingroom.LineSettings) { s.State, s.QueueOn = product.Closed, false }, "closed"},
		} {
			version++
			b.Change(t, version, c.change)
			want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": c.want, "place": place, "position": 1.0})
			want(t, nobody.Poll(t), http.StatusOK, map[string]any{"status": c.want, "place": nil})
			want(t, admitted.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
		}
		b.Change(t, version+1, func(s *waitingroom.LineSettings) { s.State, s.Reason = product.Paused, "a break" })
		want(t, waiting.Poll(t), http.StatusOK, map[string]any{"message": "a break"})
	})

	t.Run("SoldOutShowsOnceTheBaseIsZero", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 1})
		buyer, waiting := b.Admitted(t, "a"), b.Person("w")
		waiting.Join(t)
		buyer.Order(t, 1, "")
		want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "waiting"}) // held, not sold
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "sold_out", "position": 1.0})
		want(t, buyer.Poll(t), http.StatusOK, map[string]any{"status": "ordered"})
	})

	t.Run("AnUnusedPassLapses", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.PassMS = 1000 }})
		p := b.Admitted(t, "a")
		apitest.Eventually(t, "lapse", func() bool { return p.Poll(t).Text("status") == "lapsed" })
		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "lapsed", "can_join": true, "pass": nil})
	})

	t.Run("ATicketBringsThePlaceBackAfterALoss", func(t *testing.T) {
		t.Parallel()
		redis := ownRedis(t)
		b := apitest.New(t, apitest.Options{Redis: redis.addrs})
		called, first, second := b.Admitted(t, "called"), b.Person("first"), b.Person("second")
		places := []any{first.Join(t).Body["place"], second.Join(t).Body["place"]}
		front := called.Claims(t).Place
		redis.flush(t)
		wantProblem(t, first.Poll(t), http.StatusServiceUnavailable, "not-ready")
		b.Open(t, 2, front)
		late := b.Person("late").Join(t).Body["place"].(float64)
		want(t, second.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "place": places[1], "position": 1.0})
		want(t, first.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "place": places[0], "position": 1.0})
		want(t, second.Poll(t), http.StatusOK, map[string]any{"position": 2.0, "total": 3.0})
		if late <= places[1].(float64) {
			t.Fatal("somebody new stands in front of the old line")
		}
		// Whoever was called before the loss is asked about, by look-up only, and told which order to ask for, now and later.
		id := called.OrderID(t)
		lapsed := map[string]any{"status": "lapsed", "can_join": true, "order_id": string(id), "order_url": "/v1/orders/" + string(id)}
		want(t, called.Poll(t), http.StatusOK, lapsed)
		wanted, err := b.Statuses.TakeWanted(t.Context(), 10)
		if err != nil || len(wanted) != 1 || wanted[0].OrderID != id || wanted[0].DeadlineMS != 0 {
			t.Fatal(wanted, err)
		}
		want(t, called.Poll(t), http.StatusOK, lapsed)
		called.Pass = ""
		want(t, called.Read(t, id), http.StatusOK, map[string]any{"status": "pending", "known": false})
	})
}

func TestLeave(t *testing.T) {
	t.Parallel()

	t.Run("ByBothCallsAndAgain", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		for user, call := range map[product.UserID][2]string{"a": {http.MethodDelete, "/queue"}, "b": {http.MethodPost, "/queue/leave"}} {
			p := b.Person(user)
			p.Join(t)
			want(t, p.Do(t, call[0], call[1]), http.StatusOK, map[string]any{"status": "left"})
			want(t, p.Do(t, call[0], call[1]), http.StatusOK, map[string]any{"status": "left"})
		}
	})

	t.Run("GivesUpAnUnusedPass", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		want(t, p.Leave(t), http.StatusOK, map[string]any{"status": "left"})
		wantProblem(t, p.Order(t, 1, ""), http.StatusConflict, "left")
	})

	t.Run("NeverEndsALaterPlace", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("a")
		p.Join(t)
		held := *p // the call that the network held up
		p.Leave(t)
		p.Join(t)
		want(t, held.Leave(t), http.StatusOK, map[string]any{"status": "waiting"})
	})

	t.Run("NeedsTheTicket", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("a")
		p.Join(t)
		p.Ticket = ""
		wantProblem(t, p.Leave(t), http.StatusUnauthorized, "ticket-invalid")
		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "waiting"})
	})
}

func TestProduct(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, b *apitest.Bundle, p string) apitest.Answer {
		t.Helper()
		return b.Do(t, apitest.Call{Method: http.MethodGet, Path: "/v1/products/" + p})
	}

	t.Run("TellsEverybodyTheSame", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.MaxQuantity = 3 }})
		b.Admitted(t, "a")
		first := b.Person("b").Join(t)
		b.Person("c").Join(t)
		a := read(t, b, "shoe")
		want(t, a, http.StatusOK, map[string]any{
			"product": "shoe", "state": "open", "queue_on": true, "rate_limit": 100000.0, "rate": 0.0, "head": first.Body["place"], "total": 2.0, "units_left": true, "max_quantity": 3.0,
			"opens_at": nil, "opens_at_reason": "not_yet_offered",
		})
		if a.Header.Get("Cache-Control") != "public, max-age=1" {
			t.Fatal(a.Header)
		}
	})

	t.Run("UnitsThatNobodyCountedAreNull", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Unloaded: true})
		want(t, read(t, b, "shoe"), http.StatusOK, map[string]any{"units_left": nil, "units_left_reason": "stock_not_loaded", "head": nil})
	})

	t.Run("UnknownOnlyByACompleteCatalogue", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		wantProblem(t, read(t, b, "nothing"), http.StatusNotFound, "unknown-product")
		wantProblem(t, read(t, b, "unopened"), http.StatusServiceUnavailable, "not-ready")
		wantProblem(t, read(t, b, strings.Repeat("x", 65)), http.StatusBadRequest, "malformed-request")
		p := b.Person("a")
		wantProblem(t, b.Do(t, apitest.Call{Method: http.MethodPost, Path: "/v1/products/nothing/queue", Header: p.Header()}),
			http.StatusNotFound, "unknown-product")
		if err := b.Redis.Del(t.Context(), b.Names.Catalogue()).Err(); err != nil {
			t.Fatal(err)
		}
		wantProblem(t, read(t, b, "nothing"), http.StatusServiceUnavailable, "not-ready")
	})
}
