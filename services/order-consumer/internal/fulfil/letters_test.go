package fulfil

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
)

const lettersSummary = `stock 1 of 3 sold, seq 3
outbox 1 order-events hanjul.order.cancelled left 3
outbox 2 order-events hanjul.order.rejected left 3
outbox 3 order-events hanjul.order.confirmed left 2
outbox 0 orders.dead-letters hanjul.command.parked left 0
outbox 0 orders.dead-letters hanjul.command.parked left 0
outbox 0 orders hanjul.command.queued left 0
outbox 0 orders hanjul.command.queued left 0
command cancel a done seq 1
command drop b done seq 2
letter 0 invalid
letter 1 unknown_key
a: row cancelled(cancelled_before_judged) v2 seq 1; status true cancelled(cancelled_before_judged) v3; line ordered in 1
b: row rejected(failed) v1 seq 2; status true rejected(failed) v2; line ordered in 1
c: row confirmed() v1 seq 3; status true confirmed() v2; line ordered in 1
slot base 2 held 0 = 0 in flight 0 ordered 3
`

// F20: what is parked stays pending and holds its units, until an operator's drop or redrive has come through the log; the hold is given
// back once and the user reads what became of it. A cancel that overtakes its order does the same (F6). Each of them comes twice, and the
// process dies behind each step.
func TestFulfilWhatOperatorsSend(t *testing.T) {
	t.Parallel()
	s := newSale(t, 3, 3)
	ctx := t.Context()
	s.bind(1, "a", "b", "c")
	invalid := s.places["b"]
	invalid.Quantity = 5000 // its pass is genuine
	c := s.record(t, s.places["c"])
	s.must(s.fulfiller.Fulfil(ctx, batch(0, s.record(t, invalid))))
	if _, err := s.ledger.Judge(ctx, ledger.Batch{Topic: "orders", Partition: 3, NextOffset: 2, Commands: []ledger.Input{{
		Offset: 1, At: c.Time, Key: c.Key, Raw: c.Value,
		Park: &ledger.Park{Reason: "unknown_key", Product: "p", OrderID: s.places["c"].OrderID}, // as an earlier build might have parked it
	}}}); err != nil {
		t.Fatal(err)
	}
	s.must(s.fulfiller.Fulfil(ctx, batch(2, s.record(t, invalid), c)))
	if out := s.summary(); !strings.Contains(out, "held 3 = 3 in flight 3") || strings.Contains(out, "row rejected") {
		t.Fatalf("what is parked is pending and keeps its hold:\n%s", out)
	}

	drop := s.record(t, s.signed(t, order.Command{Kind: order.KindDrop, ID: "drop b", Product: "p", OrderID: invalid.OrderID, User: "b"}))
	if _, err := s.ledger.Drop(ctx, ledger.LetterAction{RequestID: "drop b", Operator: "kim", Letter: 1}, drop.Value); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ledger.Redrive(ctx, ledger.LetterAction{RequestID: "again c", Operator: "kim", Letter: 2}); err != nil {
		t.Fatal(err)
	}
	cancel := s.record(t, s.signed(t, order.Command{Kind: order.KindCancel, ID: "cancel a", Product: "p", OrderID: s.places["a"].OrderID, User: "a", Quantity: 1}))
	operators := []kafka.Message{cancel, drop}
	s.must(s.ledger.Snapshot(ctx, "p", func(snap *ledger.Snapshot) error {
		return snap.EachOutbox(func(r ledger.OutboxRow) error {
			if r.ID == order.OutboxCommandID("again c") {
				operators = append(operators, kafka.Message{Time: s.recorded.AddDate(0, 0, 1), Key: []byte(r.Product), Value: r.Payload})
			}
			return nil
		})
	}))
	b := batch(4, append(append(operators, s.record(t, s.places["a"]), s.record(t, s.places["b"])), operators...)...)
	for _, step := range []string{StepJudge, StepSettle, StepTell} {
		s.fault = func(at string) error {
			if at == step {
				return errCrash
			}
			return nil
		}
		if err := s.fulfiller.Fulfil(ctx, b); err == nil {
			t.Fatal("no crash behind", step)
		}
	}
	s.fault = func(string) error { return nil }
	for range 2 {
		s.must(s.fulfiller.Fulfil(ctx, b))
		if diff := cmp.Diff(lettersSummary, s.summary()); diff != "" {
			t.Fatal(diff)
		}
	}
}
