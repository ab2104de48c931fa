package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// signed is the command's bytes as their maker leaves them.
func signed(t testing.TB, c order.Command) []byte {
	t.Helper()
	c, err := c.Sign(key(t))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// dropOf is the drop of a parked place, as a record of the log.
func dropOf(t testing.TB, of ledger.Input, id string) ledger.Input {
	t.Helper()
	return command(t, order.KindDrop, of.Command.Product, id, func(c *order.Command) {
		c.OrderID, c.User = of.Command.OrderID, of.Command.User
	})
}

// parked is the place as a record that cannot be judged, though it verified.
func parked(of ledger.Input) ledger.Input {
	of.Park = &ledger.Park{Reason: "invalid", Product: of.Command.Product, OrderID: of.Command.OrderID}
	return of
}

func letter(t testing.TB, l *ledger.Ledger, id int64) ledger.Letter {
	t.Helper()
	found, err := l.Letter(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func asks(request string, letter int64) ledger.LetterAction {
	return ledger.LetterAction{RequestID: request, Operator: "kim", Letter: letter}
}

// at gives records another stretch of the log.
func at(offset int64, inputs ...ledger.Input) ledger.Batch {
	b := batch(inputs...)
	for i := range b.Commands {
		b.Commands[i].Offset += offset
	}
	b.NextOffset += offset
	return b
}

// F20: a redriven command leaves again as it was, once however often it is asked for, and is judged when it arrives; the operator's
// time is not the user's.
func TestRedrive(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 10)
	a := place(t, "p", "a", 1, 2)
	wants(t, judge(t, l, batch(parked(a), place(t, "p", "b", 2, 1))), "parked invalid", "judged confirmed")
	page, err := l.Letters(ctx, ledger.LetterQuery{Product: "p", State: ledger.LetterParked, Limit: 10})
	if err != nil || len(page) != 1 || page[0].OrderID != a.Command.OrderID || page[0].ParkedAt.IsZero() {
		t.Fatal(page, err)
	}
	id := page[0].ID
	if found := letter(t, l, id); !bytes.Equal(found.Payload, a.Raw) || !bytes.Equal(found.Key, a.Key) || found.Order != nil {
		t.Fatal(found)
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			if r, err := l.Redrive(ctx, asks("r1", id)); err != nil || r.State != ledger.LetterRedriven || !r.Queued || r.Letter != id || r.Product != "p" {
				t.Error(r, err)
			}
		})
	}
	running.Wait()
	if r, err := l.Redrive(ctx, asks("r1", id)); err != nil || !r.Repeat {
		t.Fatal(r, err)
	}
	if _, err := l.Redrive(ctx, asks("r2", id)); !errors.Is(err, ledger.ErrLetterState) {
		t.Fatal(err)
	}
	if _, err := l.Drop(ctx, asks("r1", id), nil); !errors.Is(err, ledger.ErrRequestReused) {
		t.Fatal(err)
	}
	if _, err := l.Drop(ctx, asks("r3", id), signed(t, dropOf(t, a, "r3").Command)); !errors.Is(err, ledger.ErrLetterState) {
		t.Fatal(err)
	}
	var sent []ledger.OutboxRow
	for _, row := range readBooks(t, l, "p").Outbox {
		if row.Topic == "orders" {
			sent = append(sent, row)
		}
	}
	if len(sent) != 1 || !bytes.Equal(sent[0].Payload, a.Raw) || sent[0].Seq != 0 || sent[0].ID != order.OutboxCommandID("r1") {
		t.Fatal(sent)
	}

	// On its way it is accounted for; it fails again, is parked again and can be redriven again.
	void := command(t, order.KindVoid, "p", "v", func(c *order.Command) { c.OrderID, c.UserHash = a.Command.OrderID, a.User })
	wants(t, judge(t, l, at(2, void, parked(a))), "judged nothing", "still_parked")
	if found := letter(t, l, id); found.State != ledger.LetterParked {
		t.Fatal(found.State)
	}
	if accounted, err := l.Parked(ctx, []order.ID{a.Command.OrderID}); err != nil || len(accounted) != 1 {
		t.Fatal(accounted, err)
	}
	if _, err := l.Redrive(ctx, asks("r4", id)); err != nil {
		t.Fatal(err)
	}
	if accounted, err := l.Parked(ctx, []order.ID{a.Command.OrderID}); err != nil || len(accounted) != 1 {
		t.Fatal("a redriven order was given up", accounted, err)
	}
	late := a
	late.At = start().Add(24 * time.Hour)
	wants(t, judge(t, l, at(4, late, late)), "judged confirmed", "known confirmed")
	if _, err := l.Redrive(ctx, asks("r5", id)); !errors.Is(err, ledger.ErrJudged) {
		t.Fatal(err)
	}
	checkBooks(t, l, "p")
	var actions int
	if err := l.Pool().QueryRow(ctx, `SELECT count(*) FROM operator_actions WHERE operator = 'kim' AND action = 'dead-letters redrive'`).Scan(&actions); err != nil || actions != 2 {
		t.Fatal(actions, err)
	}
}

// F20: a drop is judged in the log, gives the order its one verdict, and nothing that comes behind it changes that.
func TestDrop(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 10)
	a, cancelled := place(t, "p", "a", 1, 2), place(t, "p", "b", 2, 1)
	wants(t, judge(t, l, batch(parked(a), parked(cancelled), cancel(t, cancelled, "c1"))),
		"parked invalid", "parked invalid", "judged cancelled(cancelled_before_judged) done")
	for name, bad := range map[string][]byte{
		"nothing":         nil,
		"another id":      signed(t, dropOf(t, a, "other").Command),
		"another order":   signed(t, dropOf(t, cancelled, "d1").Command),
		"another kind":    signed(t, cancel(t, a, "d1").Command),
		"another product": signed(t, func() order.Command { c := dropOf(t, a, "d1").Command; c.Product = "q"; return c }()),
	} {
		if _, err := l.Drop(ctx, asks("d1", 1), bad); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	drop := dropOf(t, a, "d1")
	for i := range 2 {
		r, err := l.Drop(ctx, asks("d1", 1), signed(t, drop.Command))
		if err != nil || r.State != ledger.LetterDropped || r.CommandID != "d1" || r.Repeat != (i > 0) {
			t.Fatal(r, err)
		}
	}
	if _, err := l.Drop(ctx, asks("d2", 1), signed(t, dropOf(t, a, "d2").Command)); !errors.Is(err, ledger.ErrLetterState) {
		t.Fatal(err)
	}
	if _, err := l.Redrive(ctx, asks("d3", 1)); !errors.Is(err, ledger.ErrLetterState) {
		t.Fatal(err)
	}

	// Until the drop arrives the order is pending: neither a copy nor a void of it is judged.
	void := command(t, order.KindVoid, "p", "v", func(c *order.Command) { c.OrderID, c.UserHash = a.Command.OrderID, a.User })
	wants(t, judge(t, l, at(3, a, parked(a), void)), "still_parked", "still_parked", "judged nothing")
	r := judge(t, l, at(6, drop, drop, a, parked(a), cancel(t, a, "c2")))
	wants(t, r, "judged rejected(failed) done", "known rejected(failed) done", "known rejected(failed)", "known rejected(failed)",
		"judged rejected(failed) nothing")
	if row := r.Verdicts[0].Order; row.Version != 1 || row.UserID != "a" || row.User != a.User || row.Place != 0 || row.Quantity != 0 {
		t.Fatal(row)
	}
	if r.Settlements[0].Base != 10 || r.Settlements[0].Seq != 2 {
		t.Fatal("a drop moves no stock", r.Settlements)
	}
	books := checkBooks(t, l, "p")
	e, err := order.DecodeEvent(books.Outbox[1].Payload)
	if err != nil || e.Type != order.Rejected || *e.Reason != order.ReasonFailed || *e.CommandID != "d1" || *e.User != "a" {
		t.Fatal(e, err)
	}
	if found := letter(t, l, 1); found.Order == nil || found.Order.Reason != order.ReasonFailed {
		t.Fatal(found)
	}

	// What has a verdict cannot be redriven; its letter can be put away.
	if _, err := l.Redrive(ctx, asks("d4", 2)); !errors.Is(err, ledger.ErrJudged) {
		t.Fatal(err)
	}
	if r, err := l.Drop(ctx, asks("d5", 2), signed(t, dropOf(t, cancelled, "d5").Command)); err != nil || r.Queued || r.State != ledger.LetterDropped {
		t.Fatal(r, err)
	}
	sameBooks(t, ledgerBooks{Orders: books.Orders, Outbox: books.Outbox}, func() ledgerBooks {
		now := checkBooks(t, l, "p")
		return ledgerBooks{Orders: now.Orders, Outbox: now.Outbox}
	}())
}

// What has no order behind it is marked and nothing else: what never verified, and commands that are no places. Neither comes back by
// itself, and an order of a product without stock waits for its product.
func TestDropWithoutAnOrder(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 10)
	forged := place(t, "p", "a", 1, 1)
	forged.Park = &ledger.Park{Reason: "pass_invalid"}
	adjust := command(t, order.KindAdjust, "late", "up", func(c *order.Command) { c.Delta = 5 })
	orphan := place(t, "late", "b", 2, 1)
	wants(t, judge(t, l, batch(forged, adjust, orphan)), "parked pass_invalid", "parked unknown_product", "parked unknown_product")
	if _, err := l.Redrive(ctx, asks("x1", 1)); !errors.Is(err, ledger.ErrUnverified) {
		t.Fatal(err)
	}
	for i := range int64(2) {
		if r, err := l.Drop(ctx, asks(fmt.Sprintf("x2 %d", i), i+1), nil); err != nil || r.Queued || r.CommandID != "" {
			t.Fatal(r, err)
		}
	}
	if _, err := l.Drop(ctx, asks("x3", 3), signed(t, dropOf(t, orphan, "x3").Command)); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"unknown":     func() error { _, err := l.Redrive(ctx, asks("x4", 99)); return err }(),
		"unknown one": func() error { _, err := l.Letter(ctx, 99); return err }(),
	} {
		if !errors.Is(err, ledger.ErrUnknownLetter) {
			t.Error(name, err)
		}
	}
	if _, err := l.Redrive(ctx, ledger.LetterAction{RequestID: "x5", Letter: 3}); !errors.Is(err, ledger.ErrInvalid) {
		t.Fatal("nobody asked for it", err)
	}
	ledgertest.Product(t, l, "late", 3)
	wants(t, judge(t, l, at(3, adjust, orphan)), "still_parked", "still_parked")
	if _, err := l.Redrive(ctx, asks("x6", 3)); err != nil {
		t.Fatal(err)
	}
	wants(t, judge(t, l, at(5, orphan, adjust)), "judged confirmed", "still_parked")
	dropped, err := l.Letters(ctx, ledger.LetterQuery{State: ledger.LetterDropped, After: 1, Limit: 1})
	if err != nil || len(dropped) != 1 || dropped[0].ID != 2 || dropped[0].CommandID != "up" {
		t.Fatal(dropped, err)
	}
	checkBooks(t, l, "p")
	checkBooks(t, l, "late")
}

func cancellation(t testing.TB, of ledger.Input, request string, told product.UserID) ledger.Cancellation {
	t.Helper()
	return ledger.Cancellation{OrderID: of.Command.OrderID, User: told, Command: signed(t, cancel(t, of, request).Command)}
}

// F21: an operator's cancel is queued once, for an order that holds units or that may still come.
func TestCancel(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 3)
	ledgertest.Product(t, l, "q", 3)
	bought, refused, unseen := place(t, "p", "a", 1, 2), place(t, "p", "b", 2, 2), place(t, "p", "c", 3, 1)
	wants(t, judge(t, l, batch(bought, refused)), "judged confirmed", "judged rejected(sold_out)")
	for i := range 2 {
		r, err := l.Cancel(ctx, action("p", "c1"), cancellation(t, bought, "c1", ""))
		if err != nil || r.CommandID != "c1" || r.Repeat != (i > 0) || r.Product.Sold != 2 {
			t.Fatal(r, err)
		}
	}
	if r, err := l.Cancel(ctx, action("p", "c2"), cancellation(t, unseen, "c2", "c")); err != nil || r.CommandID != "c2" {
		t.Fatal(r, err)
	}
	for name, c := range map[string]struct {
		product product.ID
		request string
		cancel  ledger.Cancellation
		want    error
	}{
		"rejected":               {"p", "c3", cancellation(t, refused, "c3", ""), ledger.ErrOrderState},
		"nobody knows it":        {"p", "c4", cancellation(t, unseen, "c4", ""), ledger.ErrUnknownOrder},
		"of another user":        {"p", "c5", cancellation(t, unseen, "c5", "d"), ledger.ErrInvalid},
		"under another id":       {"p", "c6", cancellation(t, bought, "other", ""), ledger.ErrInvalid},
		"no such product":        {"none", "c7", cancellation(t, place(t, "none", "a", 1, 1), "c7", "a"), ledger.ErrUnknownProduct},
		"another product's":      {"q", "c8", func() ledger.Cancellation { o := bought; o.Command.Product = "q"; return cancellation(t, o, "c8", "a") }(), ledger.ErrUnknownOrder},
		"another under that key": {"p", "c1", cancellation(t, unseen, "c1", "c"), ledger.ErrRequestReused},
	} {
		if _, err := l.Cancel(ctx, action(c.product, c.request), c.cancel); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wants(t, judge(t, l, at(2, cancel(t, bought, "c1"), cancel(t, unseen, "c2"), cancel(t, bought, "c1"), unseen)),
		"judged cancelled(operator) done", "judged cancelled(cancelled_before_judged) done", "known cancelled(operator) done",
		"known cancelled(cancelled_before_judged)")
	if _, err := l.Cancel(ctx, action("p", "c9"), cancellation(t, bought, "c9", "")); !errors.Is(err, ledger.ErrOrderState) {
		t.Fatal(err)
	}
	if r, err := l.Cancel(ctx, action("p", "c1"), cancellation(t, bought, "c1", "")); err != nil || !r.Repeat {
		t.Fatal("a repeat is answered as before", r, err)
	}
	if books := checkBooks(t, l, "p"); books.Product.Sold != 0 {
		t.Fatal("units came back", books.Product.Sold)
	}
}
