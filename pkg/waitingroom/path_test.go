package waitingroom_test

import (
	"errors"
	"testing"

	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// One person's way through the line: joined, admitted, bound, judged.
func TestRoomPath(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.room.Join(b.ctx, b.product, user(1), nil); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("join without settings: %v", err)
	}
	b.open(settings(), 1, 10)
	s := b.join(user(1))
	if !s.Created || s.State != waitingroom.Waiting || s.Position != 1 || s.Ahead != 0 || s.Total != 1 || s.Place.Inc() != 1 {
		t.Fatalf("first join: %+v", s)
	}
	if again := b.join(user(1)); again.Created || again.Place != s.Place {
		t.Fatalf("second join: %+v", again)
	}
	if second := b.join(user(2)); second.Position != 2 || second.Place <= s.Place {
		t.Fatalf("second person: %+v", second)
	}
	b.balance()
	b.admit(1)
	admitted := b.status(user(1))
	if admitted.State != waitingroom.Active || admitted.Place != s.Place || admitted.LeaseEndMS != admitted.AdmittedMS+settings().PassMS {
		t.Fatalf("admitted: %+v", admitted)
	}
	if v := b.view(); v.Front != s.Place || v.Active != 1 || v.Admitted != 1 {
		t.Fatalf("product: %+v", v)
	}
	b.balance()
	request := b.request(user(1), s.Place, 2)
	if r := b.bind(request); r.Outcome != waitingroom.BindBound || !r.First || string(r.Command) != string(request.Command) {
		t.Fatalf("bind: %+v", r)
	}
	if r := b.bind(request); r.Outcome != waitingroom.BindBound || r.First || string(r.Command) != string(request.Command) {
		t.Fatalf("bind again: %+v", r)
	}
	if o := b.status(user(1)); o.State != waitingroom.Ordering || o.OrderID != request.OrderID || b.view().Held != 2 || b.view().Free() != 8 {
		t.Fatalf("ordering: %+v", o)
	}
	b.balance()
	intents := func(want bool) {
		t.Helper()
		one, err := b.room.HasIntent(b.ctx, b.product, request.OrderID)
		b.check(err)
		if one != want {
			t.Fatalf("intent: %v, expected %v", one, want)
		}
	}
	intents(true)
	b.check(b.counter.Settle(b.ctx, b.product, 8, 1, false, []stock.Judged{{OrderID: request.OrderID, User: user(1), Place: s.Place}}))
	intents(false)
	o := b.status(user(1))
	if o.State != waitingroom.Ordered || o.OrderID != request.OrderID || o.Product.Base != 8 || b.view().Held != 0 || b.view().Seq != 1 {
		t.Fatalf("ordered: %+v", o)
	}
	if r := b.bind(request); r.Outcome != waitingroom.BindJudged {
		t.Fatalf("bind after the verdict: %+v", r)
	}
	b.balance()
}

// An order that nobody can account for is closed before it is voided, and only when its user does not stand in the line.
func TestForsake(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	forsake := func(u int, place product.Place, want waitingroom.Forsaken) {
		t.Helper()
		got, err := b.room.Forsake(b.ctx, b.product, user(u), b.id(user(u), place))
		b.check(err)
		if got != want {
			t.Fatalf("forsake: %s, expected %s", got, want)
		}
	}
	forsake(1, 7, waitingroom.ForsakeAbsent)
	b.open(settings(), 1, 10)
	s := b.join(user(1))
	forsake(1, s.Place, waitingroom.ForsakeInLine)
	b.admit(1)
	forsake(1, s.Place, waitingroom.ForsakeInLine)
	request := b.request(user(1), s.Place, 1)
	if r := b.bind(request); r.Outcome != waitingroom.BindBound {
		t.Fatalf("bind: %+v", r)
	}
	forsake(1, s.Place, waitingroom.ForsakeBound)

	second := b.request(user(2), s.Place+1, 1)
	for range 2 {
		forsake(2, s.Place+1, waitingroom.ForsakeDone)
	}
	if r := b.bind(second); r.Outcome != waitingroom.BindJudged {
		t.Fatalf("bind of a forsaken order: %+v", r)
	}
	b.balance()
}
