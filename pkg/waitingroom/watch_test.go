package waitingroom_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// reader holds a line by its changes, as docs/joint.md (F26) tells it to.
type reader struct {
	b      *bundle
	last   string
	places map[product.Place]bool
}

func (r *reader) load() {
	r.b.t.Helper()
	r.places = map[product.Place]bool{}
	var behind product.Place
	for first := true; ; first = false {
		s, err := r.b.room.WaitingSlice(r.b.ctx, r.b.product, behind)
		r.b.check(err)
		if first {
			r.last = s.Last
		}
		for _, place := range s.Places {
			r.places[place], behind = true, place
		}
		if !s.More {
			return
		}
	}
}

// follow reads to the end, and says whether it began again.
func (r *reader) follow() (again bool) {
	r.b.t.Helper()
	for {
		c, err := r.b.room.Watch(r.b.ctx, r.b.product, r.last)
		r.b.check(err)
		if !c.Known {
			r.load()
			return true
		}
		for _, m := range c.Moves {
			switch m.Kind {
			case waitingroom.MoveIn:
				r.places[m.Place] = true
			case waitingroom.MoveOut:
				delete(r.places, m.Place)
			case waitingroom.MoveFront:
				for place := range r.places {
					if place <= m.Place {
						delete(r.places, place)
					}
				}
			case waitingroom.MoveAnew:
			}
		}
		r.last = c.Last
		if !c.More {
			return false
		}
	}
}

func (r *reader) same() {
	r.b.t.Helper()
	var held, waiting []product.Place
	for place := range r.places {
		held = append(held, place)
	}
	slices.Sort(held)
	entries, err := r.b.room.WaitingFrom(r.b.ctx, r.b.product, 0, 1_000_000)
	r.b.check(err)
	for _, e := range entries {
		waiting = append(waiting, e.Place)
	}
	if diff := cmp.Diff(waiting, held); diff != "" {
		r.b.t.Fatalf("the line, and what the changes make of it:\n%s", diff)
	}
}

// Every script that moves somebody into or out of the line says so in the stream; a reader that follows it holds the line.
func TestRoomWatch(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 1_000_000)
	r := &reader{b: b}
	r.load()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's own
	inc, seq, bans := 1, int64(0), int64(0)
	claims := map[int]product.Place{}
	for step := range 600 {
		n := random.IntN(40)
		switch random.IntN(13) {
		case 0, 1, 2, 3, 4:
			claims[n] = max(claims[n], b.join(user(n)).Place)
		case 5, 6: // a ticket, in half of the cases of a place that the slot has never seen (U2)
			place := claims[n]
			if place == 0 || random.IntN(2) == 0 {
				place = product.MakePlace(inc, 1<<42+int64(step))
			}
			s, err := b.room.Status(b.ctx, b.product, user(n), &waitingroom.TicketClaim{Place: place, OrderID: b.id(user(n), place)})
			b.check(err)
			claims[n] = max(claims[n], s.Place)
		case 7:
			b.check(errorOf(b.room.Leave(b.ctx, b.product, user(n), max(1, b.status(user(n)).Place))))
		case 8:
			b.check(errorOf(b.admitter.Admit(b.ctx, b.product, 1+random.IntN(4))))
		case 9: // a pass of before a loss binds whoever waits now
			if place := b.status(user(n)).Place; place > 0 {
				b.bind(b.request(user(n), place, 1))
			}
		case 10: // the ledger judged an order of somebody who waits
			if place := b.status(user(n)).Place; place > 0 {
				seq++
				b.check(b.counter.Settle(b.ctx, b.product, 1_000_000, seq, false, []stock.Judged{{OrderID: b.id(user(n), place), User: user(n), Place: place}}))
			}
		case 12: // put out of the line, and allowed again
			b.check(errorOf(b.room.Evict(b.ctx, b.product, []waitingroom.Ban{out(n, bans+1)}, bans, bans+1)))
			b.check(errorOf(b.room.Evict(b.ctx, b.product, []waitingroom.Ban{{User: user(n), V: bans + 2}}, bans+1, bans+2)))
			bans += 2
		case 11:
			if random.IntN(8) == 0 {
				inc++
				nonce := "a" + product.Place(inc).String()
				b.check(b.room.AdvanceBegin(b.ctx, b.product, nonce))
				b.check(b.room.Advance(b.ctx, b.product, nonce, inc, 0))
			}
		}
		if random.IntN(3) == 0 {
			if r.follow() {
				t.Fatal("the reader lost its place in the stream")
			}
			r.same()
		}
	}
	b.balance()
}

// A reader whose change was trimmed, lost or rolled back is told so, and holds the line after it began again.
func TestRoomWatchBeginsAgain(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 10)
	changes := b.keys.Product(b.product).Changes
	r := &reader{b: b}
	r.load()
	join := func(from, to int) {
		for n := from; n < to; n++ {
			b.join(user(n))
		}
	}
	join(0, 10)
	if r.follow() {
		t.Fatal("began again without a cause")
	}
	for what, lose := range map[string]func(){
		"trimmed":          func() { join(10, 20); b.check(b.rdb.XTrimMaxLen(b.ctx, changes, 5).Err()) },
		"rolled back":      func() { b.check(b.rdb.XDel(b.ctx, changes, r.last).Err()); join(20, 25) },
		"without a stream": func() { b.check(b.rdb.Del(b.ctx, changes).Err()) },
		"lost": func() {
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, 0, 0)
			join(3, 6)
		},
	} {
		lose()
		if !r.follow() {
			t.Fatalf("%s: the reader was not told", what)
		}
		r.same()
		join(100, 103)
		r.follow()
		r.same()
	}
}

// A line longer than a slice is read in several, while it moves.
func TestRoomWatchSlices(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.MaxLen = 10_000
	b.open(s, 1, 10)
	pipe := b.rdb.Pipeline()
	for n := range 2*waitingroom.WatchMax + 10 {
		pipe.ZAdd(b.ctx, b.keys.Product(b.product).Waiting, redis.Z{Score: float64(product.MakePlace(1, int64(n+1))), Member: string(user(n))})
	}
	_, err := pipe.Exec(b.ctx)
	b.check(err)
	first, err := b.room.WaitingSlice(b.ctx, b.product, 0)
	b.check(err)
	if len(first.Places) != waitingroom.WatchMax || !first.More || first.View.Waiting != int64(2*waitingroom.WatchMax+10) {
		t.Fatalf("%d places, more %v, %d waiting", len(first.Places), first.More, first.View.Waiting)
	}
	r := &reader{b: b}
	r.load()
	b.admit(5)
	if r.follow() {
		t.Fatal("began again without a cause")
	}
	r.same()
}
