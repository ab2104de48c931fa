package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
	"hanjul/services/queue-api/internal/apitest"
)

// TestBadOrder sends what is no order: each is answered by its problem, names the field, spends no pass and leaves nothing
// in Kafka.
func TestBadOrder(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{Settings: func(s *product.Settings) { s.MaxQuantity = 4 }})
	p, other := b.Admitted(t, "a"), b.Admitted(t, "b")
	const path, body = "/v1/products/shoe/orders", `{"quantity":1}`

	genuine := p.Claims(t)
	signed := func(change func(*pass.Pass)) string {
		claims := genuine
		change(&claims)
		text, err := b.Keys.Passes.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	parts := strings.Split(p.Pass, ".")
	forged := parts[0] + "." + strings.Split(other.Pass, ".")[1] + "." + parts[2]

	for name, c := range map[string]struct {
		path, body string
		header     map[string]string // over those of the person
		drop       string            // header that is left out
		status     int
		typ, field string
	}{
		"UnknownProduct":       {path: "/v1/products/nothing/orders", status: 404, typ: "unknown-product"},
		"NoProductId":          {path: "/v1/products/a%20b/orders", status: 400, typ: "malformed-request", field: "product"},
		"NoJSON":               {body: `{"quantity":`, status: 400, typ: "malformed-request", field: "body"},
		"NotAnObject":          {body: `[1]`, status: 400, typ: "malformed-request", field: "body"},
		"Null":                 {body: `null`, status: 400, typ: "malformed-request", field: "body"},
		"TwoValues":            {body: body + body, status: 400, typ: "malformed-request", field: "body"},
		"NoBody":               {body: " ", status: 400, typ: "malformed-request", field: "body"},
		"WrongType":            {header: map[string]string{"Content-Type": "text/plain"}, status: 415, typ: "unsupported-content-type", field: "Content-Type"},
		"NoType":               {drop: "Content-Type", status: 415, typ: "unsupported-content-type", field: "Content-Type"},
		"Form":                 {header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, status: 415, typ: "unsupported-content-type", field: "Content-Type"},
		"TooLarge":             {body: `{"quantity":1,"x":"` + strings.Repeat("x", 16<<10) + `"}`, status: 413, typ: "body-too-large", field: "body"},
		"QuantityMissing":      {body: `{}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityNull":         {body: `{"quantity":null}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityZero":         {body: `{"quantity":0}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityNegative":     {body: `{"quantity":-1}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityFractional":   {body: `{"quantity":1.5}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityAboveTheMost": {body: `{"quantity":5}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityHuge":         {body: `{"quantity":99999999999999999999}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityText":         {body: `{"quantity":"1"}`, status: 422, typ: "invalid-field", field: "quantity"},
		"QuantityInACase":      {body: `{"Quantity":1}`, status: 422, typ: "invalid-field", field: "quantity"},
		"KeyEmpty":             {header: map[string]string{"Idempotency-Key": ""}, status: 422, typ: "invalid-field", field: "Idempotency-Key"},
		"KeyTooLong":           {header: map[string]string{"Idempotency-Key": strings.Repeat("k", 129)}, status: 422, typ: "invalid-field", field: "Idempotency-Key"},
		"KeyNotASCII":          {header: map[string]string{"Idempotency-Key": "ключ"}, status: 422, typ: "invalid-field", field: "Idempotency-Key"},
		"KeyWithControl":       {header: map[string]string{"Idempotency-Key": "a\tb"}, status: 422, typ: "invalid-field", field: "Idempotency-Key"},
		"NobodyNamed":          {drop: "Hanjul-User", status: 401, typ: "identity-invalid", field: "Hanjul-User"},
		"UserEmpty":            {header: map[string]string{"Hanjul-User": ""}, status: 401, typ: "identity-invalid", field: "Hanjul-User"},
		"UserTooLong":          {header: map[string]string{"Hanjul-User": strings.Repeat("u", 257)}, status: 401, typ: "identity-invalid", field: "Hanjul-User"},
		"UserWithControl":      {header: map[string]string{"Hanjul-User": "a%0Ab"}, status: 401, typ: "identity-invalid", field: "Hanjul-User"},
		"UserNotUTF8":          {header: map[string]string{"Hanjul-User": "%ff"}, status: 401, typ: "identity-invalid", field: "Hanjul-User"},
		"UserNotEncoded":       {header: map[string]string{"Hanjul-User": "%zz"}, status: 401, typ: "identity-invalid", field: "Hanjul-User"},
		"NoPass":               {drop: "Hanjul-Pass", status: 401, typ: "pass-invalid", field: "Hanjul-Pass"},
		"PassMalformed":        {header: map[string]string{"Hanjul-Pass": "x.y"}, status: 401, typ: "pass-invalid", field: "Hanjul-Pass"},
		"PassForged":           {header: map[string]string{"Hanjul-Pass": forged}, status: 401, typ: "pass-invalid", field: "Hanjul-Pass"},
		"PassOfAnotherPerson":  {header: map[string]string{"Hanjul-Pass": other.Pass}, status: 403, typ: "pass-foreign", field: "Hanjul-Pass"},
		"PassOfAnotherProduct": {header: map[string]string{"Hanjul-Pass": signed(func(c *pass.Pass) { c.Product = "boot" })}, status: 403, typ: "pass-foreign", field: "Hanjul-Pass"},
		"TicketInsteadOfPass":  {header: map[string]string{"Hanjul-Pass": p.Ticket}, status: 401, typ: "pass-invalid", field: "Hanjul-Pass"},
	} {
		t.Run(name, func(t *testing.T) {
			call := apitest.Call{Method: http.MethodPost, Path: path, Body: body, Header: p.Header()}
			if c.path != "" {
				call.Path = c.path
			}
			if c.body != "" {
				call.Body = c.body
			}
			if c.drop == "Content-Type" {
				call.Header["Content-Type"] = ""
			} else {
				delete(call.Header, c.drop)
			}
			for name, value := range c.header {
				call.Header[name] = value
			}
			a := b.Do(t, call)
			wantProblem(t, a, c.status, c.typ)
			if a.Text("field") != c.field || a.Text("title") == "" {
				t.Fatalf("field %q, want %q: %v", a.Text("field"), c.field, a)
			}
			wantMessages(t, b, 0)
		})
	}
	want(t, p.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
	want(t, p.Order(t, 4, strings.Repeat("k", 128)), http.StatusAccepted, nil)
	wantMessages(t, b, 1)
}

// TestForeign holds one person's ticket and pass against another person's identity, on every call (F28).
func TestForeign(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{})
	a, waiting, thief := b.Admitted(t, "a"), b.Person("w"), b.Person("thief")
	waiting.Join(t)
	thief.Ticket = waiting.Ticket
	wantProblem(t, thief.Poll(t), http.StatusForbidden, "ticket-foreign")
	wantProblem(t, thief.Join(t), http.StatusForbidden, "ticket-foreign")
	wantProblem(t, thief.Leave(t), http.StatusForbidden, "ticket-foreign")
	wantProblem(t, thief.Do(t, http.MethodPost, "/queue/leave"), http.StatusForbidden, "ticket-foreign")
	wantProblem(t, thief.Read(t, a.OrderID(t)), http.StatusForbidden, "ticket-foreign")
	thief.Ticket, thief.Pass = "", a.Pass
	wantProblem(t, thief.Order(t, 1, ""), http.StatusForbidden, "pass-foreign")
	wantProblem(t, thief.Read(t, a.OrderID(t)), http.StatusForbidden, "pass-foreign")
	want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "waiting"})
	want(t, a.Poll(t), http.StatusOK, map[string]any{"status": "admitted"})
	wantMessages(t, b, 0)

	// A ticket is of one product.
	other, err := ticket.Sign(b.Keys.Tickets.Current(), ticket.Ticket{Product: "boot", User: waiting.Hash(), Place: 1 << 43, IssuedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	waiting.Ticket = other
	wantProblem(t, waiting.Poll(t), http.StatusForbidden, "ticket-foreign")

	// An old one counts as none where it is not needed.
	old, err := ticket.Sign(b.Keys.Tickets.Current(), ticket.Ticket{
		Product: "shoe", User: waiting.Hash(), Place: 1 << 43, IssuedAt: time.Now().Add(-ticket.Life - time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting.Ticket = old
	wantProblem(t, waiting.Leave(t), http.StatusUnauthorized, "ticket-invalid")
	want(t, waiting.Poll(t), http.StatusOK, map[string]any{"status": "waiting"})
}

func TestNoSuchCall(t *testing.T) {
	t.Parallel()
	b := apitest.New(t, apitest.Options{})
	wantProblem(t, b.Do(t, apitest.Call{Method: http.MethodGet, Path: "/v2"}), http.StatusNotFound, "not-found")
	wantProblem(t, b.Do(t, apitest.Call{Method: http.MethodPut, Path: "/v1/products/shoe"}), http.StatusMethodNotAllowed, "method-not-allowed")
}

// TestReadOrder is who may read what is known, and what is asked of the books where nothing is.
func TestReadOrder(t *testing.T) {
	t.Parallel()

	t.Run("OnlyItsOwner", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		p.Order(t, 1, "")
		want(t, b.Person("a").Read(t, id), http.StatusOK, map[string]any{"status": "accepted", "quantity": 1.0, "product": "shoe"})
		wantProblem(t, b.Person("b").Read(t, id), http.StatusNotFound, "order-unknown")
		wantProblem(t, p.Read(t, "x"), http.StatusBadRequest, "malformed-request")
		wantProblem(t, b.Do(t, apitest.Call{Method: http.MethodGet, Path: "/v1/orders/" + string(id)}), http.StatusUnauthorized, "identity-invalid")
	})

	t.Run("EveryVerdict", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		p.Order(t, 1, "")
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", true)
		want(t, p.Read(t, id), http.StatusOK, map[string]any{"status": "confirmed", "reason": nil, "next_poll_ms": nil, "known": true})
		_, err := b.Statuses.Put(t.Context(), id, order.Status{
			Version: order.VersionCancelled, State: order.StateCancelled, Reason: order.ReasonOperator, Product: b.Product, User: p.Hash(),
		})
		if err != nil {
			t.Fatal(err)
		}
		want(t, p.Read(t, id), http.StatusOK, map[string]any{"status": "cancelled", "reason": "operator"})
		wantMessages(t, b, 1)
		if wanted, err := b.Statuses.TakeWanted(t.Context(), 10); err != nil || len(wanted) != 0 {
			t.Fatal(wanted, err)
		}
	})

	t.Run("UnknownNeedsProof", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		id := p.OrderID(t)
		wantProblem(t, b.Person("a").Read(t, id), http.StatusNotFound, "order-unknown")
		wantProblem(t, p.Read(t, "01890a5d-ac96-774b-bcce-b302099a8057"), http.StatusNotFound, "order-unknown")
		pending := map[string]any{"status": "pending", "known": false, "product": "shoe", "quantity": nil, "quantity_reason": "not_known"}

		byTicket := *p
		byTicket.Pass = ""
		want(t, byTicket.Read(t, id), http.StatusOK, pending)
		wantWanted(t, b, p, false) // the place may never be used: nothing to void
		byPass := *p
		byPass.Ticket = ""
		want(t, byPass.Read(t, id), http.StatusOK, pending)
	})

	t.Run("WithThePassItHasADeadline", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		want(t, p.Read(t, p.OrderID(t)), http.StatusOK, map[string]any{"status": "pending", "known": false})
		wantWanted(t, b, p, true)
	})

	t.Run("BoundIsPendingAndKnown", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		p.Order(t, 1, "")
		if err := b.Redis.Del(t.Context(), b.Names.Status(string(p.OrderID(t)))).Err(); err != nil {
			t.Fatal(err)
		}
		want(t, p.Read(t, p.OrderID(t)), http.StatusOK, map[string]any{"status": "pending", "known": true})
		if wanted, err := b.Statuses.TakeWanted(t.Context(), 10); err != nil || len(wanted) != 0 {
			t.Fatal(wanted, err)
		}
	})

	t.Run("AVerdictThatWasLostIsWanted", func(t *testing.T) {
		t.Parallel()
		b := apitest.New(t, apitest.Options{})
		p := b.Admitted(t, "a")
		p.Order(t, 1, "")
		b.Judge(t, b.Log(t)[0], order.StateConfirmed, "", false)
		want(t, p.Read(t, p.OrderID(t)), http.StatusOK, map[string]any{"status": "accepted", "known": true})
		wantWanted(t, b, p, true)
	})
}

// FuzzTicket changes a ticket in every way: whatever is taken says what the genuine one says. (The spare bits of the last
// base64 digit may differ.)
func FuzzTicket(f *testing.F) {
	keys := apitest.Keys(f)
	held := ticket.Ticket{Product: "shoe", User: product.HashUser(keys.Users, "a"), Place: 1 << 43, IssuedAt: time.Now().Truncate(time.Second)}
	genuine, err := ticket.Sign(keys.Tickets.Current(), held)
	if err != nil {
		f.Fatal(err)
	}
	for i := range len(genuine) {
		f.Add(genuine[:i] + "A" + genuine[i+1:])
		f.Add(genuine[:i])
	}
	f.Add(genuine + "=")
	f.Add(genuine + "." + genuine)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ticket.Verify(keys.Tickets, text, time.Now())
		if err == nil && (got.Product != held.Product || got.User != held.User || got.Place != held.Place || !got.IssuedAt.Equal(held.IssuedAt)) {
			t.Fatalf("%q is taken as %+v", text, got)
		}
	})
}
