package waitingroom_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

const (
	absence = 90 * time.Second
	// longest is when somebody unheard is away at the latest: what was heard may be noted a third of the limit too early.
	longest = absence * 4 / 3
	grace   = time.Minute
)

// watched opens a line of people whom nobody is admitted from, and has admit meet them.
func (b *bundle) watched(people int, change func(*product.Settings)) (places []product.Place) {
	b.t.Helper()
	s := settings()
	if change != nil {
		change(&s)
	}
	b.open(s, 1, 1000)
	b.set("absence_ms", absence.Milliseconds())
	b.set("grace_ms", grace.Milliseconds())
	b.set("cap", 0)
	for n := range people {
		places = append(places, b.join(user(n)).Place)
	}
	for range people/100 + 1 {
		b.admitOnce(1)
	}
	return places
}

// set changes one of the slot's settings.
func (b *bundle) set(field string, value int64) {
	b.t.Helper()
	b.check(b.rdb.HSet(b.ctx, b.keys.Product(b.product).Settings, field, value).Err())
}

func (b *bundle) unheard(n int, d time.Duration) {
	b.t.Helper()
	b.check(b.room.Unheard(b.ctx, b.product, user(n), d))
}

// found is a user's state, without being heard.
func (b *bundle) found(n int) waitingroom.State {
	b.t.Helper()
	m, err := b.room.Membership(b.ctx, b.product, user(n))
	b.check(err)
	switch {
	case m.Sets > 1:
		b.t.Fatalf("user %d is in %d sets (I6)", n, m.Sets)
	case m.Waiting > 0:
		return waitingroom.Waiting
	case m.Away > 0:
		return waitingroom.Away
	case m.Record == "":
		return waitingroom.None
	}
	return m.Record
}

// F18: who is unheard makes way with the place kept, comes back to it by any sign of life, and lapses at the end of the grace.
func TestUnheardPeopleMakeWay(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	places := b.watched(6, nil)
	for n := range 4 {
		b.unheard(n, longest)
	}
	if r := b.admitOnce(1); r.Away != 4 || r.Waiting != 2 {
		t.Fatalf("admit: %+v", r)
	}
	if again := b.admitOnce(1); again.Away != 0 {
		t.Fatalf("moved again: %+v", again)
	}
	if s := b.status(user(4)); s.Position != 1 {
		t.Fatalf("absent people are counted in front: %+v", s)
	}
	back, err := b.room.Heard(b.ctx, b.product, []product.UserHash{user(5), user(2), user(99)})
	b.check(err)
	if diff := cmp.Diff([]product.UserHash{user(2)}, back); diff != "" {
		t.Fatal(diff)
	}
	if back, err = b.room.Heard(b.ctx, b.product, []product.UserHash{user(2)}); err != nil || len(back) > 0 {
		t.Fatalf("heard again: %v, %v", back, err)
	}
	if s := b.status(user(1)); s.State != waitingroom.Waiting || s.Place != places[1] || s.Position != 1 {
		t.Fatalf("heard by a poll: %+v", s)
	}
	if s := b.join(user(3)); s.Created || s.Place != places[3] || s.Position != 3 {
		t.Fatalf("heard by a join: %+v", s)
	}
	b.balance()
	b.check(b.room.EndGrace(b.ctx, b.product, user(0)))
	if r := b.admitOnce(1); r.AwayLapsed != 1 || r.Lapsed != 0 {
		t.Fatalf("end of the grace: %+v", r)
	}
	b.set("cap", 1)
	b.admit(1)
	if s := b.status(user(1)); s.State != waitingroom.Active {
		t.Fatalf("the first who is present: %+v", s)
	}
	if s := b.join(user(0)); !s.Created || s.Place <= places[5] {
		t.Fatalf("join anew: %+v", s)
	}
	if k := b.books().Tally; k.Away != 4 || k.Back != 3 || k.AwayLapsed != 1 || k.Lapsed != 1 {
		t.Fatalf("tally: %+v", k)
	}
	b.balance()
}

// However many are absent, a bounded number of bounded calls reaches who is present behind them, and admits nobody who is absent.
func TestCrowdOfAbsentPeople(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	const gone = 450
	b.watched(gone+1, nil)
	for n := range gone {
		b.unheard(n, longest)
	}
	b.set("cap", 10)
	b.awaitTokens()
	var moved []int
	for len(moved) < 7 && b.found(gone) == waitingroom.Waiting {
		r := b.admitOnce(2)
		moved = append(moved, r.Away)
		if (r.Reason == waitingroom.AdmitAway) != (r.Away == 100) || r.Reason == waitingroom.AdmitAway && r.Admitted > 0 {
			t.Fatalf("admit: %+v", r)
		}
	}
	k := b.books()
	if k.Tally.Away != gone || k.Tally.Admitted != 1 || b.found(gone) != waitingroom.Active {
		t.Fatalf("moved %v: %+v", moved, k.Tally)
	}
	b.balance()
}

// Who becomes absent, and who does not.
func TestWhoIsAbsent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(*bundle)
		want waitingroom.State
	}{
		"Unheard":     {func(b *bundle) { b.unheard(0, longest) }, waitingroom.Away},
		"WithinLimit": {func(b *bundle) { b.unheard(0, longest-30*time.Second) }, waitingroom.Waiting},
		"Heard": {func(b *bundle) {
			b.unheard(0, longest)
			_, err := b.room.Heard(b.ctx, b.product, []product.UserHash{user(0)})
			b.check(err)
		}, waitingroom.Waiting},
		"Polled": {func(b *bundle) { b.unheard(0, longest); b.status(user(0)) }, waitingroom.Waiting},
		"Paused": {func(b *bundle) {
			b.unheard(0, longest)
			b.put(func(s *product.Settings) { s.State = product.Paused })
		}, waitingroom.Waiting},
		"Off": {func(b *bundle) { b.unheard(0, longest); b.set("absence_ms", 0) }, waitingroom.Waiting},
		"OnAgain": {func(b *bundle) { // what was heard meanwhile was not noted
			b.unheard(0, longest)
			b.set("absence_ms", 0)
			b.admitOnce(1)
			b.set("absence_ms", absence.Milliseconds())
		}, waitingroom.Waiting},
		"NobodyCouldHear": {func(b *bundle) {
			b.halt("1")
			b.admitOnce(1)
			b.check(b.room.Elapse(b.ctx, b.product, time.Hour))
			b.halt("0")
		}, waitingroom.Waiting},
		"SeenLost": {func(b *bundle) {
			b.check(b.rdb.Del(b.ctx, b.keys.Product(b.product).Seen).Err())
		}, waitingroom.Waiting},
		"AnotherLife": {func(b *bundle) { // the record is of the place that was given up
			b.unheard(0, longest)
			b.check(errorOf(b.room.Leave(b.ctx, b.product, user(0), b.status(user(0)).Place)))
			b.join(user(0))
		}, waitingroom.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			b.watched(3, nil)
			c.do(b)
			b.admitOnce(1)
			if got := b.found(0); got != c.want {
				t.Fatalf("%s, expected %s", got, c.want)
			}
			b.balance()
		})
	}
}

// Only as many are watched as may come up within the limit, and nothing is written for anybody farther behind.
func TestFarPeopleAreNotWatched(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	places := b.watched(130, func(s *product.Settings) { s.Rate = 0.5 })
	b.status(user(129))
	_, err := b.room.Heard(b.ctx, b.product, []product.UserHash{user(128)})
	b.check(err)
	if n, err := b.rdb.ZCard(b.ctx, b.keys.Product(b.product).Seen).Result(); err != nil || n != 100 {
		t.Fatalf("%d are watched, %v", n, err)
	}
	if v := b.view(); v.Near != places[99] {
		t.Fatalf("near: %s, expected %s", v.Near, places[99])
	}
}

func TestHeardRefuses(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.room.Heard(b.ctx, b.product, []product.UserHash{user(1)}); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("without settings: %v", err)
	}
	b.watched(0, nil)
	many := make([]product.UserHash, 2*waitingroom.HeardMax+1)
	for n := range many {
		many[n] = user(n)
	}
	if back, err := b.room.Heard(b.ctx, b.product, many); err != nil || len(back) > 0 {
		t.Fatalf("strangers: %v, %v", back, err)
	}
}

// Whatever people do, who was heard within the limit is never moved, who was not for a third longer always is, and the first of those who are
// there is admitted.
func TestAbsenceAgainstModel(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		l := *b
		l.product = product.ID("absence" + strconv.Itoa(run))
		l.t = rapidTB{t, rt}
		const crowd = 5
		l.watched(crowd, nil)
		ran := func() time.Duration {
			return time.Duration(l.field("run_ms")-l.field("still_ms")) * time.Millisecond
		}
		heard := map[int]time.Duration{} // of those in line, by running time, at the earliest
		for n := range crowd {
			heard[n] = ran() - time.Second
		}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			n := rapid.IntRange(0, crowd-1).Draw(rt, "user")
			switch rapid.SampledFrom([]string{"join", "status", "heard", "wait", "wait", "wait", "admit"}).Draw(rt, "step") {
			case "join":
				if l.join(user(n)); l.found(n) == waitingroom.Waiting {
					heard[n] = ran()
				}
			case "status":
				if l.status(user(n)); l.found(n) == waitingroom.Waiting {
					heard[n] = ran()
				}
			case "heard":
				_, err := l.room.Heard(l.ctx, l.product, []product.UserHash{user(n)})
				l.check(err)
				if l.found(n) == waitingroom.Waiting {
					heard[n] = ran()
				}
			case "wait":
				for range rapid.IntRange(1, 8).Draw(rt, "waits") {
					l.check(l.room.Elapse(l.ctx, l.product, waitingroom.Allowance))
					l.admitOnce(1)
				}
			case "admit":
				first, lowest := -1, product.Place(0)
				for n := range crowd {
					if m, err := l.room.Membership(l.ctx, l.product, user(n)); err == nil && m.Waiting > 0 && (first < 0 || m.Waiting < lowest) {
						first, lowest = n, m.Waiting
					}
				}
				l.set("cap", 1000)
				r := l.admitOnce(1)
				l.set("cap", 0)
				if r.Admitted == 1 && r.Away == 0 && l.found(first) != waitingroom.Active {
					rt.Fatalf("user %d was first, and is %s: %+v", first, l.found(first), r)
				}
			}
			l.admitOnce(1)
			now := ran()
			for n, at := range heard {
				silent := now - at
				switch state := l.found(n); {
				case state == waitingroom.Away && silent < absence:
					rt.Fatalf("user %d was heard %s ago and is away", n, silent)
				case state == waitingroom.Waiting && silent > longest+10*time.Second:
					rt.Fatalf("user %d was last heard %s ago and waits", n, silent)
				case state == waitingroom.Lapsed && silent < absence+grace:
					rt.Fatalf("user %d was heard %s ago and has lapsed", n, silent)
				case state != waitingroom.Waiting && state != waitingroom.Away:
					delete(heard, n) // until they join anew
				}
			}
			l.balance()
		}
	})
}
