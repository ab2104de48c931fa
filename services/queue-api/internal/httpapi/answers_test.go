package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
)

// served is a product behind a server on a socket.
func served(t *testing.T, change func(*product.Settings)) *apitest.Bundle {
	t.Helper()
	return apitest.New(t, apitest.Options{Served: true, Settings: change})
}

// atOnce makes n calls that begin together, and returns their answers in the order of the calls.
func atOnce(n int, call func(i int) apitest.Answer) []apitest.Answer {
	answers := make([]apitest.Answer, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			answers[i] = call(i)
		})
	}
	close(gate)
	wg.Wait()
	return answers
}

// TestAnswers is the table of what an order with a pass is answered (docs/joint.md, 2.3), over HTTP: what others may do with somebody's pass
// and ticket, and what becomes of a pass whose time, place or line is gone. The lines about judged orders, lost statuses and a lost line are in
// TestOrder.
func TestAnswers(t *testing.T) {
	t.Parallel()

	// Cases 24 and 30: one pass in two sessions buys one order, and the other session is told which.
	t.Run("TwoTabsWithDifferentQuantities", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		answers := atOnce(20, func(i int) apitest.Answer { return p.Order(t, 1+i%2, "") })
		won := 0
		for _, a := range answers {
			if a.Status == http.StatusAccepted {
				won = int(a.Body["quantity"].(float64))
			}
		}
		for i, a := range answers {
			if 1+i%2 == won {
				want(t, a, http.StatusAccepted, map[string]any{"order_id": string(id), "quantity": float64(won)})
				continue
			}
			wantProblem(t, a, http.StatusConflict, "pass-spent")
			wantLinked(t, a, id)
		}
		for _, c := range b.Log(t) {
			if c.OrderID != id || c.Quantity != won {
				t.Fatalf("%+v, the order is of %d", c, won)
			}
		}
		view, err := b.Room.View(t.Context(), b.Product)
		if err != nil || view.Held != int64(won) || view.InFlight != 1 {
			t.Fatal(view, err)
		}
	})

	t.Run("TheSameSubmitAHundredTimesAtOnce", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		for _, a := range atOnce(100, func(int) apitest.Answer { return p.Order(t, 2, "key") }) {
			want(t, a, http.StatusAccepted, map[string]any{"order_id": string(id), "quantity": 2.0})
			if a.Header.Get("Location") != "/v1/orders/"+string(id) {
				t.Fatal(a.Header)
			}
		}
		sent := b.Log(t)
		for _, c := range sent {
			if diff := cmp.Diff(sent[0], c); diff != "" || c.OrderID != id {
				t.Fatalf("no copy of the first: %s", diff)
			}
		}
		view, err := b.Room.View(t.Context(), b.Product)
		if err != nil || view.Held != 2 || view.InFlight != 1 {
			t.Fatal(view, err)
		}
		// Case 26: judged, the pass opens nothing more, whatever is asked with it.
		b.Judge(t, sent[0], order.StateConfirmed, "", true)
		before := b.Messages(t)
		for i, a := range atOnce(100, func(i int) apitest.Answer { return p.Order(t, 1+i%2, "key") }) {
			if i%2 == 1 {
				want(t, a, http.StatusOK, map[string]any{"order_id": string(id), "status": "confirmed"})
				continue
			}
			wantProblem(t, a, http.StatusConflict, "pass-spent")
			wantLinked(t, a, id)
		}
		wantMessages(t, b, before)
	})

	t.Run("AForeignTicketOrPass", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		owner, thief := b.Admitted(t, "owner"), b.Admitted(t, "thief")
		own := *thief
		thief.Ticket, thief.Pass = owner.Ticket, owner.Pass
		wantProblem(t, thief.Order(t, 1, ""), http.StatusForbidden, "pass-foreign")
		wantProblem(t, thief.Poll(t), http.StatusForbidden, "ticket-foreign")
		wantProblem(t, thief.Leave(t), http.StatusForbidden, "ticket-foreign")
		mixed := own
		mixed.Pass = owner.Pass // the own ticket does not help
		wantProblem(t, mixed.Order(t, 1, ""), http.StatusForbidden, "pass-foreign")
		wantMessages(t, b, 0)
		want(t, owner.Order(t, 1, ""), http.StatusAccepted, map[string]any{"order_id": string(owner.OrderID(t))})
		want(t, own.Order(t, 1, ""), http.StatusAccepted, map[string]any{"order_id": string(own.OrderID(t))})
	})

	// F28: whoever has the ticket and not the identity reads nothing, orders nothing and ends nothing.
	t.Run("ALeakedTicketWithoutTheIdentity", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		waiting, admitted := b.Person("김 서연"), b.Admitted(t, "b")
		place := waiting.Join(t).Body["place"]
		for _, victim := range []*apitest.Person{waiting, admitted} {
			for _, c := range []struct{ method, path string }{
				{http.MethodGet, "/queue"}, {http.MethodPost, "/queue"}, {http.MethodDelete, "/queue"}, {http.MethodPost, "/queue/leave"}, {http.MethodPost, "/orders"},
			} {
				for user, typ := range map[string]string{"": "identity-invalid", "thief": "ticket-foreign"} {
					header := map[string]string{"Hanjul-Ticket": victim.Ticket}
					if user != "" {
						header["Hanjul-User"] = user
					}
					a := b.Do(t, apitest.Call{Method: c.method, Path: "/v1/products/shoe" + c.path, Body: `{"quantity":1}`, Header: header})
					if c.path == "/orders" && user != "" {
						typ = "pass-invalid" // a ticket is no pass
					}
					if a.Problem() != typ || a.Text("pass") != "" || a.Text("ticket") != "" {
						t.Fatal(c, user, a)
					}
				}
			}
		}
		// The ticket shows neither the name nor anything that it could be guessed from without the key.
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(waiting.Ticket, ".")[0])
		if err == nil && strings.Contains(string(raw), "김") {
			t.Fatalf("%q", raw)
		}
		want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "waiting", "place": place})
		want(t, admitted.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
		wantMessages(t, b, 0)
	})

	// Case 25: the order is where the pass is looked at, whatever the page believes.
	t.Run("NoMalformedOrForgedPass", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		p, other := b.Admitted(t, "a"), b.Admitted(t, "b")
		genuine := p.Pass
		parts := strings.Split(genuine, ".")
		code := func(v any) string {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return base64.RawURLEncoding.EncodeToString(raw)
		}
		rest := "." + parts[1] + "." + parts[2]
		for name, pass := range map[string]string{
			"None": "", "NoJWT": "a", "TwoParts": parts[0] + "." + parts[1], "FourParts": genuine + ".x", "NoSignature": parts[0] + "." + parts[1] + ".",
			"AlgorithmNone": code(map[string]string{"alg": "none", "typ": "JWT", "kid": "pass"}) + "." + parts[1] + ".", "AnotherAlgorithm": code(map[string]string{"alg": "HS256", "typ": "JWT", "kid": "pass"}) + rest,
			"AnUnknownKey": code(map[string]string{"alg": "EdDSA", "typ": "JWT", "kid": "mine"}) + rest, "OtherClaims": parts[0] + "." + strings.Split(other.Pass, ".")[1] + "." + parts[2],
			"AnotherSignature": parts[0] + "." + parts[1] + "." + strings.Split(other.Pass, ".")[2], "ATicket": p.Ticket,
		} {
			p.Pass = pass
			a := p.Order(t, 1, "")
			if a.Status != http.StatusUnauthorized || a.Problem() != "pass-invalid" || a.Text("order_id") != "" {
				t.Error(name, a)
			}
		}
		wantMessages(t, b, 0)
		p.Pass = genuine
		want(t, p.Order(t, 1, ""), http.StatusAccepted, nil)
	})

	t.Run("LapsedNeverUsedMayJoinAgainAtTheEnd", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		p := b.Admitted(t, "a")
		place, first := p.Claims(t).Place, p.OrderID(t)
		b.Expire(t, p)
		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "lapsed", "can_join": true, "pass": nil})
		a := p.Order(t, 1, "")
		wantProblem(t, a, http.StatusForbidden, "lapsed")
		wantLinked(t, a, first)
		last := b.Person("b").Join(t).Body["place"].(float64)
		again := p.Join(t)
		want(t, again, http.StatusCreated, map[string]any{"already_in_line": false, "position": 2.0})
		if now := again.Body["place"].(float64); now <= float64(place) || now <= last {
			t.Fatal(place, last, now)
		}
		wantProblem(t, p.Order(t, 1, ""), http.StatusForbidden, "lapsed") // the old pass stays what it is
		wantMessages(t, b, 0)
	})

	t.Run("Left", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		p := b.Admitted(t, "a")
		want(t, p.Leave(t), http.StatusOK, map[string]any{"status": "left"})
		a := p.Order(t, 1, "")
		wantProblem(t, a, http.StatusConflict, "left")
		wantLinked(t, a, p.OrderID(t))
		wantMessages(t, b, 0)
	})

	// U10: from waiting and with a pass in hand; until the ban is over, and not longer.
	t.Run("AnEvictedUser", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		admitted, waiting := b.Admitted(t, "a"), b.Person("w")
		place := waiting.Join(t).Body["place"].(float64)
		for _, p := range []*apitest.Person{admitted, waiting} {
			ban(t, b, p)
			want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "evicted", "can_join": false, "pass": nil, "position": nil})
			wantProblem(t, p.Join(t), http.StatusForbidden, "revoked")
			other := b.Person(p.User) // without the ticket, at another device
			want(t, other.Poll(t), http.StatusOK, map[string]any{"status": "evicted"})
			wantProblem(t, other.Join(t), http.StatusForbidden, "revoked")
		}
		a := admitted.Order(t, 1, "")
		wantProblem(t, a, http.StatusForbidden, "revoked")
		wantLinked(t, a, admitted.OrderID(t))
		never := b.Person("never here")
		ban(t, b, never)
		want(t, never.Poll(t), http.StatusOK, map[string]any{"status": "evicted", "place": nil})

		b.Evict(t, waiting, time.UnixMilli(0))
		want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "lapsed", "can_join": true})
		again := waiting.Join(t)
		want(t, again, http.StatusCreated, nil)
		if again.Body["place"].(float64) <= place {
			t.Fatal(place, again)
		}
		wantMessages(t, b, 0)
	})

	t.Run("AnEvictedUserWhoHadOrdered", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		p := b.Admitted(t, "a")
		id := string(p.OrderID(t))
		p.Order(t, 1, "")
		ban(t, b, p)
		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "ordered", "order_id": id})
		want(t, p.Order(t, 1, ""), http.StatusAccepted, map[string]any{"order_id": id})
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		want(t, p.Order(t, 1, ""), http.StatusOK, map[string]any{"order_id": id, "status": "confirmed"})
		want(t, p.Read(t, order.ID(id)), http.StatusOK, map[string]any{"status": "confirmed"})
		wantProblem(t, p.Join(t), http.StatusForbidden, "revoked")
	})

	// All passes of a line: nobody loses the turn, and the next poll brings a pass for the same order.
	t.Run("ARevokedLine", func(t *testing.T) {
		t.Parallel()
		b := served(t, nil)
		ordered, p := b.Admitted(t, "o"), b.Admitted(t, "a")
		ordered.Order(t, 1, "")
		sent := b.Messages(t)
		id, old := p.OrderID(t), *p
		before := p.Claims(t)
		b.Change(t, 10, func(s *waitingroom.LineSettings) { s.PassEpoch = 7 })
		a := p.Order(t, 1, "")
		wantProblem(t, a, http.StatusForbidden, "revoked")
		wantLinked(t, a, id)
		want(t, ordered.Order(t, 1, ""), http.StatusAccepted, map[string]any{"order_id": string(ordered.OrderID(t))}) // what was sent stays
		wantMessages(t, b, sent+1)

		want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
		after := p.Claims(t)
		if after.Epoch != 7 || after.OrderID != id || after.Place != before.Place || !after.ExpiresAt.Equal(before.ExpiresAt) {
			t.Fatalf("%+v\n%+v", before, after)
		}
		wantProblem(t, old.Order(t, 1, ""), http.StatusForbidden, "revoked")
		want(t, p.Order(t, 1, ""), http.StatusAccepted, map[string]any{"order_id": string(id)})
	})

	t.Run("SoldOutBeforeBind", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Served: true, Stock: 3, Settings: func(s *product.Settings) { s.Oversub = 10 }})
		first, second := b.Admitted(t, "a"), b.Admitted(t, "b")
		first.Order(t, 2, "")
		before := b.Messages(t)
		a := second.Order(t, 2, "")
		wantProblem(t, a, http.StatusConflict, "sold-out")
		wantLinked(t, a, second.OrderID(t))
		wantMessages(t, b, before)
		want(t, second.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
		want(t, second.Order(t, 1, "another"), http.StatusAccepted, map[string]any{"order_id": string(second.OrderID(t)), "quantity": 1.0})
	})
}
