package waitingroom_test

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// runningClock is the running time of docs/joint.md, 2.8, written a second time: what had gone by at the last run of admit, and what
// goes by since.
type runningClock struct {
	began  bool
	runMS  int64 // Redis TIME of the last run
	ranMS  int64 // running time at it
	stands bool
}

func (c runningClock) at(nowMS int64) int64 {
	switch {
	case !c.began:
		return nowMS
	case c.stands:
		return c.ranMS
	}
	return c.ranMS + max(0, min(nowMS-c.runMS, waitingroom.Allowance.Milliseconds()))
}

func (c *runningClock) run(nowMS int64, stands bool) {
	*c = runningClock{true, nowMS, c.at(nowMS), stands}
}

// field reads a number of the hash clock.
func (b *bundle) field(name string) int64 {
	b.t.Helper()
	text, err := b.room.Clock(b.ctx, b.product, name)
	b.check(err)
	n, err := strconv.ParseInt(text, 10, 64)
	b.check(err)
	return n
}

// left is what is left of a user's pass, in milliseconds, or somewhat more: the view is of a moment before.
func (b *bundle) left(u product.UserHash) int64 {
	b.t.Helper()
	v := b.view()
	return b.status(u).LeaseEndMS - v.NowMS
}

func (b *bundle) halt(halted string) {
	b.t.Helper()
	b.check(b.rdb.HSet(b.ctx, b.keys.Product(b.product).Settings, "orders_halted", halted).Err())
}

// elapse lets that much time go by in which admit is run each second.
func (b *bundle) elapse(d time.Duration) {
	b.t.Helper()
	for ; d > 0; d -= time.Second {
		b.check(b.room.Elapse(b.ctx, b.product, min(d, time.Second)))
		b.admitOnce(1)
	}
}

// Any order of runs by two schedulers, gaps, jumps of the server's time, halts, silence and held units: every script agrees with the model
// on the millisecond at which a pass lapses, and running time never goes back.
func TestRunningTimeAgainstModel(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	other := waitingroom.NewAdmitter(b.rdb, b.keys)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		fresh := *b
		fresh.product = product.ID("clock" + strconv.Itoa(run))
		l := &fresh
		l.t = rapidTB{t, rt}
		s := settings()
		s.PassMS = 20_000
		l.open(s, 1, 10)
		u := user(run)
		place := l.join(u).Place
		model, last := runningClock{}, int64(0)
		halted := false
		lease := int64(-1) // not yet admitted
		admit := func(a *waitingroom.Admitter) {
			_, err := a.Admit(l.ctx, l.product, 1)
			l.check(err)
			model.run(l.field("run_ms"), halted)
			if still := l.field("still_ms"); still != model.runMS-model.ranMS {
				rt.Fatalf("still %d ms, model %+v", still, model)
			}
			if model.ranMS < last {
				rt.Fatalf("running time went back: %d after %d", model.ranMS, last)
			}
			last = model.ranMS
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"admit", "admit", "other", "gap", "gap", "back", "halt", "look"}).Draw(rt, "step") {
			case "admit":
				admit(l.admitter)
			case "other":
				admit(other)
			case "gap":
				if d := rapid.Int64Range(0, 15_000).Draw(rt, "gap"); model.began {
					l.check(l.room.Elapse(l.ctx, l.product, time.Duration(d)*time.Millisecond))
					model.runMS -= d
				}
			case "back": // the server's time goes back, or a failover leads to one whose time is behind
				if d := rapid.Int64Range(0, 15_000).Draw(rt, "back"); model.began {
					l.check(l.room.Elapse(l.ctx, l.product, -time.Duration(d)*time.Millisecond))
					model.runMS += d
				}
			case "halt":
				halted = !halted
				l.halt(map[bool]string{true: "1", false: "0"}[halted])
			}
			before := l.view()
			now := l.status(u)
			after := l.view()
			if lease < 0 && now.State == waitingroom.Active {
				lease = model.ranMS + s.PassMS
			}
			left := func(v waitingroom.ProductView) int64 { return lease - model.at(v.NowMS) }
			ends := func(v waitingroom.ProductView) int64 { return v.NowMS + left(v) }
			switch {
			case lease < 0:
				continue
			case left(before) > 0 != (before.Active == 1):
				rt.Fatalf("%d ms of the pass are left: %+v", left(before), before)
			case left(after) > 0 && (now.State != waitingroom.Active || now.LeaseEndMS < ends(before) || now.LeaseEndMS > ends(after)):
				rt.Fatalf("%d ms of the pass are left, it ends from %d to %d: %+v", left(after), ends(before), ends(after), now)
			case left(before) <= 0 && (now.State != waitingroom.Lapsed || now.Place != place):
				rt.Fatalf("the pass is over since %d ms: %+v", -left(before), now)
			case left(after) <= 0:
				l.balance()
				return
			}
		}
		l.balance()
	})
}

// holder opens a line whose user 1 holds a pass, and returns its bind.
func (b *bundle) holder(units int64) waitingroom.BindRequest {
	b.t.Helper()
	b.open(settings(), 1, units)
	place := b.join(user(1)).Place
	b.admit(1)
	return b.request(user(1), place, 1)
}

// A pass keeps its time while no scheduler comes, nobody could be heard, or orders are halted; by its text it would be over.
func TestPassTimeStandsStill(t *testing.T) {
	t.Parallel()
	const outage = 4 * time.Hour
	for name, stand := range map[string]func(*bundle) waitingroom.Standstill{
		"NoScheduler": func(b *bundle) waitingroom.Standstill {
			b.check(b.room.Elapse(b.ctx, b.product, outage))
			return waitingroom.StandsGap
		},
		"NobodyHeard": func(b *bundle) waitingroom.Standstill {
			b.check(b.room.Beat(b.ctx))
			b.check(b.admitter.Listen(b.ctx))
			if b.admitter.Deaf() {
				b.t.Fatal("deaf after a beat")
			}
			b.check(b.room.Silence(b.ctx, 10*time.Second))
			b.check(b.admitter.Listen(b.ctx))
			b.admitOnce(1)
			b.check(b.room.Elapse(b.ctx, b.product, outage))
			return waitingroom.StandsDeaf
		},
		"OrdersHalted": func(b *bundle) waitingroom.Standstill {
			b.halt("1")
			b.admitOnce(1)
			b.check(b.room.Elapse(b.ctx, b.product, outage))
			return waitingroom.StandsHalted
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			request := b.holder(10)
			before := b.left(user(1))
			why := stand(b)
			for range 3 { // twice and late: what stood is counted once
				if left := b.left(user(1)); left < before-time.Minute.Milliseconds() {
					t.Fatalf("during the outage %d ms were left, before it %d", left, before)
				}
				if l, err := b.room.Line(b.ctx, b.product); err != nil || l.Active != 1 {
					t.Fatalf("line: %+v, %v", l, err)
				}
				r := b.admitOnce(1)
				if r.Lapsed != 0 || r.Active != 1 {
					t.Fatalf("the pass lapsed: %+v", r)
				}
				if why != "" && (r.StoodFor != why || r.Stood < outage-10*time.Second || r.Stood > outage+time.Hour) {
					t.Fatalf("stood %s for %q, expected about %s for %q", r.Stood, r.StoodFor, outage, why)
				}
				why = ""
			}
			if f, err := b.room.Forsake(b.ctx, b.product, user(1), "other"); err != nil || f != waitingroom.ForsakeInLine {
				t.Fatalf("forsake: %s, %v", f, err)
			}
			request.ExpiresMS = 1000 // the text that was handed out before the outage
			if name == "OrdersHalted" {
				if got := b.bind(request); got.Outcome != waitingroom.BindHalted {
					t.Fatalf("bind while orders are halted: %+v", got)
				}
				b.halt("0")
			}
			if got := b.bind(request); got.Outcome != waitingroom.BindBound {
				t.Fatalf("bind: %+v (rule 3 goes by the lease)", got)
			}
			b.balance()
		})
	}
}

// Afterwards time goes on from where it stood, and an unused pass lapses, frees its slot at once, and its holder joins anew at the end.
func TestPassTimeGoesOn(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.PassMS, s.Capacity = 10_000, 1
	b.open(s, 1, 10)
	first := b.join(user(1))
	b.join(user(2))
	b.admit(1)
	b.halt("1")
	b.admitOnce(1)
	b.check(b.room.Elapse(b.ctx, b.product, time.Hour))
	b.halt("0")
	b.admitOnce(1)
	if now := b.status(user(1)); now.State != waitingroom.Active {
		t.Fatalf("resumed: %+v", now)
	}
	b.elapse(11 * time.Second)
	if now := b.status(user(1)); now.State != waitingroom.Lapsed {
		t.Fatalf("its time is over: %+v", now)
	}
	if now := b.status(user(2)); now.State != waitingroom.Active {
		t.Fatalf("the slot is free: %+v", now)
	}
	if again := b.join(user(1)); !again.Created || again.Place <= first.Place || again.State != waitingroom.Waiting {
		t.Fatalf("join after the lapse: %+v", again)
	}
	if k := b.books(); k.Tally.Lapsed != 1 {
		t.Fatalf("tally: %+v", k.Tally)
	}
	b.balance()
}

// F37: while every unit left is held by orders that await their verdict, passes keep their time; they lapse once nothing can come back.
func TestPassesOutlastHeldUnits(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]int64{"UnitComesBack": 1, "UnitIsSold": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			s := settings()
			s.PassMS, s.Oversub = 20_000, 1
			b.open(s, 1, 1)
			buyer, next := b.join(user(1)), b.join(user(2))
			b.admit(2)
			order := b.request(user(1), buyer.Place, 1)
			b.bind(order)
			b.admitOnce(1)
			b.elapse(time.Minute)
			second := b.request(user(2), next.Place, 1)
			if got := b.bind(second); got.Outcome != waitingroom.BindSoldOut {
				t.Fatalf("while the unit is held: %+v", got)
			}
			b.check(b.counter.Settle(b.ctx, b.product, base, 1, false, []stock.Judged{{OrderID: order.OrderID, User: user(1), Place: buyer.Place}}))
			b.admitOnce(1)
			if base == 1 {
				if got := b.bind(second); got.Outcome != waitingroom.BindBound {
					t.Fatalf("the unit came back: %+v", got)
				}
			} else {
				b.elapse(25 * time.Second)
				if now := b.status(user(2)); now.State != waitingroom.Lapsed {
					t.Fatalf("nothing can come back: %+v", now)
				}
			}
			b.balance()
		})
	}
}

// A slot that an older release wrote has no running time: its leases are of Redis TIME, and time goes on from there.
func TestRunningTimeOfAnOlderSlot(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.holder(10)
	b.check(b.rdb.HDel(b.ctx, b.keys.Product(b.product).Clock, "run_ms", "still_ms", "stands").Err())
	before := b.status(user(1))
	b.admitOnce(1)
	if now := b.status(user(1)); now.LeaseEndMS != before.LeaseEndMS || b.field("still_ms") != 0 {
		t.Fatalf("lease ends %d, before %d; still %d ms", now.LeaseEndMS, before.LeaseEndMS, b.field("still_ms"))
	}
	b.check(b.room.Expire(b.ctx, b.product, user(1)))
	if now := b.status(user(1)); now.State != waitingroom.Lapsed {
		t.Fatalf("expired: %+v", now)
	}
	// An emptied slot begins anew: the leases that stood still are gone with it.
	b.check(b.room.Forget(b.ctx, b.product))
	b.restore(settings(), 2, 0, 0)
	b.admitOnce(1)
	if still := b.field("still_ms"); still != 0 {
		t.Fatalf("restored with %d ms", still)
	}
}

// Only a beat that was once heard and then ceased makes deaf: where there never was one, time goes on.
func TestListen(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, step := range []struct {
		what string
		do   func() error
		deaf bool
	}{
		{"never a beat", func() error { return nil }, false},
		{"a beat", func() error { return b.room.Beat(b.ctx) }, false},
		{"silence", func() error { return b.room.Silence(b.ctx, 2*waitingroom.Allowance) }, true},
		{"a beat again", func() error { return b.room.Beat(b.ctx) }, false},
		{"silence for weeks", func() error { return b.room.Silence(b.ctx, 20*24*time.Hour) }, true},
		{"the key is lost", func() error { return b.rdb.Del(b.ctx, b.keys.Alive()).Err() }, false},
	} {
		b.check(step.do())
		b.check(b.admitter.Listen(b.ctx))
		if b.admitter.Deaf() != step.deaf {
			t.Errorf("%s: deaf is %v", step.what, b.admitter.Deaf())
		}
	}
}
