package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// Answer is what the surface said.
type Answer struct {
	Status int
	Header http.Header
	Body   map[string]any
}

// Text is a member of the answer, "" where it is null or missing.
func (a Answer) Text(member string) string {
	text, _ := a.Body[member].(string)
	return text
}

// Problem is the problem type of an answer, "" for others.
func (a Answer) Problem() string {
	if a.Header.Get("Content-Type") != "application/problem+json" {
		return ""
	}
	return a.Text("type")
}

// String shows an answer in a failed test.
func (a Answer) String() string { return fmt.Sprint(a.Status, " ", a.Body) }

// Call is one request as a test writes it.
type Call struct {
	Method, Path, Body string
	Header             map[string]string // set as they are; an empty value is sent empty
}

// Do makes the call. The body's type is JSON unless the call says otherwise.
func (b *Bundle) Do(t testing.TB, c Call) Answer {
	t.Helper()
	var body io.Reader
	if c.Body != "" {
		body = strings.NewReader(c.Body)
	}
	r, err := http.NewRequestWithContext(t.Context(), c.Method, b.Base+c.Path, body)
	check(t, err)
	if b.Base == "" {
		r = httptest.NewRequestWithContext(t.Context(), c.Method, c.Path, body)
	}
	if c.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.Header {
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	a, text := b.send(t, r)
	if err := json.Unmarshal(text, &a.Body); err != nil {
		t.Fatalf("%s %s: %d %q: %v", c.Method, c.Path, a.Status, text, err)
	}
	return a
}

// send gives the request to the server, or to the handler where there is none.
func (b *Bundle) send(t testing.TB, r *http.Request) (Answer, []byte) {
	t.Helper()
	if b.Base == "" {
		w := httptest.NewRecorder()
		b.Handler.ServeHTTP(w, r)
		return Answer{Status: w.Code, Header: w.Header()}, w.Body.Bytes()
	}
	response, err := http.DefaultClient.Do(r)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	check(t, err)
	return Answer{Status: response.StatusCode, Header: response.Header}, text
}

// Person is somebody with what they hold.
type Person struct {
	b      *Bundle
	User   product.UserID
	Ticket string
	Pass   string
}

// Person is somebody new.
func (b *Bundle) Person(user product.UserID) *Person { return &Person{b: b, User: user} }

// Hash is what Redis knows of the person.
func (p *Person) Hash() product.UserHash { return product.HashUser(p.b.Keys.Users, p.User) }

// Header are the person's headers; empty things are not sent.
func (p *Person) Header() map[string]string {
	header := map[string]string{"Hanjul-User": url.PathEscape(string(p.User))}
	if p.Ticket != "" {
		header["Hanjul-Ticket"] = p.Ticket
	}
	if p.Pass != "" {
		header["Hanjul-Pass"] = p.Pass
	}
	return header
}

// Do makes a call about the product's line as the person, and keeps ticket and pass of the answer.
func (p *Person) Do(t testing.TB, method, path string) Answer {
	t.Helper()
	a := p.b.Do(t, Call{Method: method, Path: "/v1/products/" + string(p.b.Product) + path, Header: p.Header()})
	if text := a.Text("ticket"); text != "" {
		p.Ticket = text
	}
	if text := a.Text("pass"); text != "" {
		p.Pass = text
	}
	return a
}

// Join joins the line.
func (p *Person) Join(t testing.TB) Answer { t.Helper(); return p.Do(t, http.MethodPost, "/queue") }

// Poll asks where the person stands.
func (p *Person) Poll(t testing.TB) Answer { t.Helper(); return p.Do(t, http.MethodGet, "/queue") }

// Leave gives the place up.
func (p *Person) Leave(t testing.TB) Answer { t.Helper(); return p.Do(t, http.MethodDelete, "/queue") }

// Order orders with the person's pass; no key is sent for an empty one.
func (p *Person) Order(t testing.TB, quantity int, key string) Answer {
	t.Helper()
	header := p.Header()
	if key != "" {
		header["Idempotency-Key"] = key
	}
	return p.b.Do(t, Call{
		Method: http.MethodPost, Path: "/v1/products/" + string(p.b.Product) + "/orders",
		Body: fmt.Sprintf(`{"quantity":%d}`, quantity), Header: header,
	})
}

// Read asks for an order.
func (p *Person) Read(t testing.TB, id order.ID) Answer {
	t.Helper()
	return p.b.Do(t, Call{Method: http.MethodGet, Path: "/v1/orders/" + string(id), Header: p.Header()})
}

// Admitted is somebody who joined and holds a pass; whoever waits in front is let through too.
func (b *Bundle) Admitted(t testing.TB, user product.UserID) *Person {
	t.Helper()
	p := b.Person(user)
	if a := p.Join(t); a.Status != http.StatusCreated {
		t.Fatalf("join: %v", a)
	}
	b.Admit(t, waitingroom.AdmitMax)
	if a := p.Poll(t); a.Text("status") != "admitted" || p.Pass == "" {
		t.Fatalf("poll: %v", a)
	}
	return p
}

// Claims are what the person's pass says.
func (p *Person) Claims(t testing.TB) pass.Pass {
	t.Helper()
	claims, err := p.b.Keys.Passes.Verifier().Verify(p.Pass)
	check(t, err)
	return claims
}

// OrderID is the order that the person's pass can buy.
func (p *Person) OrderID(t testing.TB) order.ID { t.Helper(); return p.Claims(t).OrderID }

// Expired gives the person the same pass with its end in the past, as if time had gone by.
func (p *Person) Expired(t testing.TB) {
	t.Helper()
	claims := p.Claims(t)
	claims.ExpiresAt = time.Now().Add(-time.Minute)
	text, err := p.b.Keys.Passes.Sign(claims)
	check(t, err)
	p.Pass = text
}
