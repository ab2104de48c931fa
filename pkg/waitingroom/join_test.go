package waitingroom_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

func TestRoomJoinRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*product.Settings)
		prepare func(*bundle)
		want    error
	}{
		"NotOpen": {func(s *product.Settings) { s.State = product.NotOpen }, nil, waitingroom.ErrNotOpen},
		"Closed":  {func(s *product.Settings) { s.State = product.Closed }, nil, waitingroom.ErrClosed},
		"Full":    {func(s *product.Settings) { s.MaxLen = 1 }, func(b *bundle) { b.join(user(9)) }, waitingroom.ErrFull},
		"Banned": {func(*product.Settings) {}, func(b *bundle) {
			b.check(b.room.Ban(b.ctx, b.product, user(1), time.Now().Add(time.Hour).UnixMilli()))
		}, waitingroom.ErrBanned},
		"PlacesEnded": {func(*product.Settings) {}, func(b *bundle) {
			b.check(b.room.SetClock(b.ctx, b.product, "low", 1<<43-1))
		}, waitingroom.ErrPlacesEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := settings()
			c.change(&s)
			b.open(s, 1, 5)
			if c.prepare != nil {
				c.prepare(b)
			}
			for range 2 {
				got, err := b.room.Join(b.ctx, b.product, user(1), nil)
				if !errors.Is(err, c.want) {
					t.Fatalf("join: %v, expected %v", err, c.want)
				}
				if got.State == waitingroom.Waiting || got.Product.State != s.State || got.Product.Base != 5 {
					t.Fatalf("standing with the refusal: %+v", got)
				}
			}
			b.balance()
		})
	}
}

// Paused still takes people in; a ban that is over is none; a never opened product is not open whatever its state says.
func TestRoomJoinAllowed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.State = product.Paused
	b.open(s, 1, 0)
	b.check(b.room.Ban(b.ctx, b.product, user(1), 1000))
	if got := b.join(user(1)); !got.Created || !got.Product.StockKnown || got.Product.Base != 0 {
		t.Fatalf("join while paused and sold out: %+v", got)
	}

	c := newBundle(t)
	c.opened = 0
	c.open(settings(), 1, 5)
	if _, err := c.room.Join(c.ctx, c.product, user(1), nil); !errors.Is(err, waitingroom.ErrNotOpen) {
		t.Fatalf("join without an opening: %v", err)
	}
}

// Whoever left, lapsed or ordered joins anew with a higher place; who is ordering does not.
func TestRoomRejoin(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	first := b.join(user(1))
	left, err := b.room.Leave(b.ctx, b.product, user(1), first.Place)
	b.check(err)
	if left.State != waitingroom.Left || left.Place != first.Place {
		t.Fatalf("left: %+v", left)
	}
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(1), first.Place)))
	second := b.join(user(1))
	if !second.Created || second.Place <= first.Place {
		t.Fatalf("rejoin after leaving: %+v", second)
	}
	// A leave that the network held up must not end the next life (F25).
	if held, err := b.room.Leave(b.ctx, b.product, user(1), first.Place); err != nil || held.State != waitingroom.Waiting {
		t.Fatalf("late leave: %+v, %v", held, err)
	}
	b.admit(1)
	b.check(b.room.Expire(b.ctx, b.product, user(1)))
	if lapsed := b.status(user(1)); lapsed.State != waitingroom.Lapsed || lapsed.Place != second.Place || b.view().Lapsed != 1 {
		t.Fatalf("lapsed: %+v", lapsed)
	}
	third := b.join(user(1))
	b.admit(1)
	request := b.request(user(1), third.Place, 1)
	b.bind(request)
	if s := b.join(user(1)); s.Created || s.State != waitingroom.Ordering || s.OrderID != request.OrderID {
		t.Fatalf("join while ordering: %+v", s)
	}
	b.check(b.counter.Settle(b.ctx, b.product, 9, 1, false, []stock.Judged{{OrderID: request.OrderID, User: user(1), Place: third.Place}}))
	if s := b.join(user(1)); !s.Created || s.Place <= third.Place {
		t.Fatalf("rejoin after ordering: %+v", s)
	}
	b.balance()
}

// An unused pass is given up with its place and frees its slot.
func TestRoomLeaveWithPass(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	s := b.join(user(1))
	b.admit(1)
	got, err := b.room.Leave(b.ctx, b.product, user(1), s.Place)
	b.check(err)
	if got.State != waitingroom.Left || b.view().Active != 0 || got.LeaseEndMS != 0 {
		t.Fatalf("left with a pass: %+v", got)
	}
	if r := b.bind(b.request(user(1), s.Place, 1)); r.Outcome != waitingroom.BindRefused || r.Reason != waitingroom.ReasonLeft {
		t.Fatalf("bind after leaving: %+v", r)
	}
	b.balance()
}

func TestRoomAwayComesBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	first, second := b.join(user(1)), b.join(user(2))
	b.check(b.room.SendAway(b.ctx, b.product, user(1)))
	b.balance()
	if s := b.status(user(1)); s.State != waitingroom.Waiting || s.Place != first.Place || s.Position != 1 {
		t.Fatalf("heard again: %+v", s)
	}
	b.check(b.room.SendAway(b.ctx, b.product, user(2)))
	if s := b.join(user(2)); s.Created || s.State != waitingroom.Waiting || s.Place != second.Place || s.Position != 2 {
		t.Fatalf("joined while away: %+v", s)
	}
	b.check(b.room.SendAway(b.ctx, b.product, user(2)))
	s, err := b.room.Leave(b.ctx, b.product, user(2), second.Place)
	b.check(err)
	if s.State != waitingroom.Left {
		t.Fatalf("left while away: %+v", s)
	}
	b.balance()
}

// After a loss a ticket brings its place back, unless its turn had come.
func TestRoomTickets(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	called, waiting, anew := b.join(user(1)), b.join(user(2)), b.join(user(3))
	b.check(b.room.Forget(b.ctx, b.product))
	b.restore(settings(), 2, called.Place, 0)
	claim := func(n int, s waitingroom.Standing) *waitingroom.TicketClaim {
		return &waitingroom.TicketClaim{Place: s.Place, OrderID: b.id(user(n), s.Place)}
	}
	if s := b.join(user(3)); !s.Created || s.Place.Inc() != 2 {
		t.Fatalf("joined anew: %+v", s)
	}
	for range 2 {
		s, err := b.room.Status(b.ctx, b.product, user(2), claim(2, waiting))
		b.check(err)
		if s.State != waitingroom.Waiting || s.Place != waiting.Place || s.Position != 1 || s.CalledNow {
			t.Fatalf("old place (U2): %+v", s)
		}
		s, err = b.room.Join(b.ctx, b.product, user(3), claim(3, anew))
		b.check(err)
		if s.State != waitingroom.Waiting || s.Place != anew.Place || s.Created || s.Position != 2 {
			t.Fatalf("old place after joining anew (U2): %+v", s)
		}
	}
	s, err := b.room.Status(b.ctx, b.product, user(1), claim(1, called))
	b.check(err)
	if s.State != waitingroom.Called || !s.CalledNow || s.Place != called.Place {
		t.Fatalf("called before (U3): %+v", s)
	}
	s, err = b.room.Status(b.ctx, b.product, user(1), claim(1, called))
	b.check(err)
	if s.State != waitingroom.Called || s.CalledNow {
		t.Fatalf("called before, again: %+v", s)
	}
	s, err = b.room.Join(b.ctx, b.product, user(1), claim(1, called))
	b.check(err)
	if !s.Created || s.Place.Inc() != 2 || s.Position != 3 {
		t.Fatalf("free to join at the back: %+v", s)
	}
	b.balance()
	// Judged since the loss, by a command without a place: no turn is left to wait for, although the front lags behind.
	judged := product.MakePlace(1, 1<<42)
	b.check(b.counter.Settle(b.ctx, b.product, 9, 1, false, []stock.Judged{{OrderID: b.id(user(5), judged), User: user(5)}}))
	b.ticket(5, judged, waitingroom.Called)
	b.balance()
	// A banned user's ticket brings nothing back.
	b.check(b.room.Ban(b.ctx, b.product, user(4), time.Now().Add(time.Hour).UnixMilli()))
	s, err = b.room.Status(b.ctx, b.product, user(4), claim(4, anew))
	b.check(err)
	if s.State != waitingroom.Evicted {
		t.Fatalf("banned: %+v", s)
	}
}

// A failover that lost a join may not give the lost number to somebody else.
func TestRoomTicketRaisesTheCounter(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	ahead := product.MakePlace(1, 1<<42)
	s, err := b.room.Status(b.ctx, b.product, user(1), &waitingroom.TicketClaim{Place: ahead, OrderID: b.id(user(1), ahead)})
	b.check(err)
	if s.Place != ahead {
		t.Fatalf("ticket: %+v", s)
	}
	if next := b.join(user(2)); next.Place != ahead+1 {
		t.Fatalf("next place %d, expected %d", next.Place, ahead+1)
	}
	// What the slot still remembers of the user, of a lower place, gives way.
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(2), ahead+1)))
	b.ticket(2, ahead+5, waitingroom.Waiting)
	b.balance()
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(2), ahead+5)))
	s, err = b.room.Join(b.ctx, b.product, user(2), &waitingroom.TicketClaim{Place: ahead + 9, OrderID: b.id(user(2), ahead+9)})
	b.check(err)
	if s.Created || s.Place != ahead+9 {
		t.Fatalf("ticket of a higher place: %+v", s)
	}
	b.balance()
	if next := b.join(user(3)); next.Place != ahead+10 {
		t.Fatalf("next place %d, expected %d", next.Place, ahead+10)
	}
}

// Places are exact up to 2^53 and leave every script as whole numbers (hazards R5, R6).
func TestRoomPlacesAreExact(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), product.IncMax, 9_007_199_254_740_991)
	b.check(b.room.SetClock(b.ctx, b.product, "low", 1<<43-4))
	for n := range 3 {
		want := product.Place(1<<53 - 3 + n)
		s := b.join(user(n))
		if s.Place != want || b.status(user(n)).Place != want {
			t.Fatalf("place %d, expected %d", s.Place, want)
		}
	}
	if _, err := b.room.Join(b.ctx, b.product, user(9), nil); !errors.Is(err, waitingroom.ErrPlacesEnded) {
		t.Fatalf("join past the last place: %v", err)
	}
	entries, err := b.room.WaitingFrom(b.ctx, b.product, 0, 10)
	b.check(err)
	if len(entries) != 3 || entries[0].Place != 1<<53-3 || entries[2].Place != 1<<53-1 {
		t.Fatalf("entries: %+v", entries)
	}
	b.admit(3)
	s := b.status(user(2))
	if s.State != waitingroom.Active || s.Place != 1<<53-1 || b.view().Front != 1<<53-1 || s.Product.Base != 9_007_199_254_740_991 {
		t.Fatalf("admitted: %+v", s)
	}
	for _, number := range []int64{1700000000123456, 100000000} {
		b.check(b.room.Forget(b.ctx, b.product))
		b.opened = number
		b.open(settings(), 1, number)
		v, err := b.room.View(b.ctx, b.product)
		b.check(err)
		if v.OpenedUS != number || v.Base != number {
			t.Fatalf("opened %d and base %d, expected %d", v.OpenedUS, v.Base, number)
		}
	}
}

// Joins from many connections at once: places unique, and later ones higher.
func TestRoomJoinAtOnce(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	const callers, each = 16, 25
	places := make([][]product.Place, callers)
	gun := make(chan struct{})
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			<-gun
			for n := range each {
				s, err := b.room.Join(b.ctx, b.product, user(c*each+n), nil)
				if err != nil {
					t.Error(err)
					return
				}
				places[c] = append(places[c], s.Place)
			}
		})
	}
	close(gun)
	wg.Wait()
	seen := map[product.Place]bool{}
	for _, own := range places {
		for n, place := range own {
			if seen[place] || n > 0 && place <= own[n-1] {
				t.Fatalf("place %d is not unique and rising (I7)", place)
			}
			seen[place] = true
		}
	}
	if len(seen) != callers*each {
		t.Fatalf("%d places, expected %d", len(seen), callers*each)
	}
	b.balance()
}

func errorOf[T any](_ T, err error) error { return err }
