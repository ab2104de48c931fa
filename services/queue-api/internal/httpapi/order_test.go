package httpapi_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
)

// wantMessages fails unless Kafka holds exactly so many records.
func wantMessages(t *testing.T, b *apitest.Bundle, n int64) {
	t.Helper()
	if got := b.Messages(t); got != n {
		t.Fatalf("%d messages in Kafka, want %d", got, n)
	}
}

// wantLinked fails unless a problem about a genuine pass links to its order.
func wantLinked(t *testing.T, a apitest.Answer, id order.ID) {
	t.Helper()
	if a.Text("order_id") != string(id) || a.Text("order_url") != "/v1/orders/"+string(id) || a.Header.Get("Location") != "/v1/orders/"+string(id) {
		t.Fatalf("no link to %s: %v %v", id, a, a.Header)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()

	t.Run("AcceptedIsInTheLogWithItsPass", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "김 서연")
		id := p.OrderID(t)
		a := p.Order(t, 2, "key 1")
		want(t, a, http.StatusAccepted, map[string]any{
			"order_id": string(id), "order_url": "/v1/orders/" + string(id), "product": "shoe", "status": "accepted", "reason": nil,
			"quantity": 2.0, "known": true,
		})
		if a.Header.Get("Location") != "/v1/orders/"+string(id) || a.Header.Get("Cache-Control") != "no-store" {
			t.Fatal(a.Header)
		}
		sent := b.Log(t)
		if len(sent) != 1 {
			t.Fatal(sent)
		}
		c := sent[0]
		if c.Kind != order.KindPlace || c.OrderID != id || c.ID != string(id) || c.User != "김 서연" || c.Quantity != 2 ||
			c.IdempotencyKey != "key 1" || c.Pass != p.Pass || c.Place != p.Claims(t).Place || c.Traceparent == "" ||
			time.UnixMilli(c.DeadlineMS).Before(time.Now()) {
			t.Fatalf("%+v", c)
		}
		status, found, err := b.Statuses.Get(t.Context(), id)
		wantStatus := order.Status{
			Version: 1, State: order.StateAccepted, Product: "shoe", User: p.Hash(), Quantity: 2, Digest: order.Digest(2, "key 1"),
		}
		if diff := cmp.Diff(wantStatus, status); err != nil || !found || diff != "" {
			t.Fatal(err, found, diff)
		}
	})

	// The lines of the table "second submit with the same pass".
	t.Run("AgainIsTheSameOrder", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		id := string(p.OrderID(t))
		p.Order(t, 1, "")
		want(t, p.Order(t, 1, ""), http.StatusAccepted, map[string]any{"order_id": id})
		sent := b.Log(t)
		for _, c := range sent[1:] {
			if diff := cmp.Diff(sent[0], c); diff != "" {
				t.Fatalf("not the stored bytes: %s", diff)
			}
		}
		b.Judge(t, sent[0], order.StateConfirmed, "", true)
		before := b.Messages(t)
		want(t, p.Order(t, 1, ""), http.StatusOK, map[string]any{"order_id": id, "status": "confirmed", "next_poll_ms": nil})
		want(t, p.Read(t, order.ID(id)), http.StatusOK, map[string]any{"status": "confirmed"})
		wantMessages(t, b, before)
	})

	t.Run("AnotherQuantityOrKeyIsRefusedBeforeAndAfterTheVerdict", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		p.Order(t, 1, "k")
		before := b.Messages(t)
		for range 2 {
			for _, other := range []struct {
				quantity int
				key      string
			}{{2, "k"}, {1, "l"}, {1, ""}} {
				a := p.Order(t, other.quantity, other.key)
				wantProblem(t, a, http.StatusConflict, "pass-spent")
				wantLinked(t, a, id)
			}
			b.Judge(t, b.Log(t)[0], order.StateRejected, order.ReasonLimit, true)
		}
		want(t, p.Order(t, 1, "k"), http.StatusOK, map[string]any{"status": "rejected", "reason": "limit"})
		wantMessages(t, b, before)
	})

	t.Run("JudgedWithALostStatusIsPendingAndWanted", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		p.Order(t, 1, "")
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", false)
		if err := b.Redis.Del(t.Context(), b.Names.Status(string(p.OrderID(t)))).Err(); err != nil {
			t.Fatal(err)
		}
		before := b.Messages(t)
		want(t, p.Order(t, 1, ""), http.StatusAccepted, map[string]any{"status": "pending", "known": false})
		wantMessages(t, b, before)
		wantWanted(t, b, p, true)
	})

	t.Run("LapsedLeftRevoked", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.PassMS = 1000 }})
		lapsed := b.Admitted(t, "lapsed")
		apitest.Eventually(t, "lapse", func() bool { return lapsed.Poll(t).Text("status") == "lapsed" })
		id := lapsed.OrderID(t)
		a := lapsed.Order(t, 1, "")
		wantProblem(t, a, http.StatusForbidden, "lapsed")
		wantLinked(t, a, id)
		// After a new join the old pass is still only lapsed, and a new one has another order.
		lapsed.Join(t)
		wantProblem(t, lapsed.Order(t, 1, ""), http.StatusForbidden, "lapsed")

		left := b.Admitted(t, "left")
		left.Leave(t)
		a = left.Order(t, 1, "")
		wantProblem(t, a, http.StatusConflict, "left")
		wantLinked(t, a, left.OrderID(t))

		b.Settings.PassMS = 60_000
		b.Change(t, 10, func(*waitingroom.LineSettings) {})
		banned, revoked := b.Admitted(t, "banned"), b.Admitted(t, "revoked")
		ban(t, b, banned)
		a = banned.Order(t, 1, "")
		wantProblem(t, a, http.StatusForbidden, "revoked")
		wantLinked(t, a, banned.OrderID(t))
		b.Change(t, 11, func(s *waitingroom.LineSettings) { s.PassEpoch = 1 })
		wantProblem(t, revoked.Order(t, 1, ""), http.StatusForbidden, "revoked")
		wantMessages(t, b, 0)
	})

	t.Run("AStatusOutlivesTheLinesMemory", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		p.Leave(t) // to the line the pass is no good any more
		status := order.Status{Product: b.Product, User: p.Hash(), Quantity: 1, Digest: order.Digest(1, "k")}
		put := func(version int, state order.State) {
			t.Helper()
			status.Version, status.State = version, state
			if _, err := b.Statuses.Put(t.Context(), p.OrderID(t), status); err != nil {
				t.Fatal(err)
			}
		}
		put(order.VersionAccepted, order.StateAccepted)
		want(t, p.Order(t, 1, "k"), http.StatusAccepted, map[string]any{"order_id": string(p.OrderID(t)), "status": "accepted"})
		put(order.VersionVerdict, order.StateConfirmed)
		want(t, p.Order(t, 1, "k"), http.StatusOK, map[string]any{"status": "confirmed"})
		wantProblem(t, p.Order(t, 2, "k"), http.StatusConflict, "pass-spent")
		wantMessages(t, b, 0)
	})

	t.Run("SoldOutLeavesThePassGood", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 2, Settings: func(s *product.Settings) { s.Oversub = 10 }})
		first, second := b.Admitted(t, "a"), b.Admitted(t, "b")
		first.Order(t, 2, "")
		before := b.Messages(t)
		a := second.Order(t, 1, "")
		wantProblem(t, a, http.StatusConflict, "sold-out")
		wantLinked(t, a, second.OrderID(t))
		wantMessages(t, b, before)
		want(t, second.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
		b.Judge(t, b.Log(t)[0], order.StateRejected, order.ReasonLimit, true) // its units come back
		want(t, second.Order(t, 1, ""), http.StatusAccepted, nil)
	})

	t.Run("BusyLeavesThePassGood", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.InflightMax = 1 }})
		first, second := b.Admitted(t, "a"), b.Admitted(t, "b")
		first.Order(t, 1, "")
		wantProblem(t, second.Order(t, 1, ""), http.StatusServiceUnavailable, "busy")
		want(t, second.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
	})

	t.Run("AHaltLeavesThePassGoodAndAnswersWhoHadOrdered", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		first, second := b.Admitted(t, "a"), b.Admitted(t, "b")
		want(t, first.Order(t, 1, ""), http.StatusAccepted, nil)
		b.Change(t, 10, func(s *waitingroom.LineSettings) { s.OrdersHalted = true })
		before := b.Messages(t)
		a := second.Order(t, 1, "")
		wantProblem(t, a, http.StatusServiceUnavailable, "orders-halted")
		wantLinked(t, a, second.OrderID(t))
		wantMessages(t, b, before)
		want(t, second.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
		want(t, first.Order(t, 1, ""), http.StatusAccepted, nil) // bound before
		b.Change(t, 11, func(s *waitingroom.LineSettings) { s.OrdersHalted = false })
		want(t, second.Order(t, 1, ""), http.StatusAccepted, nil)
	})

	t.Run("AProductThatWasShutAgainIsNotReady", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		b.Change(t, 10, func(s *waitingroom.LineSettings) { s.State = product.NotOpen })
		wantProblem(t, p.Order(t, 1, ""), http.StatusServiceUnavailable, "not-ready")
		b.Change(t, 11, func(s *waitingroom.LineSettings) { s.State = product.Closed }) // passes of before still order
		want(t, p.Order(t, 1, ""), http.StatusAccepted, nil)
	})

	t.Run("AfterRedisForgotEverythingIsTheSameOrder", func(t *testing.T) {
		t.Parallel()
		redis := ownRedis(t)
		b := apitest.New(t, apitest.Options{Redis: redis.addrs})
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		p.Order(t, 1, "k")
		redis.flush(t)
		b.Open(t, 2, p.Claims(t).Place)
		b.LoadStock(t)
		want(t, p.Order(t, 1, "k"), http.StatusAccepted, map[string]any{"order_id": string(id)})
		for _, c := range b.Log(t) {
			if c.OrderID != id {
				t.Fatal(c)
			}
		}
		// A pass of before the loss that has ended may have been used: nobody here can say.
		redis.flush(t)
		b.Open(t, 3, p.Claims(t).Place)
		p.Expired(t)
		before := b.Messages(t)
		a := p.Order(t, 1, "k")
		wantProblem(t, a, http.StatusServiceUnavailable, "outcome-unknown")
		wantLinked(t, a, id)
		wantMessages(t, b, before)
		wantWanted(t, b, p, true)
	})
}

// wantWanted fails unless exactly this person's order is asked for, with a deadline or as a look-up only.
func wantWanted(t *testing.T, b *apitest.Bundle, p *apitest.Person, deadline bool) {
	t.Helper()
	wanted, err := b.Statuses.TakeWanted(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(wanted) != 1 || wanted[0].OrderID != p.OrderID(t) || wanted[0].User != p.Hash() || wanted[0].Product != b.Product {
		t.Fatal(wanted)
	}
	end := p.Claims(t).ExpiresAt.UnixMilli() + b.Settings.OrderTTLMS
	if got := wanted[0].DeadlineMS; deadline && got != end || !deadline && got != 0 {
		t.Fatalf("deadline %d, the pass's end with the order's life is %d", got, end)
	}
}

// TestCrowd is stock at its edges and one person who clicks too often.
func TestCrowd(t *testing.T) {
	t.Parallel()

	run := func(t *testing.T, people []*apitest.Person) map[string]int {
		t.Helper()
		var mu sync.Mutex
		var wg sync.WaitGroup
		count := map[string]int{}
		gate := make(chan struct{}, 64)
		for _, p := range people {
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				a := p.Order(t, 1, "")
				mu.Lock()
				defer mu.Unlock()
				count[strconv.Itoa(a.Status)+" "+a.Problem()]++
			})
		}
		wg.Wait()
		return count
	}

	t.Run("OneUnitForAThousandAdmitted", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 1, Settings: func(s *product.Settings) { s.Oversub = 1000 }})
		people := make([]*apitest.Person, 1000)
		for i := range people {
			people[i] = b.Person(product.UserID("u" + strconv.Itoa(i)))
			people[i].Join(t)
		}
		for b.Admit(t, waitingroom.AdmitMax) > 0 {
		}
		for _, p := range people {
			p.Poll(t)
		}
		if diff := cmp.Diff(map[string]int{"202 ": 1, "409 sold-out": 999}, run(t, people)); diff != "" {
			t.Fatal(diff)
		}
		wantMessages(t, b, 1)
	})

	t.Run("NoUnitForAnybody", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 1, Settings: func(s *product.Settings) { s.Oversub = 10 }})
		p := b.Admitted(t, "a")
		b.Admitted(t, "b").Order(t, 1, "")
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		wantProblem(t, p.Order(t, 1, ""), http.StatusConflict, "sold-out")

		empty := apitest.New(t, apitest.Options{Stock: -1, Settings: func(s *product.Settings) { s.Oversub = 10 }})
		waiting := empty.Person("a")
		want(t, waiting.Join(t), http.StatusCreated, map[string]any{"status": "sold_out", "position": 1.0})
	})

	t.Run("OnePersonOrdersFiveHundredTimes", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 10})
		p := b.Admitted(t, "a")
		people := make([]*apitest.Person, 500)
		for i := range people {
			people[i] = p
		}
		if diff := cmp.Diff(map[string]int{"202 ": 500}, run(t, people)); diff != "" {
			t.Fatal(diff)
		}
		for _, c := range b.Log(t) {
			if c.OrderID != p.OrderID(t) {
				t.Fatal("another order", c)
			}
		}
		view, err := b.Room.View(t.Context(), b.Product)
		if err != nil || view.Held != 1 || view.InFlight != 1 {
			t.Fatal(view, err)
		}
	})
}
