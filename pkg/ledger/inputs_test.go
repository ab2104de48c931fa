package ledger_test

import (
	"testing"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// start is the record time of every input here; deadlines are set from it.
func start() time.Time { return time.UnixMilli(1_800_000_000_000) }

func key(t testing.TB) keyring.Key {
	t.Helper()
	k, err := keyring.Parse("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// place is a verified place of a user, its order id derived as the API does.
func place(t testing.TB, p product.ID, user string, low int64, quantity int) ledger.Input {
	t.Helper()
	u := product.HashUser(key(t), product.UserID(user))
	n := product.MakePlace(1, low)
	id := order.DeriveID(key(t), p, u, n, start().UnixMicro())
	return ledger.Input{
		At: start(), Key: []byte(p), Raw: []byte(`{"kind":"place"}`), User: u,
		Command: order.Command{
			Version: 1, Kind: order.KindPlace, ID: string(id), Product: p, OrderID: id, User: product.UserID(user),
			Place: n, Quantity: quantity, Pass: "-", DeadlineMS: start().Add(time.Minute).UnixMilli(),
		},
	}
}

func command(t testing.TB, kind order.Kind, p product.ID, id string, change func(*order.Command)) ledger.Input {
	t.Helper()
	c := order.Command{Version: 1, Kind: kind, ID: id, Product: p}
	if change != nil {
		change(&c)
	}
	in := ledger.Input{At: start(), Key: []byte(p), Raw: []byte(`{"kind":"` + string(kind) + `"}`), Command: c}
	if c.User != "" {
		in.User = product.HashUser(key(t), c.User)
	}
	if c.UserHash != "" {
		in.User = c.UserHash
	}
	return in
}

// cancel is the operator's cancel of a place.
func cancel(t testing.TB, of ledger.Input, id string) ledger.Input {
	t.Helper()
	return command(t, order.KindCancel, of.Command.Product, id, func(c *order.Command) {
		c.OrderID, c.User, c.Quantity = of.Command.OrderID, of.Command.User, of.Command.Quantity
	})
}

func batch(inputs ...ledger.Input) ledger.Batch {
	for i := range inputs {
		inputs[i].Offset = int64(i)
	}
	return ledger.Batch{Topic: "orders", Partition: 0, NextOffset: int64(len(inputs)), Commands: inputs}
}

func judge(t testing.TB, l *ledger.Ledger, b ledger.Batch) ledger.Result {
	t.Helper()
	r, err := l.Judge(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Verdicts) != len(b.Commands) {
		t.Fatalf("%d verdicts for %d commands", len(r.Verdicts), len(b.Commands))
	}
	return r
}

func said(v ledger.Verdict) string {
	s := string(v.Outcome)
	if v.Order != nil {
		s += " " + string(v.Order.State)
		if v.Order.Reason != "" {
			s += "(" + string(v.Order.Reason) + ")"
		}
	}
	if v.Command != nil {
		s += " " + v.Command.Result
	}
	if v.Park != "" {
		s += " " + v.Park
	}
	return s
}
