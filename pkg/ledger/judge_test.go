package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/postgres"
	"hanjul/pkg/postgres/postgrestest"
	"hanjul/pkg/product"
)

func wants(t testing.TB, r ledger.Result, want ...string) {
	t.Helper()
	got := make([]string, len(r.Verdicts))
	for i, v := range r.Verdicts {
		got[i] = said(v)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// Orders without a place are judged as others are; a key that bought with a pass buys nothing more without one, nor the reverse (F16, F43).
func TestJudgeDirect(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10, func(s *product.Settings) { s.UserLimit = 4 })
	with := func(in ledger.Input, key string) ledger.Input { in.Command.IdempotencyKey = key; return in }
	direct := func(user string, n int64, quantity int, key string) ledger.Input {
		in := with(place(t, "p", user, n, quantity), key)
		in.Command.Place, in.Command.Pass = 0, ""
		return in
	}
	passed, twice := with(place(t, "p", "a", 1, 1), "k"), direct("a", 2, 1, "k")
	first, second, later := direct("b", 3, 2, "k"), direct("b", 4, 2, "l"), with(place(t, "p", "b", 5, 1), "k")
	b := batch(passed, twice, first, second, later, direct("b", 6, 1, "m"), direct("c", 7, 5, "k"), first)
	wants(t, judge(t, l, b),
		"judged confirmed", "judged rejected(duplicate_key)", "judged confirmed", "judged confirmed", "judged rejected(duplicate_key)",
		"judged rejected(limit)", "judged rejected(limit)", "known confirmed")
	for _, row := range checkBooks(t, l, "p").Orders {
		if want := row.OrderID == passed.Command.OrderID || row.OrderID == later.Command.OrderID; (row.Place > 0) != want {
			t.Errorf("%+v", row)
		}
	}
	for i, v := range judge(t, l, b).Verdicts {
		if v.Outcome != ledger.Known {
			t.Errorf("%d again: %s", i, said(v))
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 5, func(s *product.Settings) { s.UserLimit = 2 })
	a, b, c := place(t, "p", "a", 1, 2), place(t, "p", "b", 2, 2), place(t, "p", "c", 3, 2)
	late := place(t, "p", "late", 4, 1)
	late.At = time.UnixMilli(late.Command.DeadlineMS + 1)
	keyed, twin := place(t, "p", "k", 5, 1), place(t, "p", "k", 6, 1)
	keyed.Command.IdempotencyKey, twin.Command.IdempotencyKey = "again", "again"
	more := place(t, "p", "a", 7, 1)
	adjust := func(id string, delta int64) ledger.Input {
		return command(t, order.KindAdjust, "p", id, func(c *order.Command) { c.Delta = delta })
	}
	early := place(t, "p", "early", 8, 1)
	void := command(t, order.KindVoid, "p", "v1", func(v *order.Command) {
		v.OrderID, v.UserHash = place(t, "p", "lost", 9, 1).Command.OrderID, product.HashUser(key(t), "lost")
	})
	load := command(t, order.KindLoadStock, "p", "l1", nil)
	b1 := batch(a, b, c, late, keyed, twin, more, adjust("up", 2), adjust("down", -4), c, cancel(t, a, "x1"), cancel(t, a, "x2"), more,
		cancel(t, early, "x3"), early, void, load, place(t, "p", "c", 3, 2))
	r := judge(t, l, b1)
	wants(t, r,
		"judged confirmed", "judged confirmed", "judged rejected(sold_out)", "judged rejected(expired)", "judged confirmed",
		"judged rejected(duplicate_key)", "judged rejected(limit)", "judged done", "judged refused", "known rejected(sold_out)",
		"judged cancelled(operator) done", "judged cancelled(operator) nothing", "known rejected(limit)",
		"judged cancelled(cancelled_before_judged) done", "known cancelled(cancelled_before_judged)", "judged rejected(expired) done",
		"judged done", "known rejected(sold_out)")
	if got := fmt.Sprint(r.Settlements); got != "[{p 4 11 true}]" {
		t.Error(got)
	}
	books := checkBooks(t, l, "p")
	byID := map[order.ID]ledger.OrderRow{}
	for _, row := range books.Orders {
		byID[row.OrderID] = row
	}
	want := []ledger.OrderRow{
		{
			OrderID: a.Command.OrderID, Product: "p", UserID: "a", User: a.User, Place: a.Command.Place, Quantity: 2,
			State: order.StateCancelled, Reason: order.ReasonOperator, Version: 2, Digest: order.Digest(2, ""), Seq: 9,
		},
		{
			OrderID: keyed.Command.OrderID, Product: "p", UserID: "k", User: keyed.User, Place: keyed.Command.Place, Quantity: 1,
			State: order.StateConfirmed, Version: 1, IdemKey: "again", Digest: order.Digest(1, "again"), Seq: 5,
		},
		{
			OrderID: twin.Command.OrderID, Product: "p", UserID: "k", User: twin.User, Place: twin.Command.Place, Quantity: 1,
			State: order.StateRejected, Reason: order.ReasonDuplicateKey, Version: 1, Digest: order.Digest(1, "again"),
			DuplicateOf: keyed.Command.OrderID, Seq: 6,
		},
		{
			OrderID: early.Command.OrderID, Product: "p", UserID: "early", User: early.User,
			State: order.StateCancelled, Reason: order.ReasonCancelledBefore, Version: 2, Seq: 10,
		},
		{
			OrderID: void.Command.OrderID, Product: "p", User: void.User,
			State: order.StateRejected, Reason: order.ReasonExpired, Version: 1, Seq: 11,
		},
	}
	for _, w := range want {
		if diff := cmp.Diff(w, byID[w.OrderID], cmpopts.IgnoreFields(ledger.OrderRow{}, "JudgedAt")); diff != "" {
			t.Error(diff)
		}
	}

	// The whole batch again, and a part of it with something new behind: copies are known, what is new is judged.
	again := judge(t, l, b1)
	for i, v := range again.Verdicts {
		if v.Outcome != ledger.Known {
			t.Errorf("%d: %s", i, said(v))
		}
	}
	if !again.Settlements[0].Load {
		t.Error("a redone load_stock may still create the stock")
	}
	sameBooks(t, books, checkBooks(t, l, "p"))
	r = judge(t, l, ledger.Batch{Topic: "orders", NextOffset: 20, Commands: []ledger.Input{void, place(t, "p", "d", 10, 4)}})
	wants(t, r, "known rejected(expired) done", "judged rejected(limit)")
	if next, err := l.Progress(t.Context(), "orders"); err != nil || next[0] != 20 {
		t.Error(next, err)
	}
	judge(t, l, b1) // a zombie with an old batch
	if next, err := l.Progress(t.Context(), "orders"); err != nil || next[0] != 20 {
		t.Error("progress went back", next, err)
	}
}

func TestJudgeSoldOut(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "none", 0)
	ledgertest.Product(t, l, "one", 1)
	wants(t, judge(t, l, batch(place(t, "none", "a", 1, 1))), "judged rejected(sold_out)")
	inputs := make([]ledger.Input, 1000)
	for i := range inputs {
		inputs[i] = place(t, "one", fmt.Sprint("u", i), int64(i+1), 1)
	}
	r := judge(t, l, batch(inputs...))
	for i, v := range r.Verdicts {
		if confirmed := v.Order.State == order.StateConfirmed; confirmed != (i == 0) {
			t.Fatalf("%d: %s", i, said(v))
		}
	}
	checkBooks(t, l, "none")
	if n := len(checkBooks(t, l, "one").Outbox); n != 1000 {
		t.Fatalf("%d events", n)
	}
}

func TestJudgeLimitsAUser(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 1000)
	confirmed := 0
	for range 2 { // the second round finds what the user holds in the ledger
		inputs := make([]ledger.Input, 250)
		for i := range inputs {
			inputs[i] = place(t, "p", "greedy", int64(confirmed*1000+i+1), 1)
		}
		for _, v := range judge(t, l, batch(inputs...)).Verdicts {
			switch said(v) {
			case "judged confirmed":
				confirmed++
			case "judged rejected(limit)":
			default:
				t.Fatal(said(v))
			}
		}
	}
	if confirmed != 4 {
		t.Fatal(confirmed)
	}
	checkBooks(t, l, "p")
}

func TestJudgeTakesCopiesInOneBatch(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	a := place(t, "p", "a", 1, 1)
	wants(t, judge(t, l, batch(a, a, a)), "judged confirmed", "known confirmed", "known confirmed")
	if books := checkBooks(t, l, "p"); len(books.Orders) != 1 || len(books.Outbox) != 1 || books.Product.Sold != 1 {
		t.Fatal(books)
	}
}

// A zombie and its successor judge the same batch at once, again and again: the books are those of one judge.
func TestJudgeTwiceAtOnce(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	one, two := ledgertest.OpenAt(t, url), ledgertest.OpenAt(t, url)
	ledgertest.Product(t, one, "p", 40)
	for round := range 10 {
		inputs := make([]ledger.Input, 10)
		for i := range inputs {
			inputs[i] = place(t, "p", fmt.Sprintf("u%d-%d", round, i), int64(round*10+i+1), 1)
		}
		b := batch(inputs...)
		results := make([]ledger.Result, 4)
		start := make(chan struct{})
		var running sync.WaitGroup
		for i := range results {
			running.Go(func() {
				<-start
				r, err := []*ledger.Ledger{one, two}[i%2].Judge(t.Context(), b)
				if err != nil {
					t.Error(err)
				}
				results[i] = r
			})
		}
		close(start)
		running.Wait()
		judged := 0
		for i := range b.Commands {
			for _, r := range results {
				if r.Verdicts[i].Outcome == ledger.Judged {
					judged++
				}
				if r.Verdicts[i].Order.State != results[0].Verdicts[i].Order.State {
					t.Fatalf("two verdicts on one order: %s, %s", said(r.Verdicts[i]), said(results[0].Verdicts[i]))
				}
			}
		}
		if judged != len(b.Commands) {
			t.Fatalf("%d verdicts for %d orders", judged, len(b.Commands))
		}
	}
	checkBooks(t, one, "p")
}

// Two consumers with batches over the same products in opposite orders, as an operator's wrong key or a changed partition count would
// give them: never a deadlock, since the lock has one order.
func TestJudgeReversedProducts(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	l := ledgertest.OpenAt(t, url)
	var products []product.ID
	for i := range 6 {
		products = append(products, product.ID(fmt.Sprint("p", i)))
		ledgertest.Product(t, l, products[i], 1000)
	}
	reversed := slices.Clone(products)
	slices.Reverse(reversed)
	var running sync.WaitGroup
	for side, list := range [][]product.ID{products, reversed} {
		running.Go(func() {
			judge := ledgertest.OpenAt(t, url)
			for round := range 50 {
				var inputs []ledger.Input
				for _, p := range list {
					inputs = append(inputs, place(t, p, fmt.Sprintf("u%d-%d", side, round), int64(round*2+side+1), 1))
				}
				if _, err := judge.Judge(t.Context(), batch(inputs...)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	for _, p := range products {
		if books := checkBooks(t, l, p); books.Product.Sold != 100 {
			t.Fatalf("%s: %d sold", p, books.Product.Sold)
		}
	}
	var deadlocks int
	if err := l.Pool().QueryRow(t.Context(),
		`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil || deadlocks != 0 {
		t.Fatal(deadlocks, err)
	}
}

// P5: one order, one outbox row, whichever side of the commit the connection broke on, and also when the retries run out.
func TestJudgeRedoesAnUnknownCommit(t *testing.T) {
	t.Parallel()
	for _, cut := range []postgrestest.Cut{postgrestest.Before, postgrestest.After} {
		for times, fails := range map[int]bool{1: false, 3: false, 5: true} {
			t.Run(fmt.Sprint(cut, ", times ", times), func(t *testing.T) {
				t.Parallel()
				url := ledgertest.URL(t)
				direct := ledgertest.OpenAt(t, url)
				ledgertest.Product(t, direct, "p", 3)
				proxy := postgrestest.NewProxy(t, url, cut, times)
				l := ledgertest.OpenAt(t, proxy.URL)
				b := batch(place(t, "p", "a", 1, 2), place(t, "p", "b", 2, 2), cancel(t, place(t, "p", "c", 3, 1), "x"))
				r, err := l.Judge(t.Context(), b)
				if proxy.Cuts() != times || (err != nil) != fails || fails && !errors.Is(err, ledger.ErrTransient) {
					t.Fatalf("%d cuts: %v", proxy.Cuts(), err)
				}
				if fails {
					r = judge(t, l, b) // what intake does with the batch
				}
				for i, state := range []order.State{order.StateConfirmed, order.StateRejected, order.StateCancelled} {
					if got := r.Verdicts[i].Order.State; got != state {
						t.Errorf("%d: %s", i, got)
					}
				}
				if books := checkBooks(t, direct, "p"); len(books.Orders) != 3 || books.Product.Sold != 2 || books.Product.Seq != 3 {
					t.Fatal(books.Product)
				}
			})
		}
	}
}

func TestJudgeSaysWhenTheServerIsAway(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), postgres.At("postgres://nobody@127.0.0.1:1/nothing?sslmode=disable"), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Judge(t.Context(), batch(place(t, "p", "a", 1, 1))); !errors.Is(err, ledger.ErrTransient) {
		t.Fatal(err)
	}
	if err := l.Ping(t.Context()); !errors.Is(err, ledger.ErrTransient) {
		t.Fatal(err)
	}
	if _, err := l.Judge(t.Context(), ledger.Batch{}); !errors.Is(err, ledger.ErrInvalid) || errors.Is(err, ledger.ErrTransient) {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(err), "<nil>") {
		t.Fatal(err)
	}
}
