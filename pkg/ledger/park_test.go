package ledger_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
)

// Whatever stands in a record, its batch passes: what cannot be stored is parked, and its neighbours are judged.
func TestJudgeParksWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	zero := place(t, "p", "zero", 1, 1)
	zero.Command.IdempotencyKey = "a\x00b"
	nameless := command(t, order.KindAdjust, "p", "a\x00", func(c *order.Command) { c.Delta = 1 })
	traced := place(t, "p", "traced", 2, 1)
	traced.Command.Traceparent = "00-\x00"
	ancient, future := place(t, "p", "ancient", 3, 1), place(t, "p", "future", 4, 1)
	ancient.Park, ancient.At = &ledger.Park{Reason: "test"}, time.UnixMilli(-1<<62)
	future.Park, future.At = &ledger.Park{Reason: "test", Product: "not a product"}, time.UnixMilli(1<<62)
	future.Raw, future.Key = []byte("\xff\xfe\x00"), []byte("\x00\xff")
	empty := ledger.Input{At: start(), Park: &ledger.Park{Reason: "test", CommandID: "x\x00"}}
	korean := place(t, "p", "김한줄 👩‍👩‍👧", 5, 1)
	b := batch(zero, place(t, "p", "a", 6, 1), nameless, traced, ancient, future, empty, korean)
	r := judge(t, l, b)
	wants(t, r, "parked unstorable", "judged confirmed", "parked unstorable", "judged confirmed", "parked test", "parked test", "parked test",
		"judged confirmed")
	books := checkBooks(t, l, "p")
	if books.Product.Sold != 3 {
		t.Fatal(books.Product)
	}
	var got []string
	for _, row := range books.Letters {
		got = append(got, fmt.Sprintf("%d %s %q %q %q", row.Offset, row.Reason, row.Product, row.OrderID, row.CommandID))
	}
	want := []string{
		fmt.Sprintf("0 unstorable %q %q %q", "p", zero.Command.OrderID, ""),
		`2 unstorable "p" "" ""`, `4 test "" "" ""`, `5 test "" "" ""`, `6 test "" "" ""`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for i, v := range judge(t, l, b).Verdicts {
		if v.Outcome != ledger.Known && v.Outcome != ledger.StillParked {
			t.Errorf("%d: %s", i, said(v))
		}
	}
	sameBooks(t, books, readBooks(t, l, "p"))
}

// F20: a parked id stays pending. Its copies change nothing, a void does not settle it, and the dead letter leaves once.
func TestJudgeKeepsWhatIsParked(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	lost, good := place(t, "gone", "a", 1, 1), place(t, "p", "a", 2, 1)
	broken := good
	broken.Park = &ledger.Park{Reason: "invalid", Product: "p", OrderID: good.Command.OrderID}
	void := command(t, order.KindVoid, "p", "v", func(c *order.Command) { c.OrderID, c.UserHash = good.Command.OrderID, good.User })
	r := judge(t, l, batch(lost, broken, lost, good, void))
	wants(t, r, "parked unknown_product", "parked invalid", "still_parked", "still_parked", "judged nothing")
	if r.Verdicts[4].Order != nil {
		t.Error("a parked order has no row to tell of")
	}
	wants(t, judge(t, l, batch(place(t, "p", "b", 3, 1), good)), "judged confirmed", "still_parked")
	parked, err := l.Parked(t.Context(), []order.ID{good.Command.OrderID, lost.Command.OrderID, place(t, "p", "b", 3, 1).Command.OrderID})
	if err != nil || len(parked) != 2 || !parked[good.Command.OrderID] {
		t.Fatal(parked, err)
	}
	books := checkBooks(t, l, "p")
	var letters []order.DeadLetter
	for _, row := range books.Outbox {
		if row.Type != string(order.TypeDeadLetter) {
			continue
		}
		var d order.DeadLetter
		if err := json.Unmarshal(row.Payload, &d); err != nil || row.Topic != "orders.dead-letters" || row.Seq != 0 || row.Subject != "p" {
			t.Fatal(row, err)
		}
		letters = append(letters, d)
	}
	want := []order.DeadLetter{{
		Version: 1, Reason: "invalid", Topic: "orders", Offset: 1, RecordedAt: start().UTC(), Product: "p",
		OrderID: good.Command.OrderID, Key: []byte("p"), Payload: good.Raw,
	}}
	if diff := cmp.Diff(want, letters); diff != "" {
		t.Fatal(diff)
	}

	// Redriven, it is judged; one that fails again is parked again.
	redrive := func() {
		if _, err := l.Pool().Exec(t.Context(), `UPDATE dead_letters SET state = 'redriven'`); err != nil {
			t.Fatal(err)
		}
	}
	redrive()
	second := ledger.Batch{Topic: "orders", Partition: 1, NextOffset: 9, Commands: []ledger.Input{lost}}
	second.Commands[0].Offset = 8
	wants(t, judge(t, l, second), "still_parked")
	wants(t, judge(t, l, second), "still_parked")
	wants(t, judge(t, l, batch(good)), "judged confirmed")
	checkBooks(t, l, "p")
}

// F31: what does not verify takes no id, so the genuine command of that id is judged.
func TestJudgeIsNotBlockedByAForgery(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	good := place(t, "p", "a", 1, 1)
	forged := good
	forged.Park = &ledger.Park{Reason: "pass_invalid", Product: "p"}
	wants(t, judge(t, l, batch(forged, forged, good)), "parked pass_invalid", "parked pass_invalid", "judged confirmed")
	if n := len(checkBooks(t, l, "p").Letters); n != 2 {
		t.Fatal(n)
	}
}

// Two order ids for one place cannot both be judged, nor one id for two products; an operator sees why.
func TestJudgeParksContradictions(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	ledgertest.Product(t, l, "q", 10)
	a := place(t, "p", "a", 1, 1)
	twin := a
	twin.Command.OrderID = place(t, "p", "a", 2, 1).Command.OrderID
	twin.Command.ID = string(twin.Command.OrderID)
	foreign := a
	foreign.Command.Product, foreign.Key = "q", []byte("q")
	wants(t, judge(t, l, batch(a, twin, foreign)), "judged confirmed", "parked place_taken", "parked foreign_order")
	checkBooks(t, l, "p")
	checkBooks(t, l, "q")
}
