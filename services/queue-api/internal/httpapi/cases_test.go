package httpapi_test

import (
	"net/http"
	"strconv"
	"testing"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
)

// TestCases are faults that other waiting rooms had with passes, tickets and paths, by the numbers under which we keep them. 24 to 26 and 30 are
// in TestAnswers, 9 in TestPublishedKeys, browsers in TestOrigins.
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
}
