package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
)

// checked asks as a gateway does, for a user with a pass; an empty one is not sent.
func checked(t *testing.T, b *apitest.Bundle, user product.UserID, text, query string) apitest.Answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/pass"+query, nil)
	r.Header.Set("Hanjul-User", url.PathEscape(string(user)))
	if text != "" {
		r.Header.Set("Hanjul-Pass", text)
	}
	w := httptest.NewRecorder()
	b.Handler.ServeHTTP(w, r)
	a := apitest.Answer{Status: w.Code, Header: w.Header()}
	if w.Code == http.StatusNoContent {
		if w.Body.Len() > 0 {
			t.Fatal("a body: ", w.Body)
		}
		return a
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a.Body); err != nil {
		t.Fatal(a.Status, w.Body, err)
	}
	return a
}

// changed signs a genuine pass that says something else than the person's.
func changed(t *testing.T, b *apitest.Bundle, p *apitest.Person, change func(*pass.Pass)) string {
	t.Helper()
	says := p.Claims(t)
	change(&says)
	text, err := b.Keys.Passes.Sign(says)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestAGatewayAsksAboutPasses (forward-auth): 204 for whoever may pass, 401 with the reason for whoever may not.
func TestAGatewayAsksAboutPasses(t *testing.T) {
	t.Parallel()
	const shoe = "?product=shoe"
	ended := func(says *pass.Pass) { says.ExpiresAt = time.Now().Add(-time.Second) }
	wantRefused := func(t *testing.T, a apitest.Answer, detail string) {
		t.Helper()
		wantProblem(t, a, http.StatusUnauthorized, "pass-invalid")
		if !strings.Contains(a.Text("detail"), detail) || a.Header.Get("Cache-Control") != "no-store" {
			t.Fatal(a, a.Header)
		}
	}
	wantThrough := func(t *testing.T, a apitest.Answer) {
		t.Helper()
		if a.Status != http.StatusNoContent || a.Header.Get("Cache-Control") != "no-store" {
			t.Fatal(a, a.Header)
		}
	}

	t.Run("OfOnePerson", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "김 서연")
		wantThrough(t, checked(t, b, p.User, p.Pass, shoe))
		wantRefused(t, checked(t, b, p.User, "", shoe), "once, with a value")
		wantRefused(t, checked(t, b, p.User, p.Pass[:len(p.Pass)-4]+"AAAA", shoe), "pass of an admission")
		wantRefused(t, checked(t, b, "b", p.Pass, shoe), "this person's")
		wantRefused(t, checked(t, b, p.User, changed(t, b, p, func(says *pass.Pass) { says.Product = "hat" }), shoe), "this product")
		wantProblem(t, checked(t, b, "", p.Pass, shoe), http.StatusUnauthorized, "identity-invalid")
		wantProblem(t, checked(t, b, p.User, p.Pass, ""), http.StatusBadRequest, "malformed-request")
		wantProblem(t, checked(t, b, p.User, p.Pass, "?product=hat"), http.StatusNotFound, "unknown-product")

		// Used, it opens the shop until its end.
		want(t, p.Order(t, 1, ""), http.StatusAccepted, nil)
		wantThrough(t, checked(t, b, p.User, p.Pass, shoe))
		wantRefused(t, checked(t, b, p.User, changed(t, b, p, ended), shoe), "not ended")
	})

	// The lease decides: its time stands still in an outage of ours.
	t.Run("AnEndIsAHint", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		late := changed(t, b, p, ended)
		wantThrough(t, checked(t, b, p.User, late, shoe))
		wantRefused(t, checked(t, b, p.User, changed(t, b, p, func(says *pass.Pass) { ended(says); says.Place++ }), shoe), "not ended")
		b.Expire(t, p)
		wantRefused(t, checked(t, b, p.User, late, shoe), "not ended")
	})

	t.Run("OfARevokedLine", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		old := p.Pass
		changeNext(t, b, func(s *waitingroom.LineSettings) { s.PassEpoch = 7 })
		apitest.Eventually(t, "the old pass refused", func() bool { return checked(t, b, p.User, old, shoe).Status == http.StatusUnauthorized })
		wantRefused(t, checked(t, b, p.User, old, shoe), "not revoked")
		want(t, p.Poll(t), http.StatusOK, nil)
		wantThrough(t, checked(t, b, p.User, p.Pass, shoe))
	})

	t.Run("WithTheQueueOff", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.QueueOn = false }})
		wantThrough(t, checked(t, b, "a", "", shoe))
		wantProblem(t, checked(t, b, "", "", shoe), http.StatusUnauthorized, "identity-invalid")
	})

	// Handed out while Redis was away (F39).
	t.Run("OfNoPlace", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		placeless := func(says *pass.Pass) { says.Place, says.Nonce = 0, strings.Repeat("n", 22) }
		wantThrough(t, checked(t, b, p.User, changed(t, b, p, placeless), shoe))
		wantRefused(t, checked(t, b, p.User, changed(t, b, p, func(says *pass.Pass) { placeless(says); ended(says) }), shoe), "not ended")
	})

	t.Run("WithRedisAway", func(t *testing.T) {
		t.Parallel()
		redis := ownRedis(t)
		b := apitest.New(t, apitest.Options{Redis: redis.addrs, Timeout: 200 * time.Millisecond})
		p := b.Admitted(t, "a")
		if err := redis.pause(); err != nil {
			t.Fatal(err)
		}
		wantThrough(t, checked(t, b, p.User, p.Pass, shoe))
		wantRefused(t, checked(t, b, "b", p.Pass, shoe), "this person's")
		a := checked(t, b, p.User, changed(t, b, p, ended), shoe)
		if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Fatal(a, a.Header)
		}
	})
}
