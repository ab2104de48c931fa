package operator_test

import (
	"context"
	"errors"
	"testing"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

const (
	bought = "018bcfe5-6800-7a10-8b2c-0d3e5f708192"
	unseen = "018bcfe5-6800-7a10-8b2c-0d3e5f708193"
	voided = "018bcfe5-6800-7a10-8b2c-0d3e5f708194"
)

// judge lets the ledger judge commands as order-consumer does.
func judge(t *testing.T, l *ledger.Ledger, from int64, commands ...order.Command) {
	t.Helper()
	b := ledger.Batch{Topic: "orders", NextOffset: from + int64(len(commands))}
	for i, c := range commands {
		in := ledger.Input{Offset: from + int64(i), Key: []byte(c.Product), Command: c, User: c.UserHash}
		if c.User != "" {
			in.User = product.UserHash("hash of " + c.User)
		}
		b.Commands = append(b.Commands, in)
	}
	if _, err := l.Judge(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// queued are the commands on their way to the topic orders, in their order; all of them verify.
func queued(t *testing.T, l *ledger.Ledger, p product.ID) (commands []order.Command) {
	t.Helper()
	if err := l.Snapshot(t.Context(), p, func(s *ledger.Snapshot) error {
		return s.EachOutbox(func(row ledger.OutboxRow) error {
			if row.Topic != "orders" {
				return nil
			}
			c, err := order.DecodeCommand(row.Payload)
			if err == nil {
				err = c.Verify(ring(t))
			}
			commands = append(commands, c)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	return commands
}

// F6, F21: a cancel leaves once, signed, for whom the books or the caller name; what the ledger then judges gives the units back once,
// also when it comes twice or before its order.
func TestDeskCancelsOrders(t *testing.T) {
	t.Parallel()
	c, l := desk(t)
	ledgertest.Product(t, l, "p", 3)
	ledgertest.Product(t, l, "q", 3)
	place := func(id, user string, n int) order.Command {
		return order.Command{
			Version: 1, Kind: order.KindPlace, ID: id, Product: "p", OrderID: order.ID(id), User: product.UserID(user), Place: product.Place(n),
			Quantity: 2, DeadlineMS: 1 << 50,
		}
	}
	judge(t, l, 0, place(bought, "김한줄", 1), order.Command{Kind: order.KindVoid, ID: "v", Product: "p", OrderID: voided, UserHash: "00112233445566778899aabbccddeeff"})
	path := func(id string) string { return "/v1/products/p/orders/" + id + "/cancel" }
	for i, step := range []struct {
		path, body, key string
		status          int
		says            string
	}{
		{path(bought), ``, "c1", 202, ""},
		{path(bought), ``, "c1", 202, ""},
		{path(bought), `{"user":"김한줄","quantity":2}`, "c2", 202, ""},
		{path(bought), `{"user":"lee"}`, "c3", 422, "invalid-field"},
		{path(unseen), ``, "c4", 404, "order-unknown"},
		{path(unseen), `{"quantity":2}`, "c4", 404, "order-unknown"},
		{path(unseen), `{"user":"kim","quantity":2}`, "c5", 202, ""},
		{path(unseen), `{"user":"kim"}`, "c5", 409, "request-reused"},
		{path(voided), ``, "c6", 409, "state-conflict"},
		{path(voided), `{"user":"kim"}`, "c6", 409, "state-conflict"},
		{"/v1/products/q/orders/" + bought + "/cancel", ``, "c7", 404, "order-unknown"},
		{"/v1/products/none/orders/" + unseen + "/cancel", `{"user":"kim"}`, "c8", 404, "unknown-product"},
		{path("x"), ``, "c9", 422, "invalid-field"},
		{path(bought), `{"user":"a\nb"}`, "c9", 422, "invalid-field"},
		{path(bought), `{"quantity":0}`, "c9", 422, "invalid-field"},
		{path(bought), `{"units":1}`, "c9", 422, "invalid-field"},
		{path(bought), ``, "", 400, "idempotency-key-required"},
	} {
		a := call(t, c, "POST", step.path, step.body, "Idempotency-Key", step.key)
		if a.status != step.status || a.text("type") != step.says {
			t.Fatalf("step %d, %s %s: %d %v", i, step.path, step.body, a.status, a.body)
		}
		if step.status == 202 && (a.text("command_id") != step.key || a.body["repeat"] != (i == 1)) {
			t.Fatalf("step %d: %v", i, a.body)
		}
	}
	sent := queued(t, l, "p")
	if len(sent) != 3 || rows(t, l, "operator_actions WHERE action = 'cancel' AND operator = 'anna'") != 3 {
		t.Fatal(sent)
	}
	for i, want := range []product.UserID{"김한줄", "김한줄", "kim"} {
		if sent[i].User != want || sent[i].Quantity != 2 || sent[i].Kind != order.KindCancel {
			t.Fatal(sent[i])
		}
	}

	judge(t, l, 2, append(append(sent, sent...), place(unseen, "kim", 2))...)
	stock, err := l.StockOf(t.Context(), "p")
	if err != nil || stock.Sold != 0 {
		t.Fatal(stock, err)
	}
	found, err := l.OrdersByID(t.Context(), []order.ID{bought, unseen})
	if err != nil || found[bought].Reason != order.ReasonOperator || found[unseen].Reason != order.ReasonCancelledBefore {
		t.Fatal(found, err)
	}
	for id, row := range found {
		if s := row.Status(); s.State != order.StateCancelled || s.Version != order.VersionCancelled {
			t.Fatal(id, s)
		}
	}
	if a := call(t, c, "POST", path(bought), ``, "Idempotency-Key", "c10"); a.status != 409 || a.text("type") != "state-conflict" {
		t.Fatal(a)
	}
	if a := call(t, c, "POST", path(bought), ``, "Idempotency-Key", "c1"); a.status != 202 || a.body["repeat"] != true {
		t.Fatal("a repeat is answered as before", a)
	}
}

// Whoever names another user than the one who bound the order is not believed; where the line does not know it, the word of the caller
// stops the order, and nobody else gains by it.
func TestDeskHoldsTheNamedUserAgainstTheLine(t *testing.T) {
	t.Parallel()
	c, l := desk(t)
	ledgertest.Product(t, l, "p", 3)
	place := order.Command{
		Version: 1, Kind: order.KindPlace, ID: unseen, Product: "p", OrderID: unseen, User: "kim", Place: 1, Quantity: 2, Pass: "pass", DeadlineMS: 1 << 50,
	}
	command, err := place.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var away error
	c.Bound = func(_ context.Context, p product.ID, id order.ID) ([]byte, bool, error) {
		return command, p == "p" && id == unseen && away == nil, away
	}
	path := "/v1/products/p/orders/" + unseen + "/cancel"
	if a := call(t, c, "POST", path, `{"user":"lee"}`, "Idempotency-Key", "c1"); a.status != 422 || a.text("field") != "user" {
		t.Fatal(a)
	}
	away = errors.New("redis is away")
	if a := call(t, c, "POST", path, `{"user":"kim"}`, "Idempotency-Key", "c1"); a.status != 503 {
		t.Fatal(a)
	}
	away = nil
	if a := call(t, c, "POST", path, `{"user":"kim"}`, "Idempotency-Key", "c1"); a.status != 202 {
		t.Fatal(a)
	}

	// Not bound as far as Redis knows: the caller errs, and is believed.
	lost := place
	lost.ID, lost.OrderID, lost.Place = bought, bought, 2
	if a := call(t, c, "POST", "/v1/products/p/orders/"+bought+"/cancel", `{"user":"lee"}`, "Idempotency-Key", "c2"); a.status != 202 {
		t.Fatal(a)
	}
	judge(t, l, 0, append(queued(t, l, "p"), place, lost)...)
	stock, err := l.StockOf(t.Context(), "p")
	if err != nil || stock.Sold != 0 || stock.Total != 3 {
		t.Fatal(stock, err)
	}
	found, err := l.OrdersByID(t.Context(), []order.ID{bought, unseen})
	if err != nil || found[unseen].UserID != "kim" || found[bought].Reason != order.ReasonCancelledBefore || rows(t, l, "orders WHERE status = 'confirmed'") != 0 {
		t.Fatal(found, err)
	}
}
