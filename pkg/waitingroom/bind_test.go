package waitingroom_test

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// admitted is a user with an unused pass.
func (b *bundle) admitted(n int) waitingroom.Standing {
	b.t.Helper()
	b.join(user(n))
	b.admit(1)
	s := b.status(user(n))
	if s.State != waitingroom.Active {
		b.t.Fatalf("user %d is %s, expected an unused pass", n, s.State)
	}
	return s
}

// Every answer of 2.3, each asked for twice.
func TestRoomBindOutcomes(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour).UnixMilli()
	for name, c := range map[string]struct {
		prepare func(*bundle) waitingroom.BindRequest
		outcome waitingroom.BindOutcome
		reason  waitingroom.BindReason
	}{
		"NoSettings": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindClosed, ""},
		"NotOpen": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.put(func(s *product.Settings) { s.State = product.NotOpen })
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindClosed, ""},
		"BoundWhilePaused": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.put(func(s *product.Settings) { s.State = product.Paused })
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBound, ""},
		"BoundWhileClosed": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.put(func(s *product.Settings) { s.State = product.Closed })
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBound, ""},
		"Conflict": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.bind(b.request(user(1), s.Place, 1))
			return b.request(user(1), s.Place, 2)
		}, waitingroom.BindConflict, ""},
		"Judged": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			r := b.request(user(1), s.Place, 1)
			b.bind(r)
			b.check(b.counter.Settle(b.ctx, b.product, 9, 1, false, []stock.Judged{{OrderID: r.OrderID, User: user(1), Place: s.Place}}))
			return r
		}, waitingroom.BindJudged, ""},
		"SoldOut": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			return b.request(user(1), s.Place, 11)
		}, waitingroom.BindSoldOut, ""},
		"BusyInFlight": {func(b *bundle) waitingroom.BindRequest {
			b.put(func(s *product.Settings) { s.InflightMax = 1 })
			b.bind(b.request(user(2), b.admitted(2).Place, 1))
			return b.request(user(1), b.admitted(1).Place, 1)
		}, waitingroom.BindBusy, ""},
		"Lapsed": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Expire(b.ctx, b.product, user(1)))
			return b.request(user(1), s.Place, 1) // the pass is rounded up to the second: the lease decides
		}, waitingroom.BindRefused, waitingroom.ReasonLapsed},
		"Expired": {func(b *bundle) waitingroom.BindRequest {
			r := b.request(user(1), product.MakePlace(1, 77), 1)
			r.ExpiresMS = 1000
			return r
		}, waitingroom.BindRefused, waitingroom.ReasonExpired},
		"Superseded": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(errorOf(b.room.Leave(b.ctx, b.product, user(1), s.Place)))
			b.admitted(1)
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindRefused, waitingroom.ReasonSuperseded},
		"Revoked": {func(b *bundle) waitingroom.BindRequest {
			r := b.request(user(1), b.admitted(1).Place, 1)
			r.Epoch = 0
			return r
		}, waitingroom.BindRefused, waitingroom.ReasonRevoked},
		"Banned": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Ban(b.ctx, b.product, user(1), later))
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindRefused, waitingroom.ReasonBanned},
		"ForgottenBySlot": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, s.Place, 1) // and its stock is not known yet: the ledger judges
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBound, ""},
		"BusyStockUnknown": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.counterForget())
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBusy, ""},
		"CalledBeforeALoss": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, s.Place, 1)
			b.ticket(1, s.Place, waitingroom.Called)
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBound, ""},
		"WaitingAgainAfterALoss": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, 0, 1) // the front was not persisted yet
			b.ticket(1, s.Place, waitingroom.Waiting)
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBound, ""},
		"AwayAgainAfterALoss": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, 0, 1)
			b.ticket(1, s.Place, waitingroom.Waiting)
			b.check(b.room.SendAway(b.ctx, b.product, user(1)))
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBound, ""},
		"JoinedAnewAfterALoss": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, s.Place, 1)
			b.join(user(1))
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindBound, ""},
		"AdmittedAnewAfterALoss": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.open(settings(), 2, 10)
			b.admitted(1)
			return b.request(user(1), s.Place, 1)
		}, waitingroom.BindUnknown, waitingroom.ReasonSuperseded},
		"RolledBack": {func(b *bundle) waitingroom.BindRequest {
			b.join(user(1))
			return b.request(user(1), product.MakePlace(1, 1<<42), 1) // a failover lost the later place and its admission
		}, waitingroom.BindBound, ""},
		"SoldOutForTheForgotten": {func(b *bundle) waitingroom.BindRequest {
			return b.request(user(1), product.MakePlace(1, 1<<42), 11)
		}, waitingroom.BindSoldOut, ""},
		"UnknownBeforeALoss": {func(b *bundle) waitingroom.BindRequest {
			s := b.admitted(1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, s.Place, 1)
			r := b.request(user(1), s.Place, 1)
			r.ExpiresMS = 1000
			return r
		}, waitingroom.BindUnknown, waitingroom.ReasonExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.open(settings(), 1, 10)
			request := c.prepare(b)
			for range 2 {
				got := b.bind(request)
				if got.Outcome != c.outcome || got.Reason != c.reason {
					t.Fatalf("bind: %+v, expected %s %s", got, c.outcome, c.reason)
				}
			}
			if c.outcome == waitingroom.BindClosed {
				return
			}
			b.balance()
			m, err := b.room.Membership(b.ctx, b.product, user(1))
			b.check(err)
			if m.Sets > 1 || (m.Record == waitingroom.Ordering) != (c.outcome == waitingroom.BindBound || c.outcome == waitingroom.BindConflict) {
				t.Fatalf("after %s: %+v", c.outcome, m)
			}
		})
	}
}

// put changes settings by a higher version.
func (b *bundle) put(change func(*product.Settings)) {
	b.t.Helper()
	s := settings()
	change(&s)
	v, err := b.room.View(b.ctx, b.product)
	b.check(err)
	applied, err := b.room.SettingsPut(b.ctx, b.product, b.line(s, v.SettingsV+1))
	b.check(err)
	if !applied {
		b.t.Fatal("settings were not taken")
	}
}

// ticket shows the user's ticket.
func (b *bundle) ticket(n int, place product.Place, want waitingroom.State) {
	b.t.Helper()
	s, err := b.room.Status(b.ctx, b.product, user(n), &waitingroom.TicketClaim{Place: place, OrderID: b.id(user(n), place)})
	b.check(err)
	if s.State != want || s.Place != place {
		b.t.Fatalf("ticket: %+v, expected %s", s, want)
	}
}

// counterForget loses the stock alone, as only a test can.
func (b *bundle) counterForget() error {
	return b.rdb.Del(b.ctx, b.keys.Product(b.product).Stock).Err()
}

// Refused binds hold nothing and leave the pass good.
func TestRoomBindSoldOutKeepsThePass(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 2)
	first, second := b.admitted(1), b.admitted(2)
	b.bind(b.request(user(1), first.Place, 1))
	if r := b.bind(b.request(user(2), second.Place, 2)); r.Outcome != waitingroom.BindSoldOut {
		t.Fatalf("bind: %+v", r)
	}
	if s := b.status(user(2)); s.State != waitingroom.Active || b.view().Held != 1 {
		t.Fatalf("after sold out: %+v", s)
	}
	if r := b.bind(b.request(user(2), second.Place, 1)); r.Outcome != waitingroom.BindBound {
		t.Fatalf("bind of what is left: %+v", r)
	}
	b.balance()
}

// Whatever bytes a command has, those are the bytes that are sent again.
func TestRoomBindKeepsBytes(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 1_000_000)
	place := product.Place(0)
	rapid.Check(t, func(rt *rapid.T) {
		place++
		request := b.request(user(1), product.MakePlace(1, int64(place)), rapid.IntRange(1, 1000).Draw(rt, "quantity"))
		request.Digest = rapid.StringMatching(`[0-9a-f]{0,40}`).Draw(rt, "digest")
		request.Command = rapid.SliceOf(rapid.Byte()).Draw(rt, "command")
		if r := b.bind(request); r.Outcome != waitingroom.BindBound || !r.First {
			rt.Fatalf("bind: %+v", r)
		}
		if r := b.bind(request); r.Outcome != waitingroom.BindBound || string(r.Command) != string(request.Command) {
			rt.Fatalf("stored %q, sent %q", r.Command, request.Command)
		}
		b.check(b.room.MakeDue(b.ctx, b.product, request.OrderID))
		due, err := b.room.Due(b.ctx, b.product, 1)
		b.check(err)
		if len(due) != 1 || due[0].OrderID != request.OrderID || string(due[0].Command) != string(request.Command) {
			rt.Fatalf("due: %+v", due)
		}
		b.check(b.counter.Settle(b.ctx, b.product, 1_000_000, 1, false, []stock.Judged{{OrderID: request.OrderID, User: user(1)}}))
	})
	b.balance()
}

// What is out of form is refused by the script and changes nothing.
func TestRoomBindOutOfForm(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	s := b.admitted(1)
	for name, change := range map[string]func(*waitingroom.BindRequest){
		"QuantityZero":     func(r *waitingroom.BindRequest) { r.Quantity = 0 },
		"QuantityNegative": func(r *waitingroom.BindRequest) { r.Quantity = -1 },
		"PlaceZero":        func(r *waitingroom.BindRequest) { r.Place = 0 },
		"PlaceTooHigh":     func(r *waitingroom.BindRequest) { r.Place = 1 << 53 },
		"DigestWithBar":    func(r *waitingroom.BindRequest) { r.Digest = "a|b" },
		"NoOrder":          func(r *waitingroom.BindRequest) { r.OrderID = "" },
	} {
		request := b.request(user(1), s.Place, 1)
		change(&request)
		if r, err := b.room.Bind(b.ctx, request); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if s := b.status(user(1)); s.State != waitingroom.Active || b.view().Held != 0 {
		t.Fatalf("after refusals: %+v", s)
	}
}

// The sweeper's clock: 5 s after a bind or a hand-out, 60 s after an acknowledgement, doubling to 10 min.
func TestRoomAttention(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	request := b.request(user(1), b.admitted(1).Place, 1)
	b.bind(request)
	// A busy machine takes time between the script and the look: less may be left, never more.
	want := func(ms int64) {
		t.Helper()
		at, err := b.room.Attention(b.ctx, b.product, request.OrderID)
		b.check(err)
		v, err := b.room.View(b.ctx, b.product)
		b.check(err)
		if left := at - v.NowMS; left > ms || left <= ms-25_000 {
			t.Fatalf("next attention in %d ms, expected %d", left, ms)
		}
	}
	want(5000)
	b.check(b.room.MakeDue(b.ctx, b.product, request.OrderID))
	if due, err := b.room.Due(b.ctx, b.product, 10); err != nil || len(due) != 1 {
		t.Fatalf("due: %v, %v", due, err)
	}
	want(5000)
	for _, ms := range []int64{60_000, 120_000, 240_000, 480_000, 600_000, 600_000} {
		b.check(b.room.Acked(b.ctx, b.product, request.OrderID))
		want(ms)
		b.check(b.room.MakeDue(b.ctx, b.product, request.OrderID))
		if due, err := b.room.Due(b.ctx, b.product, 10); err != nil || len(due) != 1 {
			t.Fatalf("due: %v, %v", due, err)
		}
		want(5000)
	}
	b.check(b.counter.Settle(b.ctx, b.product, 9, 1, false, []stock.Judged{{OrderID: request.OrderID, User: user(1), Place: request.Place}}))
	b.check(b.room.Acked(b.ctx, b.product, request.OrderID)) // an acknowledgement that comes late brings nothing back
	b.balance()
	if due, err := b.room.Due(b.ctx, b.product, 10); err != nil || len(due) != 0 {
		t.Fatalf("due after the verdict: %v, %v", due, err)
	}
}

// One pass shown by many at once is bound once; one unit wanted by many passes is held once (I4, I1).
func TestRoomBindAtOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 1)
	const callers = 40
	b.put(func(s *product.Settings) { s.Oversub = callers })
	requests := make([]waitingroom.BindRequest, callers)
	for n := range callers {
		b.join(user(n))
	}
	b.admit(callers)
	for n := range callers {
		requests[n] = b.request(user(n), b.status(user(n)).Place, 1)
	}
	var mu sync.Mutex
	count := map[waitingroom.BindOutcome]int{}
	first := map[order.ID]int{}
	gun := make(chan struct{})
	var wg sync.WaitGroup
	for n := range callers {
		for range 5 {
			wg.Go(func() {
				<-gun
				r, err := b.room.Bind(b.ctx, requests[n])
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				count[r.Outcome]++
				if r.First {
					first[requests[n].OrderID]++
				}
			})
		}
	}
	close(gun)
	wg.Wait()
	if count[waitingroom.BindBound] != 5 || count[waitingroom.BindSoldOut] != 5*(callers-1) || len(first) != 1 {
		t.Fatalf("outcomes %v, bound first %v", count, first)
	}
	b.balance()
}
