package waitingroom_test

import (
	"sync"
	"testing"

	"hanjul/pkg/waitingroom"
)

// TestCases are faults that other gates had, by the numbers under which we keep them. 10 is TestCrowdOfAbsentPeople, 18 TestLostAnswers, 60
// TestAdmitInChunks; the others are in admission-scheduler's admit and in queue-api's httpapi and live.
func TestCases(t *testing.T) {
	t.Parallel()

	// What swept up passes stopped when there were many. Here each run frees a bounded number, lets people in beside it, and the next goes on.
	t.Run("Case3ManyPassesLapseAtOnce", func(t *testing.T) {
		t.Parallel()
		const passes, next = 450, 10
		b := newBundle(t)
		s := settings()
		s.Capacity = passes
		b.open(s, 1, 10_000)
		for n := range passes {
			b.join(user(n))
		}
		b.admit(passes)
		for n := range passes {
			b.check(b.room.Expire(b.ctx, b.product, user(n)))
		}
		for n := range 3 * next {
			b.join(user(passes + n))
		}
		for _, lapsed := range []int{100, 100, 100, 100, 50, 0} {
			r := b.admitOnce(next)
			if r.Lapsed != lapsed {
				t.Fatalf("admit: %+v, expected %d lapsed", r, lapsed)
			}
		}
		if k := b.books().Tally; k.Lapsed != passes || k.Admitted != passes+3*next {
			t.Fatalf("tally: %+v", k)
		}
		b.balance()
	})

	// The first of the line never came, and everybody behind waited for as long as a pass lives.
	t.Run("Case15TheFirstIsSilent", func(t *testing.T) {
		t.Parallel()
		b := newBundle(t)
		places := b.watched(2, nil)
		for range 25 { // two minutes, in which the second one polls
			b.passTime(1)
		}
		b.set("cap", 1)
		b.until("the second is admitted", func() bool { b.admitOnce(1); return b.found(1) == waitingroom.Active })
		if b.found(0) != waitingroom.Away {
			t.Fatal(b.found(0))
		}
		if s := b.status(user(0)); s.State != waitingroom.Waiting || s.Place != places[0] {
			t.Fatalf("%+v", s)
		}
		b.balance()
	})

	// Two were let in by one slot, since it was looked at before it was taken.
	t.Run("Case19ManyTakeOneSlot", func(t *testing.T) {
		t.Parallel()
		const people, looks = 50, 200
		b := newBundle(t)
		s := settings()
		s.Capacity = 1
		b.open(s, 1, 1000)
		places := make([]waitingroom.Standing, people)
		for n := range people {
			places[n] = b.join(user(n))
		}
		b.admit(1)
		for n := range 3 {
			b.check(errorOf(b.room.Leave(b.ctx, b.product, user(n), places[n].Place)))
			var mu sync.Mutex
			var wg sync.WaitGroup
			admitted, gate := 0, make(chan struct{})
			for range looks {
				wg.Go(func() {
					<-gate
					r, err := b.admitter.Admit(b.ctx, b.product, 5)
					mu.Lock()
					defer mu.Unlock()
					if admitted += r.Admitted; err != nil || r.Active > 1 {
						t.Errorf("%+v, %v", r, err)
					}
				})
			}
			close(gate)
			wg.Wait()
			if admitted != 1 || b.found(n+1) != waitingroom.Active {
				t.Fatalf("%d admitted, the next is %s", admitted, b.found(n+1))
			}
		}
		b.balance()
	})

	// Hidden tabs are let run once a minute, and their people lost the place. Ten minutes of that keep it, at the shortest limit there may be.
	t.Run("Case20AHiddenTabKeepsItsPlace", func(t *testing.T) {
		t.Parallel()
		b := newBundle(t)
		places := b.watched(2, nil)
		for minute := range 10 {
			for range 12 {
				b.passTime(-1)
			}
			if found := b.found(1); found != waitingroom.Waiting {
				t.Fatalf("%s after %d minutes", found, minute+1)
			}
			if s := b.status(user(1)); s.State != waitingroom.Waiting || s.Place != places[1] {
				t.Fatalf("%+v", s)
			}
		}
		if found := b.found(0); found != waitingroom.Lapsed { // nothing was heard of the other
			t.Fatal(found)
		}
		b.balance()
	})

	// Whoever did not come was put behind the others again and again, and never left.
	t.Run("Case22WhoNeverComesLapses", func(t *testing.T) {
		t.Parallel()
		b := newBundle(t)
		places := b.watched(3, nil)
		b.unheard(0, longest)
		b.admitOnce(1)
		if s := b.status(user(0)); s.State != waitingroom.Waiting || s.Place != places[0] || s.Position != 1 { // came once, to the same place
			t.Fatalf("%+v", s)
		}
		b.unheard(0, longest)
		b.admitOnce(1)
		b.check(b.room.EndGrace(b.ctx, b.product, user(0)))
		if r := b.admitOnce(1); r.AwayLapsed != 1 || r.Waiting != 2 || b.found(0) != waitingroom.Lapsed {
			t.Fatalf("%+v, %s", r, b.found(0))
		}
		for range 30 {
			b.passTime(1)
			b.status(user(2))
		}
		if found := b.found(0); found != waitingroom.Lapsed {
			t.Fatal(found)
		}
		if s := b.status(user(1)); s.Position != 1 {
			t.Fatalf("%+v", s)
		}
		b.balance()
	})

	// A counter beside the line said that it was full when it was not, after people had left twice or a call had been repeated.
	t.Run("Case57ALineIsAsFullAsItIs", func(t *testing.T) {
		t.Parallel()
		const most = 3
		b := newBundle(t)
		s := settings()
		s.MaxLen = most
		b.open(s, 1, 100)
		for range 5 {
			var places []waitingroom.Standing
			for n := range most {
				places = append(places, b.join(user(n)))
				b.join(user(n))
			}
			if _, err := b.room.Join(b.ctx, b.product, user(9), nil); err == nil {
				t.Fatal("one too many")
			}
			for n := range most {
				for range 3 {
					b.check(errorOf(b.room.Leave(b.ctx, b.product, user(n), places[n].Place)))
				}
			}
			if v := b.view(); v.Waiting != 0 {
				t.Fatalf("%d wait", v.Waiting)
			}
		}
		b.balance()
	})
}

// passTime lets five seconds of running time go by, in which somebody polls, and a run of admit behind them. Nobody does where polls is below 0.
func (b *bundle) passTime(polls int) {
	b.t.Helper()
	b.check(b.room.Elapse(b.ctx, b.product, waitingroom.Allowance))
	if polls >= 0 {
		b.status(user(polls))
	}
	b.admitOnce(1)
}
