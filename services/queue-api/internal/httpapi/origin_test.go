package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
)

const shop = "https://shop.example"

// browser sends a call with what a browser adds, and returns the head of the answer.
func browser(t *testing.T, b *apitest.Bundle, method, path string, header map[string]string) (int, http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	b.Handler.ServeHTTP(w, r)
	return w.Code, w.Header()
}

// withOrigin gives a page's call its origin, beside the person's headers.
func withOrigin(p *apitest.Person, more ...string) map[string]string {
	header := p.Header()
	for i := 0; i < len(more); i += 2 {
		header[more[i]] = more[i+1]
	}
	return header
}

// TestOrigins is what pages may do on behalf of whoever looks at them (F30).
func TestOrigins(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) {
		var err error
		if c.Origins, err = httpapi.NewOrigins([]string{shop, "http://localhost:3000"}); err != nil {
			t.Fatal(err)
		}
	}})
	const line = "/v1/products/shoe/queue"

	// A foreign page changes nothing, whatever it knows: no join, no leave, no order. Nobody is put in line or out of it.
	p := b.Admitted(t, "a")
	for _, header := range [][]string{
		{"Origin", "https://evil.example"},
		{"Origin", "null"},
		{"Origin", "https://shop.example.evil.example"},
		{"Origin", "http://shop.example"},
		{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://x.shop.example", "Sec-Fetch-Site", "same-site"},
		{"Sec-Fetch-Site", "cross-site"},
	} {
		for path, method := range map[string]string{
			line: http.MethodPost, line + "/leave": http.MethodPost, line + "?": http.MethodDelete, "/v1/products/shoe/orders": http.MethodPost,
		} {
			a := b.Do(t, apitest.Call{Method: method, Path: path, Body: `{"quantity":1}`, Header: withOrigin(p, header...)})
			wantProblem(t, a, http.StatusForbidden, "origin-refused")
			if a.Text("field") != "Origin" || a.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Fatal(header, a, a.Header)
			}
		}
	}
	want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
	wantMessages(t, b, 0)

	// What it may send, it cannot read.
	if status, h := browser(t, b, http.MethodGet, line, withOrigin(p, "Origin", "https://evil.example")); status != http.StatusOK || h.Get("Access-Control-Allow-Origin") != "" {
		t.Fatal(status, h)
	}

	// Listed pages, pages of the surface's own origin, and programs may.
	for name, header := range map[string][]string{
		"Listed": {"Origin", shop, "Sec-Fetch-Site", "cross-site"}, "ListedByAnOldBrowser": {"Origin", "http://localhost:3000"},
		"OwnOrigin": {"Origin", "http://example.com"}, "OwnOriginBehindAProxy": {"Origin", "https://tickets.example", "Sec-Fetch-Site", "same-origin"}, "Program": {},
	} {
		header := withOrigin(b.Person("b"), header...)
		if got := b.Do(t, apitest.Call{Method: http.MethodPost, Path: line, Header: header}); got.Status/100 != 2 {
			t.Fatal(name, got)
		}
	}
	a := b.Do(t, apitest.Call{Method: http.MethodPost, Path: line, Header: withOrigin(b.Person("c"), "Origin", shop)})
	if a.Header.Get("Access-Control-Allow-Origin") != shop || a.Header.Get("Vary") != "Origin" || a.Header.Get("Access-Control-Allow-Credentials") != "" ||
		!strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "Location") || !strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "Retry-After") {
		t.Fatal(a.Header)
	}
	// Refusals can be read, too.
	a = b.Do(t, apitest.Call{Method: http.MethodPost, Path: "/v1/products/nothing/queue", Header: withOrigin(b.Person("c"), "Origin", shop)})
	wantProblem(t, a, http.StatusNotFound, "unknown-product")
	if a.Header.Get("Access-Control-Allow-Origin") != shop {
		t.Fatal(a.Header)
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Surface: func(c *httpapi.Config) {
		var err error
		if c.Origins, err = httpapi.NewOrigins([]string{shop}); err != nil {
			t.Fatal(err)
		}
	}})
	ask := func(origin string) (int, http.Header) {
		t.Helper()
		return browser(t, b, http.MethodOptions, "/v1/products/shoe/orders", map[string]string{
			"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,hanjul-pass,hanjul-user",
		})
	}
	status, h := ask(shop)
	if status != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != shop || h.Get("Vary") != "Origin" || h.Get("Access-Control-Max-Age") != "7200" {
		t.Fatal(status, h)
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if !strings.Contains(h.Get("Access-Control-Allow-Methods"), method) {
			t.Error(method, h)
		}
	}
	for _, header := range []string{"Content-Type", "Hanjul-User", "Hanjul-Ticket", "Hanjul-Pass", "Idempotency-Key", "Last-Event-ID", "Traceparent"} {
		if !strings.Contains(h.Get("Access-Control-Allow-Headers"), header) {
			t.Error(header, h)
		}
	}
	if status, h := ask("https://evil.example"); status != http.StatusForbidden || h.Get("Access-Control-Allow-Origin") != "" {
		t.Fatal(status, h)
	}
	// An OPTIONS that no page asks is a method that no path has.
	wantProblem(t, b.Do(t, apitest.Call{Method: http.MethodOptions, Path: "/v1/products/shoe/orders"}), http.StatusMethodNotAllowed, "method-not-allowed")
}

// Where no origin is listed, pages of others may read what is public and nothing else.
func TestNoOrigins(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{})
	wantProblem(t, b.Do(t, apitest.Call{Method: http.MethodPost, Path: "/v1/products/shoe/queue", Header: withOrigin(b.Person("a"), "Origin", shop)}),
		http.StatusForbidden, "origin-refused")
	for path, kept := range map[string]string{"/v1/products/shoe": "public, max-age=1", "/.well-known/jwks.json": "public, max-age=300"} {
		a := b.Do(t, apitest.Call{Method: http.MethodGet, Path: path, Header: map[string]string{"Origin": shop}})
		if a.Status != http.StatusOK || a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Vary") != "" || a.Header.Get("Cache-Control") != kept {
			t.Fatal(path, a, a.Header)
		}
	}
	for _, wrong := range []string{
		"shop.example", "https://", "https://shop.example/", "https://shop.example?x", "https://Shop.example", "https://shop.example:443", "http://shop.example:80", "*", "null", "ftp://shop.example",
	} {
		if _, err := httpapi.NewOrigins([]string{shop, wrong}); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
