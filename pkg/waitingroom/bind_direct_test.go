package waitingroom_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// off turns the queue off, with further changes of the settings.
func (b *bundle) off(changes ...func(*product.Settings)) {
	b.t.Helper()
	b.put(func(s *product.Settings) {
		s.QueueOn = false
		for _, change := range changes {
			change(s)
		}
	})
}

// direct is an order of a user's key.
func (b *bundle) direct(n int, key string, quantity int) waitingroom.DirectRequest {
	id := order.DeriveDirectID(testKey(), b.product, user(n), key)
	return waitingroom.DirectRequest{
		Product: b.product, User: user(n), OrderID: id, Digest: order.Digest(quantity, key), Quantity: quantity,
		Command: []byte("direct|of|" + string(id) + "\x00\xff" + strconv.Itoa(quantity)),
	}
}

func (b *bundle) bindDirect(r waitingroom.DirectRequest) waitingroom.BindResult {
	b.t.Helper()
	result, err := b.room.BindDirect(b.ctx, r)
	b.check(err)
	return result
}

// settle ends an order that has no place, as the consumer does.
func (b *bundle) settle(base, seq int64, u product.UserHash, id order.ID) {
	b.t.Helper()
	b.check(b.counter.Settle(b.ctx, b.product, base, seq, false, []stock.Judged{{OrderID: id, User: u}}))
}

// Whoever orders directly is in one set only, whatever they were, and keeps the place that they had; who had none is behind everybody
// who joined before (F17, R2, I6).
func TestRoomBindDirectEndsEveryStanding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*bundle) waitingroom.Standing
		keeps   bool
	}{
		"Nobody":  {func(b *bundle) waitingroom.Standing { return b.status(user(1)) }, false},
		"Waiting": {func(b *bundle) waitingroom.Standing { return b.join(user(1)) }, true},
		"Away": {func(b *bundle) waitingroom.Standing {
			s := b.join(user(1))
			b.check(b.room.SendAway(b.ctx, b.product, user(1)))
			return s
		}, true},
		"Active": {func(b *bundle) waitingroom.Standing { return b.admitted(1) }, true},
		"ActiveButOver": {func(b *bundle) waitingroom.Standing {
			s := b.admitted(1)
			b.check(b.room.Expire(b.ctx, b.product, user(1)))
			return s
		}, false},
		"Left": {func(b *bundle) waitingroom.Standing {
			s := b.join(user(1))
			b.check(errorOf(b.room.Leave(b.ctx, b.product, user(1), s.Place)))
			return s
		}, false},
		"Ordered": {func(b *bundle) waitingroom.Standing {
			s := b.admitted(1)
			r := b.request(user(1), s.Place, 1)
			b.bind(r)
			b.check(b.counter.Settle(b.ctx, b.product, 9, 1, false, []stock.Judged{{OrderID: r.OrderID, User: user(1), Place: s.Place}}))
			return s
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.open(settings(), 1, 10)
			before := c.prepare(b)
			last := b.join(user(9)).Place
			b.off()
			r := b.direct(1, "k", 2)
			if got := b.bindDirect(r); got.Outcome != waitingroom.BindBound || !got.First {
				t.Fatalf("%+v", got)
			}
			if got := b.bindDirect(r); got.Outcome != waitingroom.BindBound || got.First || string(got.Command) != string(r.Command) {
				t.Fatalf("again: %+v", got)
			}
			m, err := b.room.Membership(b.ctx, b.product, user(1))
			b.check(err)
			if m.Sets != 1 || m.Record != waitingroom.Ordering || m.OrderID != r.OrderID || !m.HasIntent {
				t.Fatalf("%+v", m)
			}
			if c.keeps && m.Place != before.Place || !c.keeps && m.Place <= last {
				t.Fatalf("at place %s, was at %s; the last that joined is at %s", m.Place, before.Place, last)
			}
			b.balance()
			// A pass that is shown after all buys nothing more: its place went into this order.
			if before.State == waitingroom.Active {
				if got := b.bind(b.request(user(1), before.Place, 1)); got.Outcome != waitingroom.BindRefused && got.Outcome != waitingroom.BindJudged {
					t.Fatalf("the pass: %+v", got)
				}
			}
			// Nor does a ticket bring the place back beside it.
			if before.Place > 0 {
				claim := &waitingroom.TicketClaim{Place: before.Place, OrderID: b.id(user(1), before.Place)}
				if s, err := b.room.Status(b.ctx, b.product, user(1), claim); err != nil || s.State != waitingroom.Ordering {
					t.Fatalf("the ticket: %+v, %v", s, err)
				}
			}
			b.settle(b.view().Base-2, 7, user(1), r.OrderID)
			if s := b.status(user(1)); s.State != waitingroom.Ordered || s.OrderID != r.OrderID || s.Place != m.Place {
				t.Fatalf("after the verdict: %+v", s)
			}
			if got := b.bindDirect(r); got.Outcome != waitingroom.BindJudged {
				t.Fatalf("after the verdict: %+v", got)
			}
			if b.view().Held != 0 {
				t.Fatalf("held %d", b.view().Held)
			}
			b.balance()
		})
	}
}

// What refuses an order without a pass changes nothing, asked once or twice.
func TestRoomBindDirectOutcomes(t *testing.T) {
	t.Parallel()
	other := func(b *bundle) { b.bindDirect(b.direct(2, "k", 1)) }
	for name, c := range map[string]struct {
		prepare func(*bundle)
		want    waitingroom.BindOutcome
		err     error
	}{
		"QueueOn":      {func(*bundle) {}, waitingroom.BindQueueOn, nil},
		"NoSettings":   {func(b *bundle) { b.check(b.room.Forget(b.ctx, b.product)) }, "", waitingroom.ErrNotReady},
		"NotOpen":      {func(b *bundle) { b.off(func(s *product.Settings) { s.State = product.NotOpen }) }, "", waitingroom.ErrNotOpen},
		"Closed":       {func(b *bundle) { b.off(func(s *product.Settings) { s.State = product.Closed }) }, "", waitingroom.ErrClosed},
		"Paused":       {func(b *bundle) { b.off(func(s *product.Settings) { s.State = product.Paused }) }, waitingroom.BindBound, nil},
		"Halted":       {func(b *bundle) { b.off(func(s *product.Settings) { s.OrdersHalted = true }) }, waitingroom.BindHalted, nil},
		"InFlight":     {func(b *bundle) { b.off(func(s *product.Settings) { s.InflightMax = 1 }); other(b) }, waitingroom.BindBusy, nil},
		"StockUnknown": {func(b *bundle) { b.off(); b.check(b.counterForget()) }, waitingroom.BindBusy, nil},
		"SoldOut":      {func(b *bundle) { b.off(); b.bindDirect(b.direct(2, "k", 9)) }, waitingroom.BindSoldOut, nil},
		"Banned": {func(b *bundle) {
			b.off()
			b.check(b.room.Ban(b.ctx, b.product, user(1), time.Now().Add(time.Hour).UnixMilli()))
		}, waitingroom.BindRefused, nil},
		"AnotherQuantity": {func(b *bundle) { b.off(); b.bindDirect(b.direct(1, "k", 1)) }, waitingroom.BindConflict, nil},
		"AnotherKey":      {func(b *bundle) { b.off(); b.bindDirect(b.direct(1, "l", 2)) }, waitingroom.BindPending, nil},
		"PlacesEnded": {func(b *bundle) {
			b.off()
			b.check(b.room.SetClock(b.ctx, b.product, "low", 1<<43-1))
		}, waitingroom.BindBusy, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.open(settings(), 1, 10)
			c.prepare(b)
			r := b.direct(1, "k", 2)
			for range 2 {
				got, err := b.room.BindDirect(b.ctx, r)
				if got.Outcome != c.want || !errors.Is(err, c.err) || (got.Reason == waitingroom.ReasonBanned) != (c.want == waitingroom.BindRefused) {
					t.Fatalf("%+v, %v; expected %s, %v", got, err, c.want, c.err)
				}
				if c.want == waitingroom.BindPending && got.Pending != b.direct(1, "l", 2).OrderID {
					t.Fatalf("pending is %s", got.Pending)
				}
			}
			if c.err == nil {
				b.balance()
			}
		})
	}
}

// Off, on, off: an order keeps its answer whatever the queue is, and the line goes on where it stood (F17).
func TestRoomQueueOffAndOn(t *testing.T) {
	t.Parallel()
	modes := map[string]func(testing.TB) localtest.RedisFixture{
		"Cluster": localtest.Redis,
		"Standalone": func(t testing.TB) localtest.RedisFixture {
			t.Helper()
			server := localtest.RedisWith(t, local.RedisOptions{Standalone: true})
			return localtest.RedisFixture{Addrs: []string{server.Addr()}, Mode: "standalone", Prefix: "off:"}
		},
	}
	for name, fixture := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bundleOn(t, fixture(t))
			b.open(settings(), 1, 100)
			var places []product.Place
			for n := range 4 {
				places = append(places, b.join(user(n)).Place)
			}
			b.awaitTokens()
			b.off()
			for range 2 {
				r, err := b.admitter.Admit(b.ctx, b.product, 10)
				b.check(err)
				if r.Reason != waitingroom.AdmitQueueOff || r.Admitted != 0 || r.Waiting != 3 {
					t.Fatalf("admit while off: %+v", r)
				}
			}
			if _, err := b.room.Join(b.ctx, b.product, user(8), nil); !errors.Is(err, waitingroom.ErrQueueOff) {
				t.Fatalf("a newcomer: %v", err)
			}
			if s := b.join(user(2)); s.Place != places[2] || s.State != waitingroom.Waiting {
				t.Fatalf("who waited: %+v", s)
			}
			bound := b.direct(1, "k", 1)
			b.bindDirect(bound) // the second of the line leaves it
			pass := b.request(user(0), places[0], 1)
			if got := b.bind(pass); got.Outcome != waitingroom.BindBound {
				t.Fatalf("a pass while off: %+v", got)
			}
			b.put(func(*product.Settings) {})
			for range 2 { // with the queue on, then off again
				if got := b.bindDirect(bound); got.Outcome != waitingroom.BindBound || string(got.Command) != string(bound.Command) {
					t.Fatalf("without a pass: %+v", got)
				}
				if got := b.bind(pass); got.Outcome != waitingroom.BindBound || string(got.Command) != string(pass.Command) {
					t.Fatalf("with a pass: %+v", got)
				}
				if got := b.bindDirect(b.direct(1, "k", 2)); got.Outcome != waitingroom.BindConflict {
					t.Fatalf("another quantity: %+v", got)
				}
				b.off()
			}
			b.put(func(*product.Settings) {})
			if got := b.bindDirect(b.direct(5, "k", 1)); got.Outcome != waitingroom.BindQueueOn {
				t.Fatalf("a new order with the queue on: %+v", got)
			}
			b.admit(1)
			if first, second := b.status(user(2)), b.status(user(3)); first.State != waitingroom.Active || second.State != waitingroom.Waiting || second.Place != places[3] {
				t.Fatalf("%+v, %+v", first, second)
			}
			b.settle(99, 1, user(1), bound.OrderID)
			if got := b.bindDirect(bound); got.Outcome != waitingroom.BindJudged {
				t.Fatalf("judged, and the queue on: %+v", got)
			}
			b.balance()
		})
	}
}

// A Redis that lost everything between two tries: the same order is bound again, and nobody's old place stands beside it for good.
func TestRoomBindDirectAfterALoss(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	s := b.join(user(1))
	b.off()
	r := b.direct(1, "k", 1)
	b.bindDirect(r)
	b.check(b.room.Forget(b.ctx, b.product))
	lost := settings()
	lost.QueueOn = false
	b.restore(lost, 2, 0, 0)
	if got := b.bindDirect(r); got.Outcome != waitingroom.BindBusy { // its stock is not known yet, and no pass vouches for a turn
		t.Fatalf("%+v", got)
	}
	b.check(b.counter.Settle(b.ctx, b.product, 9, 1, true, nil)) // the first try was judged meanwhile
	if got := b.bindDirect(r); got.Outcome != waitingroom.BindBound || !got.First {
		t.Fatalf("%+v", got)
	}
	if s, err := b.room.Status(b.ctx, b.product, user(1), &waitingroom.TicketClaim{Place: s.Place, OrderID: b.id(user(1), s.Place)}); err != nil || s.State != waitingroom.Ordering {
		t.Fatalf("the ticket of before: %+v, %v", s, err)
	}
	b.settle(9, 1, user(1), r.OrderID) // the judge knows it
	if v := b.view(); v.Held != 0 || v.InFlight != 0 || b.status(user(1)).State != waitingroom.Ordered {
		t.Fatalf("%+v", v)
	}
	b.balance()
}

// A start gun for people who order directly, each by many calls with two keys: one order of each person is bound, and no more units are
// held than there are.
func TestRoomBindDirectStartGun(t *testing.T) {
	t.Parallel()
	const people, units = 20, 8
	b := newBundle(t)
	b.open(settings(), 1, units)
	for n := range people / 2 {
		b.join(user(n))
	}
	b.off()
	var calls sync.WaitGroup
	for n := range people {
		for call := range 6 {
			calls.Go(func() {
				if _, err := b.room.BindDirect(b.ctx, b.direct(n, "k"+strconv.Itoa(call%2), 1)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	calls.Wait()
	v := b.view()
	if v.Held != units || v.InFlight != units {
		t.Fatalf("held %d, in flight %d", v.Held, v.InFlight)
	}
	for n := range people {
		m, err := b.room.Membership(b.ctx, b.product, user(n))
		b.check(err)
		if m.Sets > 1 || m.HasIntent != (m.Record == waitingroom.Ordering) {
			t.Fatalf("user %d: %+v", n, m)
		}
	}
	b.balance()
}
