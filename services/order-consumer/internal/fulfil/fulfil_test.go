package fulfil

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/services/order-consumer/internal/intake"
)

var errCrash = errors.New("crash")

// mixed is a batch with one of everything, after five users were bound to one unit each of the three that there are.
func mixed(t *testing.T, s *sale) intake.Batch {
	t.Helper()
	s.bind(1, "a", "b", "c", "d", "e")
	place := func(u product.UserID) kafka.Message { return s.record(t, s.places[u]) }
	cancel := s.signed(t, order.Command{Kind: order.KindCancel, ID: "cancel b", Product: "p", OrderID: s.places["b"].OrderID, User: "b", Quantity: 1})
	void := s.signed(t, order.Command{
		Kind: order.KindVoid, ID: "void c", Product: "p", OrderID: s.places["c"].OrderID, UserHash: product.HashUser(s.user, "c"),
	})
	adjust := s.signed(t, order.Command{Kind: order.KindAdjust, ID: "adjust", Product: "p", Delta: -1})
	load := s.signed(t, order.Command{Kind: order.KindLoadStock, ID: "load", Product: "p"})
	broken := kafka.Message{Time: s.recorded, Key: []byte("p"), Value: []byte("no command")}
	return batch(40, place("a"), place("b"), place("a"), place("c"), broken, place("d"), s.record(t, cancel), s.record(t, void),
		place("e"), s.record(t, adjust), s.record(t, load), place("b"))
}

const mixedSummary = `stock 3 of 3 sold, seq 6
outbox 1 order-events hanjul.order.confirmed left 2
outbox 2 order-events hanjul.order.confirmed left 1
outbox 3 order-events hanjul.order.confirmed left 0
outbox 4 order-events hanjul.order.rejected left 0
outbox 5 order-events hanjul.order.cancelled left 1
outbox 6 order-events hanjul.order.confirmed left 0
outbox 0 orders.dead-letters hanjul.command.parked left 0
command adjust refused seq 0
command cancel b done seq 5
command load done seq 0
command void c nothing seq 0
letter 44 undecodable
a: row confirmed() v1 seq 1; status true confirmed() v2; line ordered in 1
b: row cancelled(operator) v2 seq 5; status true cancelled(operator) v3; line ordered in 1
c: row confirmed() v1 seq 3; status true confirmed() v2; line ordered in 1
d: row rejected(sold_out) v1 seq 4; status true rejected(sold_out) v2; line ordered in 1
e: row confirmed() v1 seq 6; status true confirmed() v2; line ordered in 1
slot base 0 held 0 = 0 in flight 0 ordered 5
`

// O3, O4, O5: whatever step the process dies behind, and however often, the next run ends where an undisturbed one does.
func TestFulfilCrashTable(t *testing.T) {
	t.Parallel()
	for name, crashes := range map[string][]string{
		"undisturbed":             nil,
		"behind judge":            {StepJudge},
		"behind settle":           {StepSettle},
		"behind tell":             {StepTell},
		"behind each in turn":     {StepJudge, StepSettle, StepTell},
		"twice behind the same":   {StepJudge, StepJudge, StepSettle, StepSettle},
		"backwards":               {StepTell, StepSettle, StepJudge},
		"and redelivered at rest": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSale(t, 3, 10)
			b := mixed(t, s)
			for _, step := range crashes {
				s.fault = func(at string) error {
					if at == step {
						return errCrash
					}
					return nil
				}
				if err := s.fulfiller.Fulfil(t.Context(), b); (err != nil) != (step != "") || err != nil && !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
			}
			s.fault = func(string) error { return nil }
			s.must(s.fulfiller.Fulfil(t.Context(), b))
			if diff := cmp.Diff(mixedSummary, s.summary()); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// Half of a step, then the store is gone: the batch comes again and ends where it should; nothing is parked for it.
func TestFulfilAfterHalfAStep(t *testing.T) {
	t.Parallel()
	s := newSale(t, 3, 10)
	b := mixed(t, s)
	away := errors.New("store is away")
	s.fulfiller.Stock = settleFunc(func(ctx context.Context, p product.ID, base, seq int64, create bool, judged []stock.Judged) error {
		s.must(s.counter.Settle(ctx, p, base, seq, create, judged[:len(judged)/2]))
		return away
	})
	for range 3 {
		if err := s.fulfiller.Fulfil(t.Context(), b); !errors.Is(err, away) {
			t.Fatal(err)
		}
	}
	s.fulfiller.Stock = s.counter
	s.fulfiller.Status = putFunc(func(ctx context.Context, entries []orderstatus.Entry) (int, error) {
		_, err := s.status.PutMany(ctx, entries[:len(entries)/2])
		s.must(err)
		return 0, away
	})
	for range 3 {
		if err := s.fulfiller.Fulfil(t.Context(), b); !errors.Is(err, away) {
			t.Fatal(err)
		}
	}
	s.fulfiller.Status = s.status
	s.must(s.fulfiller.Fulfil(t.Context(), b))
	if diff := cmp.Diff(mixedSummary, s.summary()); diff != "" {
		t.Fatal(diff)
	}
}

type settleFunc func(context.Context, product.ID, int64, int64, bool, []stock.Judged) error

func (f settleFunc) Settle(ctx context.Context, p product.ID, base, seq int64, create bool, judged []stock.Judged) error {
	return f(ctx, p, base, seq, create, judged)
}

type putFunc func(context.Context, []orderstatus.Entry) (int, error)

func (f putFunc) PutMany(ctx context.Context, entries []orderstatus.Entry) (int, error) {
	return f(ctx, entries)
}

// A consumer stands still between its judge and its settle while its successor goes on; what it then writes is of an older version.
func TestFulfilZombie(t *testing.T) {
	t.Parallel()
	s := newSale(t, 3, 3)
	s.bind(1, "a", "b")
	first := batch(0, s.record(t, s.places["a"]))
	cancel := s.signed(t, order.Command{Kind: order.KindCancel, ID: "x", Product: "p", OrderID: s.places["a"].OrderID, User: "a", Quantity: 1})
	second := batch(1, s.record(t, cancel), s.record(t, s.places["b"]))
	successor := New(Config{Ledger: s.ledger, Stock: s.counter, Status: s.status, Verifier: s.verifier})
	s.fault = func(step string) error {
		if step == StepJudge {
			s.must(successor.Fulfil(t.Context(), first))
			s.must(successor.Fulfil(t.Context(), second))
		}
		return nil
	}
	s.must(s.fulfiller.Fulfil(t.Context(), first))
	want := `stock 1 of 3 sold, seq 3
outbox 1 order-events hanjul.order.confirmed left 2
outbox 2 order-events hanjul.order.cancelled left 3
outbox 3 order-events hanjul.order.confirmed left 2
command x done seq 2
a: row cancelled(operator) v2 seq 2; status true cancelled(operator) v3; line ordered in 1
b: row confirmed() v1 seq 3; status true confirmed() v2; line ordered in 1
slot base 2 held 0 = 0 in flight 0 ordered 2
`
	if diff := cmp.Diff(want, s.summary()); diff != "" {
		t.Fatal(diff)
	}
}

// F20: a command of a later build stops its partition. What stands before it is told; it and what stands behind it wait.
func TestFulfilStopsAtALaterVersion(t *testing.T) {
	t.Parallel()
	s := newSale(t, 3, 3)
	s.bind(1, "a", "b")
	later := s.record(t, s.places["b"])
	later.Value = []byte(strings.Replace(string(later.Value), `"v":1`, `"v":9`, 1))
	for _, b := range []intake.Batch{batch(0, s.record(t, s.places["a"]), later, s.record(t, s.places["b"])), batch(1, later)} {
		if err := s.fulfiller.Fulfil(t.Context(), b); !errors.Is(err, order.ErrVersion) {
			t.Fatal(err)
		}
	}
	want := `stock 1 of 3 sold, seq 1
outbox 1 order-events hanjul.order.confirmed left 2
a: row confirmed() v1 seq 1; status true confirmed() v2; line ordered in 1
b: row ; status false () v0; line ordering in 1
slot base 2 held 1 = 1 in flight 1 ordered 1
`
	if diff := cmp.Diff(want, s.summary()); diff != "" {
		t.Fatal(diff)
	}
	if next, err := s.ledger.Progress(t.Context(), "orders"); err != nil || next[3] != 1 {
		t.Fatal(next, err)
	}
	if n := testutil.ToFloat64(s.fulfiller.metrics.unknownVersion); n != 2 {
		t.Fatal(n)
	}
}

// F20: a parked order stays pending: its hold, its intent and its place in the line stay as they were.
func TestFulfilLeavesAParkedOrderPending(t *testing.T) {
	t.Parallel()
	s := newSale(t, 3, 3)
	s.bind(1, "a", "b")
	odd := s.places["a"]
	odd.IdempotencyKey = "\x00"
	b := batch(0, s.record(t, odd), s.record(t, s.places["a"]), s.record(t, s.places["b"]))
	s.must(s.fulfiller.Fulfil(t.Context(), b))
	s.must(s.fulfiller.Fulfil(t.Context(), b))
	want := `stock 1 of 3 sold, seq 1
outbox 1 order-events hanjul.order.confirmed left 2
outbox 0 orders.dead-letters hanjul.command.parked left 0
letter 0 unstorable
a: row ; status false () v0; line ordering in 1
b: row confirmed() v1 seq 1; status true confirmed() v2; line ordered in 1
slot base 2 held 1 = 1 in flight 1 ordered 1
`
	if diff := cmp.Diff(want, s.summary()); diff != "" {
		t.Fatal(diff)
	}
}

// F11: only the settle of a load_stock creates the stock of a slot that does not know it.
func TestFulfilCreatesStockForALoadOnly(t *testing.T) {
	t.Parallel()
	s := newSale(t, 3, 3)
	var created []bool
	s.fulfiller.Stock = settleFunc(func(_ context.Context, _ product.ID, base, seq int64, create bool, judged []stock.Judged) error {
		created = append(created, create)
		return nil
	})
	s.bind(1, "a")
	load := s.record(t, s.signed(t, order.Command{Kind: order.KindLoadStock, ID: "l", Product: "p"}))
	s.must(s.fulfiller.Fulfil(t.Context(), batch(0, s.record(t, s.places["a"]))))
	s.must(s.fulfiller.Fulfil(t.Context(), batch(1, load, s.record(t, s.places["a"]))))
	s.must(s.fulfiller.Fulfil(t.Context(), batch(2, s.record(t, s.places["a"]))))
	if diff := cmp.Diff([]bool{false, true, false}, created); diff != "" {
		t.Fatal(diff)
	}
	s.must(s.fulfiller.Fulfil(t.Context(), intake.Batch{Topic: "orders"}))
}

// While the ledger is away nothing is decided, nothing parked; the error says that it passes.
func TestFulfilWithoutALedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, err := ledger.Open(t.Context(), postgres.At("postgres://nobody@127.0.0.1:1/nothing?sslmode=disable"), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := New(Config{Ledger: l, Verifier: w.verifier})
	if err := f.Fulfil(t.Context(), batch(0, w.record(t, w.place(t, w.pass("p", "a", 1), 1)))); !errors.Is(err, ledger.ErrTransient) {
		t.Fatal(err)
	}
}

func TestFulfilMetrics(t *testing.T) {
	t.Parallel()
	s := newSale(t, 3, 10)
	b := mixed(t, s)
	s.must(s.fulfiller.Fulfil(t.Context(), b))
	want := `
# HELP hanjul_fulfil_commands_total Commands judged, by kind, verdict and reason.
# TYPE hanjul_fulfil_commands_total counter
hanjul_fulfil_commands_total{kind="adjust",reason="",verdict="refused"} 1
hanjul_fulfil_commands_total{kind="cancel",reason="",verdict="done"} 1
hanjul_fulfil_commands_total{kind="load_stock",reason="",verdict="done"} 1
hanjul_fulfil_commands_total{kind="place",reason="",verdict="confirmed"} 4
hanjul_fulfil_commands_total{kind="place",reason="sold_out",verdict="rejected"} 1
hanjul_fulfil_commands_total{kind="void",reason="",verdict="nothing"} 1
# HELP hanjul_fulfil_known_total Copies of judged or parked commands that changed nothing, by kind.
# TYPE hanjul_fulfil_known_total counter
hanjul_fulfil_known_total{kind="place"} 2
# HELP hanjul_fulfil_parked_total Commands parked as dead letters, by reason.
# TYPE hanjul_fulfil_parked_total counter
hanjul_fulfil_parked_total{reason="undecodable"} 1
`
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want),
		"hanjul_fulfil_commands_total", "hanjul_fulfil_known_total", "hanjul_fulfil_parked_total"); err != nil {
		t.Fatal(err)
	}
}
