package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// ledgerBooks is everything that the ledger keeps about a product, for comparing two moments.
type ledgerBooks struct {
	Product  ledger.ProductRow
	Orders   []ledger.OrderRow
	Outbox   []ledger.OutboxRow
	Commands []ledger.CommandRow
	Letters  []ledger.LetterRow
}

func readBooks(t testing.TB, l *ledger.Ledger, p product.ID) ledgerBooks {
	t.Helper()
	var b ledgerBooks
	err := l.Snapshot(t.Context(), p, func(s *ledger.Snapshot) (err error) {
		if b.Product, err = s.Product(); err != nil {
			return err
		}
		if err := s.EachOrder(func(r ledger.OrderRow) error { b.Orders = append(b.Orders, r); return nil }); err != nil {
			return err
		}
		if err := s.EachOutbox(func(r ledger.OutboxRow) error { b.Outbox = append(b.Outbox, r); return nil }); err != nil {
			return err
		}
		if err := s.EachCommand(func(r ledger.CommandRow) error { b.Commands = append(b.Commands, r); return nil }); err != nil {
			return err
		}
		return s.EachLetter(func(r ledger.LetterRow) error { b.Letters = append(b.Letters, r); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkBooks holds a product's books against themselves: what is sold is what is confirmed, every event is there once and in an
// unbroken chain, every order's last event is the one its row names.
func checkBooks(t testing.TB, l *ledger.Ledger, p product.ID) ledgerBooks {
	t.Helper()
	b := readBooks(t, l, p)
	var sold, seq int64
	events := map[string]int64{}
	for _, r := range b.Outbox {
		if r.Seq == 0 {
			continue
		}
		seq++
		if r.Seq != seq {
			t.Fatalf("event %d follows %d", r.Seq, seq-1)
		}
		if _, twice := events[r.ID]; twice {
			t.Fatalf("event id %s twice", r.ID)
		}
		events[r.ID] = r.Seq
		e, err := order.DecodeEvent(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		subject := string(p)
		if e.OrderID != nil {
			subject = string(*e.OrderID)
		}
		if e.Seq != r.Seq || e.LeftAfter != r.LeftAfter || string(e.Type) != r.Type || r.Subject != subject || r.Product != p {
			t.Fatalf("event %d differs from its row: %+v, %+v", seq, e, r)
		}
	}
	for _, o := range b.Orders {
		if o.State == order.StateConfirmed {
			sold += int64(o.Quantity)
		}
		if at := events[order.OrderEventID(o.OrderID, o.Version)]; at != o.Seq {
			t.Fatalf("order %s names event %d, its event is %d", o.OrderID, o.Seq, at)
		}
	}
	if b.Product.Seq != seq || b.Product.Sold != sold || sold < 0 || sold > b.Product.Total {
		t.Fatalf("stock says %d of %d sold at %d; orders say %d, events %d", b.Product.Sold, b.Product.Total, b.Product.Seq, sold, seq)
	}
	return b
}

// sameBooks fails unless nothing has changed.
func sameBooks(t testing.TB, before, after ledgerBooks) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Fatalf("books changed:\n%s", diff)
	}
}
