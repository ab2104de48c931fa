package waitingroom_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"hanjul/lua"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
)

func (b *bundle) admitOnce(n int) waitingroom.AdmitResult {
	b.t.Helper()
	r, err := b.admitter.Admit(b.ctx, b.product, n)
	b.check(err)
	return r
}

// settle until the bucket has something: a restored line begins without a token.
func (b *bundle) awaitTokens() {
	b.t.Helper()
	b.until("a token", func() bool { return b.admitOnce(1).Reason != waitingroom.AdmitRate })
}

func TestAdmitReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*product.Settings)
		units  int64 // −1: not loaded
		people int
		want   waitingroom.AdmitReason
		count  int
	}{
		"Full":         {func(*product.Settings) {}, 10, 3, waitingroom.AdmitFull, 2},
		"Empty":        {func(*product.Settings) {}, 10, 1, waitingroom.AdmitEmpty, 1},
		"Capacity":     {func(s *product.Settings) { s.Capacity = 1 }, 10, 3, waitingroom.AdmitCapacity, 1},
		"Paused":       {func(s *product.Settings) { s.State = product.Paused }, 10, 3, waitingroom.AdmitPaused, 0},
		"QueueOff":     {func(s *product.Settings) { s.QueueOn = false }, 10, 3, waitingroom.AdmitQueueOff, 0},
		"Closed":       {func(s *product.Settings) { s.State = product.Closed }, 10, 3, waitingroom.AdmitClosed, 0},
		"NotOpen":      {func(s *product.Settings) { s.State = product.NotOpen }, 10, 3, waitingroom.AdmitNotOpen, 0},
		"SoldOut":      {func(*product.Settings) {}, 0, 3, waitingroom.AdmitSoldOut, 0},
		"LastUnit":     {func(*product.Settings) {}, 1, 3, waitingroom.AdmitSoldOut, 1},
		"UnitsPerPass": {func(s *product.Settings) { s.UnitsPerPass = 3 }, 2, 3, waitingroom.AdmitSoldOut, 1},
		"Oversub":      {func(s *product.Settings) { s.Oversub = 2 }, 0, 3, waitingroom.AdmitFull, 2},
		"StockUnknown": {func(*product.Settings) {}, -1, 3, waitingroom.AdmitStockUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.restore(settings(), 1, 0, 0)
			if c.units >= 0 {
				b.check(b.counter.Settle(b.ctx, b.product, c.units, 0, true, nil))
			}
			for n := range c.people {
				b.join(user(n))
			}
			b.put(func(s *product.Settings) { c.change(s) })
			var got waitingroom.AdmitResult
			b.until("tokens", func() bool {
				got = b.admitOnce(2 - got.Admitted)
				return got.Reason != waitingroom.AdmitRate
			})
			total := b.books().Tally.Admitted
			if got.Reason != c.want || int(total) != c.count || got.Waiting != int64(c.people)-total || got.Active != total {
				t.Fatalf("admit: %+v, %d admitted, expected %q and %d", got, total, c.want, c.count)
			}
			b.balance()
		})
	}
}

func TestAdmitWithoutSettings(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.admitter.Admit(b.ctx, b.product, 1); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("admit: %v", err)
	}
}

// A line that is held up by its capacity says when the first pass ends, as long as pass time goes on.
func TestAdmitTellsTheNextEnd(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Rate, s.Burst, s.Capacity = 1000, 100, 2
	b.open(s, 1, 10)
	for n := range 4 {
		b.join(user(n))
	}
	b.admit(2)
	life := time.Duration(s.PassMS) * time.Millisecond
	r := b.admitOnce(1)
	if r.Reason != waitingroom.AdmitCapacity || r.NextEnd <= 0 || r.NextEnd > life || r.NextToken != 0 {
		t.Fatalf("admit: %+v", r)
	}
	b.put(func(s *product.Settings) { s.Rate, s.Burst, s.Capacity, s.OrdersHalted = 1000, 100, 2, true })
	if r := b.admitOnce(1); r.Reason != waitingroom.AdmitCapacity || r.NextEnd != 0 {
		t.Fatalf("halted: %+v", r)
	}
}

// Without tokens the answer says when the next comes.
func TestAdmitRate(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Rate, s.Burst = 0.001, 1 // the next token is a quarter of an hour away
	b.open(s, 1, 10)
	b.join(user(1))
	r := b.admitOnce(1)
	if r.Reason != waitingroom.AdmitRate || r.Admitted != 0 || r.NextToken <= 0 || r.NextToken > 1000*time.Second {
		t.Fatalf("admit: %+v", r)
	}
	// The server's time went back: nothing is given and nobody waits longer than the rate says (F14).
	v, err := b.room.View(b.ctx, b.product)
	b.check(err)
	b.check(b.room.SetClock(b.ctx, b.product, "refill_ms", v.NowMS+86_400_000))
	if r := b.admitOnce(1); r.Reason != waitingroom.AdmitRate || r.NextToken > 1000*time.Second {
		t.Fatalf("admit after time went back: %+v", r)
	}
	// It was idle for a day: the burst bounds what it gives.
	b.check(b.room.SetClock(b.ctx, b.product, "refill_ms", v.NowMS-86_400_000))
	b.join(user(2))
	if r := b.admitOnce(5); r.Admitted != 1 || r.Reason != waitingroom.AdmitRate {
		t.Fatalf("admit after idling: %+v", r)
	}
}

// Of a rate of which only a share is allowed, the share flows in, and what is told is that.
func TestAdmitShare(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Rate, s.Burst = 100_000, 1000
	b.open(s, 1, 10_000)
	for n := range 20 {
		b.join(user(n))
	}
	b.awaitTokens()
	// A day's rate in 10 ms of it: the bucket gives what a thousandth of the rate brings.
	v, err := b.room.View(b.ctx, b.product)
	b.check(err)
	b.check(b.room.SetClock(b.ctx, b.product, "tokens", 0))
	b.check(b.room.SetClock(b.ctx, b.product, "refill_ms", v.NowMS+86_400_000))
	r, err := b.admitter.AdmitShare(b.ctx, b.product, 5, 0.000001)
	b.check(err)
	if r.Reason != waitingroom.AdmitLag || r.Admitted != 0 || r.NextToken <= time.Second {
		t.Fatalf("%+v", r)
	}
	for _, wrong := range []float64{0, -1, 1.01} {
		if _, err := b.admitter.AdmitShare(b.ctx, b.product, 1, wrong); err == nil {
			t.Errorf("a share of %g was taken", wrong)
		}
	}
	if r := b.admitOnce(5); r.Reason == waitingroom.AdmitLag {
		t.Fatalf("with the whole rate: %+v", r)
	}
}

// Passes that a lost slot may have given out count against the capacity (F14).
func TestAdmitGhosts(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Capacity = 3
	b.restore(s, 2, 0, 2)
	b.check(b.counter.Settle(b.ctx, b.product, 10, 0, true, nil))
	b.awaitTokens()
	for n := range 3 {
		b.join(user(n))
	}
	if r := b.admitOnce(3); r.Admitted != 1 || r.Reason != waitingroom.AdmitCapacity {
		t.Fatalf("admit: %+v", r)
	}
	for _, c := range []struct {
		active int
		age    time.Duration
		known  bool
		want   int
	}{{100, time.Hour, false, 0}, {0, 0, true, 5}, {10, time.Second, true, 65}, {90, time.Second, true, 100}, {1, -time.Hour, true, 6}} {
		if got := waitingroom.Ghost(product.DefaultSettings(), c.active, c.age, c.known); got != c.want {
			t.Errorf("ghost of %+v: %d", c, got)
		}
	}
}

// Lowering the capacity throws nobody out; nobody is let in before enough have gone.
func TestAdmitLoweredCapacity(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 100)
	for n := range 6 {
		b.join(user(n))
	}
	b.admit(4)
	b.put(func(s *product.Settings) { s.Capacity = 2 })
	if r := b.admitOnce(2); r.Admitted != 0 || r.Reason != waitingroom.AdmitCapacity || r.Active != 4 {
		t.Fatalf("admit: %+v", r)
	}
	for n := range 3 {
		b.check(b.room.Expire(b.ctx, b.product, user(n)))
	}
	if r := b.admitOnce(2); r.Admitted != 1 || r.Lapsed != 3 || r.Active != 2 {
		t.Fatalf("admit after three lapsed: %+v", r)
	}
	b.balance()
}

// Leases are lapsed in slices, whatever the state of the sale.
func TestAdmitLapsesInSlices(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 1000)
	for n := range 250 {
		b.join(user(n))
	}
	b.admit(250)
	for n := range 250 {
		b.check(b.room.Expire(b.ctx, b.product, user(n)))
	}
	b.put(func(s *product.Settings) { s.State = product.Paused })
	for _, want := range []int{100, 100, 50, 0} {
		if r := b.admitOnce(1); r.Lapsed != want || r.Active != 0 {
			t.Fatalf("admit: %+v, expected %d lapsed", r, want)
		}
	}
	if k := b.books(); k.Tally.Lapsed != 250 {
		t.Fatalf("lapsed: %+v", k.Tally)
	}
	b.balance()
}

// How long a slot had been free is told for those whom the capacity had held up, and for nobody else.
func TestAdmitWaits(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Capacity = 3
	b.open(s, 1, 100)
	var places []product.Place
	for n := range 9 {
		places = append(places, b.join(user(n)).Place)
	}
	b.awaitTokens() // lets one in
	if r := b.admitOnce(3); r.Admitted != 2 || len(r.Waits) != 0 || r.Reason != waitingroom.AdmitCapacity {
		t.Fatalf("nobody was held up: %+v", r)
	}
	b.bind(b.request(user(0), places[0], 1))
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(1), places[1])))
	b.check(b.room.Expire(b.ctx, b.product, user(2)))
	r := b.admitOnce(2)
	if r.Admitted != 2 || len(r.Waits) != 2 || r.Lapsed != 1 {
		t.Fatalf("two of three free slots: %+v", r)
	}
	if r.Waits[0] < time.Hour || r.Waits[1] < 0 || r.Waits[1] > time.Hour { // the lapsed slot, freed in 1970 by Expire, comes first
		t.Fatalf("waits: %v", r.Waits)
	}
	if r := b.admitOnce(1); r.Admitted != 1 || len(r.Waits) != 1 {
		t.Fatalf("the third: %+v", r)
	}
	// Nobody waits any longer than the line is long: an empty line is held up by nothing.
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(3), places[3])))
	for n := 6; n < 9; n++ {
		b.check(errorOf(b.room.Leave(b.ctx, b.product, user(n), places[n])))
	}
	if r := b.admitOnce(1); r.Reason != waitingroom.AdmitEmpty || len(r.Waits) != 0 {
		t.Fatalf("empty: %+v", r)
	}
	b.join(user(20))
	if r := b.admitOnce(1); r.Admitted != 1 || len(r.Waits) != 0 {
		t.Fatalf("a slot that waited for a person: %+v", r)
	}
	b.balance()
}

// Three admitters from one start: never above the capacity, and in every window at most rate·w + burst (I8).
func TestAdmitFromThreeSchedulers(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Rate, s.Burst, s.Capacity = 200, 10, 40
	b.open(s, 1, 10_000)
	const line = 300
	for n := range line {
		b.join(user(n))
	}
	gun := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return admitted >= 120
	}
	for range 3 {
		wg.Go(func() {
			<-gun
			for !done() {
				r, err := b.admitter.Admit(b.ctx, b.product, 7)
				if err != nil {
					t.Error(err)
					return
				}
				if r.Active > int64(s.Capacity) {
					t.Errorf("%d active, capacity %d", r.Active, s.Capacity)
					return
				}
				mu.Lock()
				admitted += r.Admitted
				mu.Unlock()
			}
		})
	}
	// Slots become free as people leave with their pass.
	wg.Go(func() {
		<-gun
		for n := 0; !done(); {
			st, err := b.room.Status(b.ctx, b.product, user(n), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if st.State != waitingroom.Active {
				continue
			}
			if _, err := b.room.Leave(b.ctx, b.product, user(n), st.Place); err != nil {
				t.Error(err)
				return
			}
			n++
		}
	})
	close(gun)
	wg.Wait()
	k := b.books()
	total := int64(0)
	for from, n := range k.Admits {
		total += n
		for to := range k.Admits {
			window := int64(0)
			for second, n := range k.Admits {
				if second >= from && second <= to {
					window += n
				}
			}
			if bound := int64(s.Rate)*(to-from+1) + int64(s.Burst); window > bound {
				t.Errorf("%d admissions in %d s, at most %d", window, to-from+1, bound)
			}
		}
	}
	if total != k.Tally.Admitted || k.ActiveAll > int64(s.Capacity) {
		t.Errorf("admits add up to %d, tally %d, active %d", total, k.Tally.Admitted, k.ActiveAll)
	}
	// First come, first served: exactly the first of the line went through.
	for n := range line {
		st := b.status(user(n)).State
		if (st == waitingroom.Waiting) != (n >= int(total)) {
			t.Fatalf("user %d of %d admitted is %s (I7)", n, total, st)
		}
	}
	b.balance()
}

// Old seconds are dropped from admits.
func TestAdmitForgetsOldSeconds(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 100)
	b.check(b.rdb.HSet(b.ctx, b.keys.Product(b.product).Admits, "1000", "7").Err())
	b.join(user(1))
	b.admit(1)
	if k := b.books(); len(k.Admits) != 1 || k.Admits[1000] != 0 {
		t.Fatalf("admits: %v", k.Admits)
	}
}

// A line that people only leave forgets them too, in slices, once no ticket can bring them back; who stands in it and the counts stay.
func TestAdmitForgets(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.State = product.Paused // it need not admit anybody
	b.open(s, 1, 10)
	const leavers, recent = 230, 5
	k := b.keys.Product(b.product)
	old := float64(time.Now().Add(-26 * time.Hour).UnixMilli())
	for n := range leavers {
		place := b.join(user(n)).Place
		b.check(errorOf(b.room.Leave(b.ctx, b.product, user(n), place)))
		if n >= recent {
			b.check(b.rdb.ZAdd(b.ctx, k.WhoT, redis.Z{Score: old, Member: string(user(n))}).Err())
			b.check(b.rdb.ZAdd(b.ctx, k.Judged, redis.Z{Score: old, Member: string(b.id(user(n), place))}).Err())
		}
	}
	// One of them is back: a new life is not forgotten with the old one.
	back := b.join(user(leavers - 1))
	var got [][2]int64
	for range 4 {
		if _, err := b.admitter.Admit(b.ctx, b.product, 1); err != nil {
			t.Fatal(err)
		}
		books := b.books()
		got = append(got, [2]int64{books.Judged, books.Remembered})
		if books.Tally.Left != leavers || books.Tally.Joined != leavers+1 {
			t.Fatalf("tally: %+v", books.Tally)
		}
	}
	if diff := cmp.Diff([][2]int64{{125, 129}, {25, 29}, {0, recent}, {0, recent}}, got); diff != "" {
		t.Fatalf("judged and remembered (-want +got):\n%s", diff)
	}
	if now := b.status(user(leavers - 1)); now.State != waitingroom.Waiting || now.Place != back.Place {
		t.Fatalf("who came back: %+v", now)
	}
	b.balance()
}

// A large crowd goes through in several calls, each of as many as a script can unpack; the script itself refuses to try more (hazard R7).
func TestAdmitInChunks(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Capacity = 5000
	b.open(s, 1, 10_000)
	const line = 3*waitingroom.AdmitMax + 1
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for n := c; n < line; n += 8 {
				if _, err := b.room.Join(b.ctx, b.product, user(n), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	total, calls := 0, 0
	b.until("everybody is through", func() bool {
		r := b.admitOnce(line)
		if r.Admitted > waitingroom.AdmitMax {
			t.Errorf("%d let through in one call", r.Admitted)
		}
		if r.Admitted > 0 {
			calls++
		}
		total += r.Admitted
		return total == line
	})
	if calls < 4 {
		t.Errorf("%d calls", calls)
	}
	k := b.keys.Product(b.product)
	keys := []string{k.Settings, k.Clock, k.Waiting, k.Active, k.Who, k.WhoT, k.Stock, k.Tally, k.Admits, k.Judged}
	if _, err := redisconn.LoadScript(lua.FS, "waitingroom_admit.lua").Run(b.ctx, b.rdb, keys, waitingroom.AdmitMax+1, 1000); err == nil {
		t.Error("the script takes more than its most")
	}
	b.balance()
}
