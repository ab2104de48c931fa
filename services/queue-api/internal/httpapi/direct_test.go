package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
)

// turn turns the queue on or off.
func turn(t *testing.T, b *apitest.Bundle, on bool) {
	t.Helper()
	changeNext(t, b, func(s *waitingroom.LineSettings) { s.QueueOn = on })
}

// changeNext changes settings under the next version.
func changeNext(t *testing.T, b *apitest.Bundle, change func(*waitingroom.LineSettings)) {
	t.Helper()
	view, err := b.Room.View(t.Context(), b.Product)
	if err != nil {
		t.Fatal(err)
	}
	b.Change(t, view.SettingsV+1, change)
}

// withoutPass is the person without what they hold, as another device of theirs.
func withoutPass(b *apitest.Bundle, p *apitest.Person) *apitest.Person { return b.Person(p.User) }

// directID is the order of a person's key.
func directID(t *testing.T, b *apitest.Bundle, p *apitest.Person, key string) order.ID {
	t.Helper()
	return order.DeriveDirectID(b.Keys.Orders, b.Product, p.Hash(), key)
}

// Orders without a pass, while the queue is off (F16, F17).
func TestOrderWithoutAPass(t *testing.T) {
	t.Parallel()

	t.Run("TheKeyIsTheOrder", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		turn(t, b, false)
		p, other := b.Person("김 서연"), b.Person("이 서준")
		id := directID(t, b, p, "key 1")
		a := p.Order(t, 2, "key 1")
		want(t, a, http.StatusAccepted, map[string]any{"order_id": string(id), "status": "accepted", "quantity": 2.0, "known": true})
		if a.Header.Get("Location") != "/v1/orders/"+string(id) {
			t.Fatal(a.Header)
		}
		c := b.Log(t)[0]
		if c.OrderID != id || c.User != "김 서연" || c.Pass != "" || c.Place != 0 || !c.Direct() || time.UnixMilli(c.DeadlineMS).Before(time.Now()) {
			t.Fatalf("%+v", c)
		}
		if err := c.Verify(keyring.Ring{apitest.Command(t)}); err != nil {
			t.Fatal(err)
		}
		want(t, p.Order(t, 2, "key 1"), http.StatusAccepted, map[string]any{"order_id": string(id)})
		for _, again := range b.Log(t)[1:] {
			if again != c {
				t.Fatalf("not the stored bytes: %+v", again)
			}
		}
		before := b.Messages(t)
		a = p.Order(t, 1, "key 1")
		wantProblem(t, a, http.StatusConflict, "key-spent")
		wantLinked(t, a, id)
		wantMessages(t, b, before)
		// One at a time: the other order has no verdict yet.
		a = p.Order(t, 1, "key 2")
		wantProblem(t, a, http.StatusTooManyRequests, "order-pending")
		wantLinked(t, a, id)
		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "ordered", "order_id": string(id)})
		// Another person's same key is another order.
		want(t, other.Order(t, 2, "key 1"), http.StatusAccepted, map[string]any{"order_id": string(directID(t, b, other, "key 1"))})
		wantProblem(t, other.Read(t, id), http.StatusNotFound, "order-unknown")

		b.Judge(t, c, order.StateConfirmed, "", true)
		before = b.Messages(t)
		want(t, p.Order(t, 2, "key 1"), http.StatusOK, map[string]any{"order_id": string(id), "status": "confirmed"})
		wantProblem(t, p.Order(t, 1, "key 1"), http.StatusConflict, "key-spent")
		wantMessages(t, b, before)
		want(t, p.Order(t, 1, "key 2"), http.StatusAccepted, map[string]any{"order_id": string(directID(t, b, p, "key 2"))})
	})

	t.Run("WithoutAKey", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("a")
		wantProblem(t, p.Order(t, 1, ""), http.StatusUnauthorized, "pass-invalid") // the queue is on
		turn(t, b, false)
		apitest.Eventually(t, "the state that is a second old at most", func() bool {
			return p.Order(t, 1, "").Problem() == "idempotency-key-required"
		})
		a := p.Order(t, 1, "")
		wantProblem(t, a, http.StatusBadRequest, "idempotency-key-required")
		if a.Text("field") != "Idempotency-Key" {
			t.Fatal(a)
		}
		wantProblem(t, p.Order(t, 1, strings.Repeat("k", 129)), http.StatusUnprocessableEntity, "invalid-field")
		wantMessages(t, b, 0)
	})

	t.Run("OnOffOnWithRetriesOfBothKinds", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		holder, direct, late := b.Admitted(t, "holder"), b.Person("direct"), b.Person("late")
		waiting := b.Person("waiting")
		place := waiting.Join(t).Body["place"]
		a := direct.Order(t, 1, "k")
		wantProblem(t, a, http.StatusUnauthorized, "pass-invalid")
		wantLinked(t, a, directID(t, b, direct, "k"))
		bought := map[*apitest.Person]string{holder: string(holder.OrderID(t)), direct: string(directID(t, b, direct, "k"))}
		for n, on := range []bool{false, true, false} {
			turn(t, b, on)
			for p, id := range bought {
				want(t, p.Order(t, 1, "k"), http.StatusAccepted, map[string]any{"order_id": id})
			}
			if n == 0 {
				wantProblem(t, late.Join(t), http.StatusConflict, "queue-off")
				want(t, late.Poll(t), http.StatusOK, map[string]any{"status": "queue_off", "can_join": false})
				want(t, waiting.Join(t), http.StatusOK, map[string]any{"status": "queue_off", "place": place, "already_in_line": true})
			}
		}
		for _, c := range b.Log(t) {
			if string(c.OrderID) != bought[holder] && string(c.OrderID) != bought[direct] {
				t.Fatalf("a third order: %+v", c)
			}
		}
		// A key that bought with a pass buys nothing without it: the order in flight is the answer.
		a = withoutPass(b, holder).Order(t, 1, "k")
		wantProblem(t, a, http.StatusTooManyRequests, "order-pending")
		wantLinked(t, a, order.ID(bought[holder]))
		turn(t, b, true)
		want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "place": place, "position": 1.0})
		b.Admit(t, 10)
		want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
	})

	t.Run("WhoWaitsOrHoldsAPassAndOrdersDirectly", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		holder, waiting := b.Admitted(t, "holder"), b.Person("waiting")
		waiting.Join(t)
		turn(t, b, false)
		for _, p := range []*apitest.Person{holder, waiting} {
			id := string(directID(t, b, p, "k"))
			want(t, withoutPass(b, p).Order(t, 1, "k"), http.StatusAccepted, map[string]any{"order_id": id})
			want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "ordered", "order_id": id})
		}
		before := b.Messages(t)
		a := holder.Order(t, 1, "k") // with the pass, whose place went into the order
		wantProblem(t, a, http.StatusForbidden, "lapsed")
		wantLinked(t, a, holder.OrderID(t))
		wantMessages(t, b, before)
		view, err := b.Room.View(t.Context(), b.Product)
		if err != nil || view.Waiting != 0 || view.Active != 0 || view.Held != 2 {
			t.Fatal(view, err)
		}
	})

	t.Run("RefusedAsWithAPass", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Stock: 3, Settings: func(s *product.Settings) { s.QueueOn = false }})
		p := b.Person("a")
		banned := b.Person("banned")
		ban(t, b, banned)
		wantProblem(t, banned.Order(t, 1, "k"), http.StatusForbidden, "revoked")
		wantProblem(t, p.Order(t, 4, "k"), http.StatusConflict, "sold-out")
		for _, step := range []struct {
			change  func(*waitingroom.LineSettings)
			status  int
			problem string
		}{
			{func(s *waitingroom.LineSettings) { s.OrdersHalted = true }, http.StatusServiceUnavailable, "orders-halted"},
			{func(s *waitingroom.LineSettings) { s.State = product.Closed }, http.StatusConflict, "closed"},
			{func(s *waitingroom.LineSettings) { s.State = product.NotOpen }, http.StatusConflict, "not-open"},
		} {
			changeNext(t, b, step.change)
			a := p.Order(t, 1, "k")
			wantProblem(t, a, step.status, step.problem)
			wantLinked(t, a, directID(t, b, p, "k"))
		}
		wantMessages(t, b, 0)
	})

	t.Run("ManyInFlightAreBusy", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.QueueOn, s.InflightMax = false, 2 }})
		for i := range 2 {
			want(t, b.Person(product.UserID(fmt.Sprint("u", i))).Order(t, 1, "k"), http.StatusAccepted, nil)
		}
		a := b.Person("u2").Order(t, 1, "k")
		wantProblem(t, a, http.StatusServiceUnavailable, "busy")
		if a.Header.Get("Retry-After") == "" {
			t.Fatal(a.Header)
		}
	})

	t.Run("RedisEmptiedBetweenTwoTries", func(t *testing.T) {
		t.Parallel()
		redis := ownRedis(t)
		b := apitest.New(t, apitest.Options{Redis: redis.addrs, Settings: func(s *product.Settings) { s.QueueOn = false }})
		p := b.Person("a")
		id := directID(t, b, p, "k")
		want(t, p.Order(t, 1, "k"), http.StatusAccepted, map[string]any{"order_id": string(id)})
		redis.flush(t)
		if err := b.Room.PutCatalogue(t.Context(), []product.ID{b.Product}); err != nil {
			t.Fatal(err)
		}
		b.Open(t, 2, 0)
		wantProblem(t, p.Read(t, id), http.StatusNotFound, "order-unknown")
		// The key proves whose it is, as a pass or a ticket does.
		header := p.Header()
		header["Idempotency-Key"] = "k"
		read := func(product string) apitest.Answer {
			return b.Do(t, apitest.Call{Method: http.MethodGet, Path: "/v1/orders/" + string(id) + "?product=" + product, Header: header})
		}
		want(t, read(string(b.Product)), http.StatusOK, map[string]any{"status": "pending", "known": false})
		wantProblem(t, read("unopened"), http.StatusNotFound, "order-unknown")
		wantProblem(t, read("a%20b"), http.StatusBadRequest, "malformed-request")
		b.LoadStock(t)
		want(t, p.Order(t, 1, "k"), http.StatusAccepted, map[string]any{"order_id": string(id)})
		ids := map[order.ID]bool{}
		for _, c := range b.Log(t) {
			ids[c.OrderID] = true
		}
		if len(ids) != 1 || !ids[id] {
			t.Fatal(ids)
		}
	})

	t.Run("AStatusOutlivesTheQueue", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Person("a")
		id := directID(t, b, p, "k")
		status := order.Status{Product: b.Product, User: p.Hash(), Quantity: 1, Digest: order.Digest(1, "k"), State: order.StatePending}
		put := func(version int, state order.State) {
			t.Helper()
			status.Version, status.State = version, state
			if _, err := b.Statuses.Put(t.Context(), id, status); err != nil {
				t.Fatal(err)
			}
		}
		// Bound with an unknown outcome while the queue was off; then the line was lost, and the queue is on: it gets a verdict of the books.
		put(order.VersionPending, order.StatePending)
		want(t, p.Order(t, 1, "k"), http.StatusAccepted, map[string]any{"order_id": string(id), "status": "pending"})
		wanted, err := b.Statuses.TakeWanted(t.Context(), 10)
		if err != nil || len(wanted) != 1 || wanted[0].OrderID != id || wanted[0].DeadlineMS <= time.Now().UnixMilli() {
			t.Fatal(wanted, err)
		}
		put(order.VersionVerdict, order.StateConfirmed)
		want(t, p.Order(t, 1, "k"), http.StatusOK, map[string]any{"status": "confirmed"})
		wantProblem(t, p.Order(t, 2, "k"), http.StatusConflict, "key-spent")
		wantMessages(t, b, 0)
	})
}
