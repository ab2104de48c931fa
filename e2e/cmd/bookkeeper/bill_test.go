package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// billing gives books that bill, with a product of some units.
func billing(t *testing.T) (*books, *history) {
	t.Helper()
	b, _ := newBooks(t)
	b.payWithin = time.Hour
	h := &history{product: "p"}
	enter(t, b, h.adjust(t, 1000))
	return b, h
}

func pay(t *testing.T, b *books, order, payment, want string) {
	t.Helper()
	if state, err := b.pay(t.Context(), order, payment); err != nil || state != want {
		t.Errorf("payment %s of %s: %q, %v, expected %q", payment, order, state, err, want)
	}
}

// billed is "bill: payment, payment" of an order.
func billed(t *testing.T, b *books, order string) string {
	t.Helper()
	var text string
	err := b.pool.QueryRow(t.Context(), `
SELECT coalesce((SELECT state FROM bookkeeper.bills WHERE order_id = $1), 'none') || ': ' ||
  coalesce((SELECT string_agg(state, ', ' ORDER BY payment_id) FROM bookkeeper.payments WHERE order_id = $1), '')`, order).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func wantBilled(t *testing.T, b *books, order, want string) {
	t.Helper()
	if got := billed(t, b, order); got != want {
		t.Errorf("%s is billed %q, expected %q", order, got, want)
	}
}

// fallDue lets the time of unpaid bills be over, and decides on them.
func fallDue(t *testing.T, b *books) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `UPDATE bookkeeper.bills SET due = now() WHERE state = 'unpaid'`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.overdue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestBillsInEveryOrder has the events of an order, its payments and its deadline come in every order they can.
func TestBillsInEveryOrder(t *testing.T) {
	t.Parallel()
	b, h := billing(t)
	id := func(n int) string { return string(*h.order(n)) }

	enter(t, b, h.confirm(t, 1, 1))
	wantBilled(t, b, id(1), "unpaid: ")
	pay(t, b, id(1), "1a", "taken")
	pay(t, b, id(1), "1a", "taken") // told again
	pay(t, b, id(1), "1b", "refund")
	fallDue(t, b)
	wantBilled(t, b, id(1), "paid: taken, refund")
	if _, err := b.pay(t.Context(), id(2), "1a"); !errors.Is(err, errOtherOrder) {
		t.Errorf("a payment of another order: %v", err)
	}

	pay(t, b, id(2), "2a", "early") // before its verdict is read
	pay(t, b, id(2), "2b", "early")
	enter(t, b, h.confirm(t, 2, 1))
	wantBilled(t, b, id(2), "paid: taken, refund")
	pay(t, b, id(2), "2a", "taken")

	pay(t, b, id(3), "3a", "early")
	enter(t, b, h.reject(t, 3))
	pay(t, b, id(3), "3b", "refund")
	wantBilled(t, b, id(3), "none: refund, refund")

	enter(t, b, h.confirm(t, 4, 1))
	fallDue(t, b)
	pay(t, b, id(4), "4a", "refund") // late
	wantBilled(t, b, id(4), "overdue: refund")
	enter(t, b, h.cancel(t, 4, 1))
	pay(t, b, id(4), "4b", "refund")
	wantBilled(t, b, id(4), "cancelled: refund, refund")

	enter(t, b, h.confirm(t, 5, 1))
	pay(t, b, id(5), "5a", "taken")
	enter(t, b, h.cancel(t, 5, 1)) // an operator took a paid one back
	pay(t, b, id(5), "5a", "refund")
	wantBilled(t, b, id(5), "cancelled: refund")

	enter(t, b, h.cancel(t, 6, 0)) // overtook its order
	pay(t, b, id(6), "6a", "refund")

	enter(t, b, h.confirm(t, 7, 1))
	before := make(map[int]string)
	for n := range 8 {
		before[n] = billed(t, b, id(n))
	}
	enter(t, b, h.events...) // a replay changes nothing
	for n := range 8 {
		wantBilled(t, b, id(n), before[n])
	}
	if debts, err := b.overdue(t.Context()); err != nil || len(debts) != 0 {
		t.Errorf("after a replay %v is overdue, %v", debts, err)
	}
	// So does reading everything again, into tables of which only the payments were kept.
	if _, err := b.pool.Exec(t.Context(), `TRUNCATE bookkeeper.products, bookkeeper.entered, bookkeeper.orders, bookkeeper.bills`); err != nil {
		t.Fatal(err)
	}
	enter(t, b, h.events...)
	for n := range 8 {
		wantBilled(t, b, id(n), before[n])
	}
	h.check(t, b)
}

// TestPaymentAtTheDeadline pays while it is decided that it is too late: one of the two is so, never both and never none.
func TestPaymentAtTheDeadline(t *testing.T) {
	t.Parallel()
	b, h := billing(t)
	const orders = 40
	for n := range orders {
		enter(t, b, h.confirm(t, n, 1))
	}
	if _, err := b.pool.Exec(t.Context(), `UPDATE bookkeeper.bills SET due = now()`); err != nil {
		t.Fatal(err)
	}
	states := make([]string, orders)
	var both sync.WaitGroup
	both.Go(func() {
		for n := range orders {
			state, err := b.pay(t.Context(), string(*h.order(n)), fmt.Sprint("payment-", n))
			if states[n] = state; err != nil {
				t.Error(err)
			}
		}
	})
	both.Go(func() {
		if _, err := b.overdue(t.Context()); err != nil {
			t.Error(err)
		}
	})
	both.Wait()
	for n, state := range states {
		want := map[string]string{"taken": "paid: taken", "refund": "overdue: refund"}[state]
		wantBilled(t, b, string(*h.order(n)), want)
	}
}

// TestPaymentBesideItsEvent pays while the confirmed event is entered: the payment finds the bill, or the bill finds the payment.
func TestPaymentBesideItsEvent(t *testing.T) {
	t.Parallel()
	b, h := billing(t)
	const orders = 40
	var events []event
	for n := range orders {
		events = append(events, h.confirm(t, n, 1))
	}
	var both sync.WaitGroup
	both.Go(func() {
		for n := range orders {
			if _, err := b.pay(t.Context(), string(*h.order(n)), fmt.Sprint("payment-", n)); err != nil {
				t.Error(err)
			}
		}
	})
	both.Go(func() {
		for at := 0; at < orders; at += 4 {
			if err := b.enter(t.Context(), "p", events[at:at+4]); err != nil {
				t.Error(err)
			}
		}
	})
	both.Wait()
	for n := range orders {
		wantBilled(t, b, string(*h.order(n)), "paid: taken")
	}
}

// fakeDesk answers cancels with what the test says for each call, and remembers who asked.
func fakeDesk(t *testing.T, answers ...func(http.ResponseWriter)) (desk, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var calls []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := len(calls)
		calls = append(calls, r.Method+" "+r.URL.Path+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		answers[min(n, len(answers)-1)](w)
	}))
	t.Cleanup(server.Close)
	return desk{server.URL, "secret", server.Client()}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), calls...)
	}
}

func says(status int, kind string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type": "https://example.org/problems/`+kind+`"}`)
	}
}

// TestChase asks for a cancel until the desk took it: over an outage, a lost answer, and a crash before it was noted, always under the
// order's own key. Then it waits for the event, and asks again only after a while.
func TestChase(t *testing.T) {
	t.Parallel()
	b, h := billing(t)
	enter(t, b, h.confirm(t, 1, 2))
	order := string(*h.order(1))
	d, calls := fakeDesk(t,
		says(http.StatusServiceUnavailable, "unavailable"),
		func(w http.ResponseWriter) { // done, and the answer is lost on its way
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		says(http.StatusAccepted, ""),
		says(http.StatusConflict, "state-conflict"),
	)
	if err := chaseOnce(t.Context(), b, d); err != nil || len(calls()) != 0 {
		t.Fatalf("an order that is not due is asked for: %v, %v", calls(), err)
	}
	fallDue(t, b)
	for range 2 {
		if err := chaseOnce(t.Context(), b, d); err == nil {
			t.Fatal("an outage is no error")
		}
	}
	forget := func() {
		if _, err := b.pool.Exec(t.Context(), `UPDATE bookkeeper.bills SET asked_at = NULL`); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []int{3, 3, 4, 4} {
		if n == 2 {
			forget() // crashed before it was noted; meanwhile it was cancelled
		}
		if err := chaseOnce(t.Context(), b, d); err != nil || len(calls()) != want {
			t.Fatalf("round %d: %d calls, expected %d, %v", n, len(calls()), want, err)
		}
	}
	for _, call := range calls() {
		if call != "POST /v1/products/p/orders/"+order+"/cancel unpaid-"+order+" Bearer secret" {
			t.Errorf("called %q", call)
		}
	}
	enter(t, b, h.cancel(t, 1, 2))
	forget()
	if err := chaseOnce(t.Context(), b, d); err != nil || len(calls()) != 4 {
		t.Fatalf("a cancelled order is asked for: %v, %v", calls(), err)
	}
	h.check(t, b)
}

// TestChaseGoesPastWhatIsRefused tells what the desk will never do, and has the other orders cancelled.
func TestChaseGoesPastWhatIsRefused(t *testing.T) {
	t.Parallel()
	b, told := newBooks(t)
	b.payWithin = time.Hour
	h := &history{product: "p"}
	enter(t, b, h.adjust(t, 10), h.confirm(t, 1, 1), h.confirm(t, 2, 1))
	fallDue(t, b)
	d, calls := fakeDesk(t, says(http.StatusConflict, "request-reused"), says(http.StatusAccepted, ""))
	if err := chaseOnce(t.Context(), b, d); err != nil || len(calls()) != 2 || strings.Count(told.String(), "somebody must look") != 1 {
		t.Fatalf("%v, %v\n%s", calls(), err, told)
	}
}

// TestPaymentsOverHTTP is the call that the shop's payment provider makes.
func TestPaymentsOverHTTP(t *testing.T) {
	t.Parallel()
	b, _ := newBooks(t)
	server := httptest.NewServer(payments(b))
	t.Cleanup(server.Close)
	put := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }() // read to its end
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const one, two = "018bcfe5-6800-7a10-8b2c-0d3e5f708192", "018bcfe5-6800-7a10-8b2c-0d3e5f708193"
	for _, c := range []struct {
		path   string
		status int
		says   string
	}{
		{"/orders/" + one + "/payments/a", 200, `"state":"early"`},
		{"/orders/" + one + "/payments/a", 200, `"state":"early"`},
		{"/orders/" + two + "/payments/a", 409, "another order"},
		{"/orders/x/payments/a", 400, "order: expected"},
		{"/orders/" + one + "/payments/" + strings.Repeat("a", 129), 400, "payment: expected"},
		{"/orders/" + one, 404, ""},
	} {
		if status, text := put(c.path); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d, %s", c.path, status, text)
		}
	}
	b.pool.Close()
	if status, text := put("/orders/" + one + "/payments/b"); status != 503 || !strings.Contains(text, "again") {
		t.Errorf("without a database: %d, %s", status, text)
	}
}

// TestKeepEndsWithItsTill ends the whole when payments cannot be taken.
func TestKeepEndsWithItsTill(t *testing.T) {
	t.Parallel()
	b, _ := newBooks(t)
	env := func(name string) string {
		return map[string]string{"BOOKKEEPER_OPERATOR_TOKEN": "secret", "BOOKKEEPER_POSTGRES_URL": b.pool.Config().ConnString()}[name]
	}
	var out strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if code := run(ctx, []string{"-pay-within", "1h", "-listen", "256.0.0.1:1"}, env, &out); code != 1 || !strings.Contains(out.String(), "-listen") {
		t.Errorf("%d, %s", code, out.String())
	}
}
