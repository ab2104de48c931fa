package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/apitest"
)

// TestLineFull: newcomers come later, and whoever has a place already is none: by name, by ticket, and by a ticket of a line that Redis has
// forgotten and others have filled again.
func TestLineFull(t *testing.T) {
	t.Parallel()
	const most = 3
	redis := ownRedis(t)
	b := apitest.New(t, apitest.Options{Redis: redis.addrs, Settings: func(s *product.Settings) { s.MaxLen = most }})
	full := func() {
		t.Helper()
		late := b.Person("late")
		for range 2 {
			a := late.Join(t)
			wantProblem(t, a, http.StatusServiceUnavailable, "line-full")
			if a.Header.Get("Retry-After") != "5" {
				t.Fatal(a.Header)
			}
		}
		want(t, late.Poll(t), http.StatusOK, map[string]any{"status": "not_in_line", "place": nil, "total": float64(most)})
	}
	people := queue(t, b, most)
	places := make([]any, most)
	for i, p := range people {
		a := p.Join(t)
		want(t, a, http.StatusOK, map[string]any{"already_in_line": true, "position": float64(i + 1)})
		places[i] = a.Body["place"]
		want(t, b.Person(p.User).Join(t), http.StatusOK, map[string]any{"place": places[i]}) // without the ticket
	}
	full()
	// Whoever goes makes room for one.
	people[2].Leave(t)
	want(t, people[2].Join(t), http.StatusCreated, map[string]any{"position": 3.0})
	full()

	redis.flush(t)
	b.Open(t, 2, 0)
	b.LoadStock(t)
	for _, user := range []product.UserID{"x", "y", "z"} {
		want(t, b.Person(user).Join(t), http.StatusCreated, nil)
	}
	wantProblem(t, b.Person(people[0].User).Join(t), http.StatusServiceUnavailable, "line-full") // nothing says that there was a place
	want(t, people[0].Join(t), http.StatusOK, map[string]any{"already_in_line": true, "place": places[0], "position": 1.0, "total": 4.0})
	want(t, people[1].Poll(t), http.StatusOK, map[string]any{"status": "waiting", "place": places[1], "position": 2.0})
	want(t, b.Person("z").Poll(t), http.StatusOK, map[string]any{"position": 5.0})
}

// TestPlacesFollowArrival whatever people are called: an id moves nobody, not its own place and not another's whose hash it spells.
func TestPlacesFollowArrival(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{})
	first := b.Person("victim")
	victim := first.Join(t).Body["place"]
	ids := []product.UserID{
		"~", "0", "-1", "1", "!", "victim ", "Victim", "VICTIM", "victim|1|", "victim/../", product.UserID(first.Hash()), product.UserID("0x" + string(first.Hash())),
		product.UserID(strings.Repeat("a", 256)), "김 서연", "+1", "-inf", "inf", "nan", "1e308", "none", "waiting",
	}
	last := victim.(float64)
	for i, id := range ids {
		a := b.Person(id).Join(t)
		want(t, a, http.StatusCreated, map[string]any{"position": float64(i + 2), "ahead": float64(i + 1), "total": float64(i + 2)})
		if place := a.Body["place"].(float64); place <= last {
			t.Fatalf("%q has place %.0f behind %.0f", id, place, last)
		} else {
			last = place
		}
	}
	for i, id := range ids {
		want(t, b.Person(id).Poll(t), http.StatusOK, map[string]any{"status": "waiting", "position": float64(i + 2)})
	}
	want(t, first.Poll(t), http.StatusOK, map[string]any{"place": victim, "position": 1.0})
}
