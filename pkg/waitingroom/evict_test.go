package waitingroom_test

import (
	"errors"
	"testing"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// out is a ban of an hour, as the ledger's change of that number.
func out(n int, v int64) waitingroom.Ban {
	return waitingroom.Ban{User: user(n), UntilMS: time.Now().Add(time.Hour).UnixMilli(), V: v}
}

func (b *bundle) evict(above int64, bans ...waitingroom.Ban) int {
	b.t.Helper()
	n, err := b.room.Evict(b.ctx, b.product, bans, above, bans[len(bans)-1].V)
	b.check(err)
	return n
}

// U10 from every state: the line is left, an order stays, and nobody comes back while the ban lasts, with a ticket or without.
func TestEvict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*bundle) product.Place
		state   waitingroom.State // of the record afterwards
		evicted int
	}{
		"Nobody": {func(*bundle) product.Place { return 0 }, waitingroom.None, 0},
		"Waiting": {func(b *bundle) product.Place {
			return b.join(user(1)).Place
		}, waitingroom.Evicted, 1},
		"Away": {func(b *bundle) product.Place {
			place := b.join(user(1)).Place
			b.check(b.room.SendAway(b.ctx, b.product, user(1)))
			return place
		}, waitingroom.Evicted, 1},
		"Active": {func(b *bundle) product.Place { return b.admitted(1).Place }, waitingroom.Evicted, 1},
		"Expired": {func(b *bundle) product.Place {
			place := b.admitted(1).Place
			b.check(b.room.Expire(b.ctx, b.product, user(1)))
			return place
		}, waitingroom.Evicted, 1},
		"Left": {func(b *bundle) product.Place {
			place := b.join(user(1)).Place
			b.check(errorOf(b.room.Leave(b.ctx, b.product, user(1), place)))
			return place
		}, waitingroom.Evicted, 0},
		"Ordering": {func(b *bundle) product.Place {
			place := b.admitted(1).Place
			b.bind(b.request(user(1), place, 2))
			return place
		}, waitingroom.Ordering, 0},
		"Ordered": {func(b *bundle) product.Place {
			place := b.admitted(1).Place
			b.bind(b.request(user(1), place, 2))
			b.check(b.counter.Settle(b.ctx, b.product, 98, 1, false, []stock.Judged{{OrderID: b.id(user(1), place), User: user(1), Place: place}}))
			return place
		}, waitingroom.Ordered, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.open(settings(), 1, 100)
			place := c.prepare(b)
			b.join(user(2))
			if n := b.evict(0, out(1, 7)); n != c.evicted {
				t.Fatalf("%d evicted, expected %d", n, c.evicted)
			}
			found := func() waitingroom.Membership {
				t.Helper()
				m, err := b.room.Membership(b.ctx, b.product, user(1))
				b.check(err)
				return m
			}
			after := found()
			if after.Record != c.state || after.Place != place || after.Waiting+after.Away > 0 || after.Sets > 1 {
				t.Fatalf("found %+v, expected %s at %d", after, c.state, place)
			}
			b.balance()
			// Again: nothing more. Neither a ticket nor a pass of before changes anything, but an order keeps its answer.
			if n := b.evict(0, out(1, 7)); n != 0 || found() != after {
				t.Fatalf("again: %d, %+v", n, found())
			}
			for _, claim := range []*waitingroom.TicketClaim{nil, {Place: product.MakePlace(1, 1<<42), OrderID: b.id(user(1), product.MakePlace(1, 1<<42))}} {
				s, err := b.room.Join(b.ctx, b.product, user(1), claim)
				if c.state == waitingroom.Ordering {
					b.check(err)
				} else if !errors.Is(err, waitingroom.ErrBanned) {
					t.Fatalf("join: %+v, %v", s, err)
				}
				if s, err = b.room.Status(b.ctx, b.product, user(1), claim); err != nil || c.state == waitingroom.None && s.State != waitingroom.Evicted || c.state != waitingroom.None && s.State != c.state {
					t.Fatalf("status: %+v, %v", s, err)
				}
			}
			if place > 0 {
				r := b.bind(b.request(user(1), place, 2))
				switch c.state {
				case waitingroom.Ordering:
					if r.Outcome != waitingroom.BindBound || r.First {
						t.Fatalf("the order's own answer: %+v", r)
					}
				case waitingroom.Ordered:
					if r.Outcome != waitingroom.BindJudged {
						t.Fatalf("the order's own answer: %+v", r)
					}
				default:
					if r.Outcome != waitingroom.BindRefused || r.Reason != waitingroom.ReasonBanned {
						t.Fatalf("bind: %+v", r)
					}
				}
			}
			b.balance()
			// The judge's word about an order that stayed comes through.
			if c.state == waitingroom.Ordering {
				b.check(b.counter.Settle(b.ctx, b.product, 98, 1, false, []stock.Judged{{OrderID: after.OrderID, User: user(1), Place: place}}))
				if s := b.status(user(1)); s.State != waitingroom.Ordered || s.OrderID != after.OrderID {
					t.Fatalf("after the verdict: %+v", s)
				}
			}
			// Lifted: whoever was evicted may join, at the end, and no old ticket gives the place back.
			b.evict(7, waitingroom.Ban{User: user(1), UntilMS: 0, V: 9})
			if s := b.status(user(1)); s.State == waitingroom.Evicted {
				t.Fatalf("evicted without a ban: %+v", s)
			}
			if s := b.join(user(1)); !s.Created || s.Place <= place || s.Position < 2 {
				t.Fatalf("a new place: %+v", s)
			}
			b.balance()
			if l, err := b.room.Line(b.ctx, b.product); err != nil || l.BansV != 9 {
				t.Fatalf("%+v, %v", l, err)
			}
		})
	}
}

// F25: an eviction that a stalled scheduler sends after the ban was lifted ends no later place; one that ended meanwhile ends none either.
func TestEvictLate(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 100)
	b.join(user(1))
	b.evict(0, out(1, 1))
	b.evict(1, waitingroom.Ban{User: user(1), V: 2})
	again := b.join(user(1))
	if n := b.evict(0, out(1, 1)); n != 0 || b.status(user(1)).Place != again.Place {
		t.Fatal("a late eviction ended a later place")
	}
	over := waitingroom.Ban{User: user(1), UntilMS: time.Now().Add(-time.Second).UnixMilli(), V: 3}
	if n := b.evict(2, over); n != 0 || b.status(user(1)).State != waitingroom.Waiting {
		t.Fatal("a ban that is over put somebody out")
	}
	// Read before a failover took the line back: without the changes between, it would be taken for complete.
	if _, err := b.room.Evict(b.ctx, b.product, []waitingroom.Ban{out(1, 6)}, 5, 6); !errors.Is(err, waitingroom.ErrBehind) {
		t.Fatal(err)
	}
	b.balance()
}

// F32: bans are there before the slot opens, under the claim alone, in slices.
func TestRestoreBans(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	load := func(nonce string, above int64, bans ...waitingroom.Ban) error {
		return b.room.RestoreBans(b.ctx, b.product, nonce, bans, above, bans[len(bans)-1].V)
	}
	if err := load("a", 0, out(1, 1)); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatal(err)
	}
	if _, err := b.room.Evict(b.ctx, b.product, nil, 0, 1); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatal(err)
	}
	b.check(b.room.RestoreBegin(b.ctx, b.product, "a"))
	for range 2 {
		b.check(load("a", 0, out(1, 1), out(2, 2)))
		b.check(load("a", 2, out(3, 3)))
	}
	if err := load("b", 0, out(4, 4)); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatal(err)
	}
	b.check(b.room.RestoreCommit(b.ctx, b.product, "a", b.line(settings(), 1), 1, 0, 0))
	if err := load("a", 3, out(4, 4)); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatal(err)
	}
	for n := 1; n <= 4; n++ {
		_, err := b.room.Join(b.ctx, b.product, user(n), nil)
		if banned := errors.Is(err, waitingroom.ErrBanned); banned != (n <= 3) {
			t.Fatal(n, err)
		}
	}
	b.balance()
}

// A slot that an eviction frees goes to the next in line.
func TestEvictFreesTheSlot(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Capacity = 1
	b.open(s, 1, 100)
	b.admitted(1)
	b.join(user(2))
	if r := b.admitOnce(1); r.Admitted != 0 || r.Reason != waitingroom.AdmitCapacity {
		t.Fatalf("%+v", r)
	}
	b.evict(0, out(1, 1))
	r := b.admitOnce(1)
	if r.Admitted != 1 || len(r.Waits) != 1 {
		t.Fatalf("%+v", r)
	}
	b.balance()
}
