package admit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

var errCrash = errors.New("crash")

// claim is what a genuine ticket says of a place.
func claim(t *testing.T, u product.UserHash, place product.Place, openedUS int64) *waitingroom.TicketClaim {
	t.Helper()
	return &waitingroom.TicketClaim{Place: place, OrderID: order.DeriveID(commandKey(t), p, u, place, openedUS)}
}

func TestALineThatRedisForgotIsContinued(t *testing.T) {
	t.Parallel()
	const people, capacity = 10, 3
	w := newWorld(t, 100, func(s *product.Settings) {
		s.Rate, s.Burst, s.Capacity = 1000, 100, capacity
	})
	schedulers := []*scheduler{w.scheduler(nil), w.scheduler(nil)}
	w.open()
	places := w.join(0, people)
	until(t, "the capacity is used", func() bool { return w.view().Active == capacity })
	before := w.view()
	until(t, "front and active count are written down", func() bool {
		row := w.row()
		return row.Front == before.Front && row.ActiveN == capacity
	})
	asked := w.log.count()

	w.lose()
	w.open()

	after := w.view()
	if after.Inc <= before.Inc || after.OpenedUS != before.OpenedUS || after.Front != before.Front || after.SettingsV != before.SettingsV {
		t.Fatalf("before %+v\nafter %+v", before, after)
	}
	if n := w.log.count(); n != asked+1 {
		t.Fatalf("the stock was asked for %d times", n-asked)
	}
	waiting := 0
	for i := range people {
		s, err := w.room.Status(t.Context(), p, user(i), claim(t, user(i), places[user(i)], before.OpenedUS))
		if err != nil {
			t.Fatal(err)
		}
		called := places[user(i)] <= before.Front
		switch {
		case called && s.State == waitingroom.Called, !called && s.State == waitingroom.Waiting && s.Place == places[user(i)]:
		default:
			t.Fatalf("person %d, called before: %v: %+v", i, called, s)
		}
		if !called {
			waiting++
		}
	}
	newcomer := w.join(people, people+1)[user(people)]
	for _, place := range places {
		if newcomer <= place {
			t.Fatalf("a newcomer got place %s, below %s", newcomer, place)
		}
	}
	// The passes of before are not known and are counted all the same: nobody is let through beside them.
	runs := func() (n float64) {
		for _, s := range schedulers {
			n += s.count(t, "hanjul_admit_runs_total", "capacity")
		}
		return n
	}
	n := runs()
	until(t, "the line is looked at again", func() bool { return runs() >= n+5 })
	if v := w.view(); v.Active != 0 || v.Waiting != int64(waiting)+1 || waiting != people-capacity {
		t.Fatalf("%d waiting with a ticket: %+v", waiting, v)
	}
}

// opening is a ledger in which only the first look at a line is written down.
type opening struct {
	*ledger.Ledger
	first sync.Once
}

// PersistLine writes once.
func (o *opening) PersistLine(ctx context.Context, id product.ID, front product.Place, active int, at time.Time) (err error) {
	o.first.Do(func() { err = o.Ledger.PersistLine(ctx, id, front, active, at) })
	return err
}

// What was let through since the opening, and not written down, counts after a loss, too (F14).
func TestFirstAdmissionsAreCountedAfterALoss(t *testing.T) {
	t.Parallel()
	const capacity = 3
	w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, capacity })
	s := w.scheduler(func(c *admit.Config) { c.Ledger = &opening{Ledger: w.books} })
	w.open()
	w.join(0, 10)
	until(t, "the capacity is used", func() bool { return w.view().Active == capacity })
	w.lose()
	w.open()
	w.join(10, 20)
	n := s.count(t, "hanjul_admit_runs_total", "capacity")
	until(t, "the line is looked at again", func() bool { return s.count(t, "hanjul_admit_runs_total", "capacity") >= n+5 })
	if v := w.view(); v.Active != 0 || v.Waiting != 10 {
		t.Fatalf("let through beside those of before: %+v", v)
	}
}

// An open line is written down before anybody is let through.
func TestAnEmptyLineIsWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(*product.Settings) {})
	w.scheduler(nil)
	w.open()
	until(t, "it is written down", func() bool { return !w.row().FrontAt.IsZero() })
	if row := w.row(); row.Front != 0 || row.ActiveN != 0 {
		t.Fatalf("%+v", row)
	}
}

// L2: a scheduler ends between a step and the next; another one begins while the claim is still held, and finishes.
func TestRestoreSurvivesACrashBehindEachStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step string
		inc  int // of the open line: a number taken and not used is burnt
	}{
		{admit.StepBegin, 1}, {admit.StepInc, 2}, {admit.StepRenew, 2}, {admit.StepBans, 2}, {admit.StepCommit, 1},
	} {
		t.Run(tt.step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 10, func(*product.Settings) {})
			crashed, over := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			w.scheduler(func(c *admit.Config) {
				c.Fault = func(step string) error {
					if step == tt.step && once.CompareAndSwap(false, true) {
						close(crashed)
						<-over // it does nothing any more
						return errCrash
					}
					return nil
				}
			})
			t.Cleanup(func() { close(over) })
			<-crashed
			w.scheduler(nil)
			w.open()
			w.join(0, 1)
			until(t, "the line moves", func() bool { return w.view().Admitted == 1 })
			if l := w.line(); l.Inc != tt.inc || l.Restoring {
				t.Fatalf("%+v", l)
			}
		})
	}
}

// The same scheduler goes on after a step that failed, with its own claim.
func TestRestoreGoesOnAfterAFailedStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{admit.StepBegin, admit.StepInc, admit.StepRenew, admit.StepBans, admit.StepCommit} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 10, func(*product.Settings) {})
			var failed atomic.Int64
			s := w.scheduler(func(c *admit.Config) {
				c.Fault = func(at string) error {
					if at == step && failed.Add(1) == 1 {
						return errCrash
					}
					return nil
				}
			})
			w.open()
			if failed.Load() == 0 || s.count(t, "hanjul_admit_restores_total", "restore", "error") != 1 {
				t.Fatal("the step did not fail")
			}
		})
	}
}

// F8: a scheduler that stalls between taking an incarnation and opening the line cannot open it later, neither beside another
// that did, nor when Redis is emptied again.
func TestAStalledRestoreOpensNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(*product.Settings) {})
	stalledAt, gate := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	one := w.scheduler(func(c *admit.Config) {
		c.Fault = func(step string) error {
			if step == admit.StepInc && once.CompareAndSwap(false, true) {
				close(stalledAt)
				<-gate
			}
			return nil
		}
	})
	<-stalledAt
	two := w.scheduler(nil)
	w.open()
	if l := w.line(); l.Inc != 2 {
		t.Fatalf("%+v", l)
	}
	two.stop()
	w.lose()
	close(gate)
	w.open()
	if l, done := w.line(), one.count(t, "hanjul_admit_restores_total", "restore", "done"); l.Inc != 3 || done != 1 {
		t.Fatalf("%+v, the stalled one opened it %v times", l, done)
	}
}

// odd is a room whose line says, until it was advanced, what a real one says after a failover or late in its places.
type odd struct {
	admit.Room
	change   func(*waitingroom.Line)
	advanced atomic.Bool
}

func (o *odd) Line(ctx context.Context, id product.ID) (waitingroom.Line, error) {
	l, err := o.Room.Line(ctx, id)
	if l.Present && !o.advanced.Load() {
		o.change(&l)
	}
	return l, err
}

func (o *odd) Advance(ctx context.Context, id product.ID, nonce string, inc int, front product.Place) error {
	err := o.Room.Advance(ctx, id, nonce, inc, front)
	o.advanced.Store(err == nil)
	return err
}

// L3, F42: the line keeps its people and gets a new incarnation.
func TestALineIsAdvancedWithItsData(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*waitingroom.Line){
		"AfterAFailover":         func(l *waitingroom.Line) { l.Moved = true },
		"NearTheEndOfItsPlaces":  func(l *waitingroom.Line) { l.PlacesLow = true },
		"BehindTheBooksOwnCount": func(l *waitingroom.Line) { l.Inc-- },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 100, func(s *product.Settings) { s.Capacity = 1 })
			first := w.scheduler(nil)
			w.open()
			places := w.join(0, 5)
			until(t, "one is admitted", func() bool { return w.view().Active == 1 })
			first.stop()
			o := &odd{change: change}
			s := w.scheduler(func(c *admit.Config) { o.Room, c.Room = c.Room, o })
			until(t, "the line is advanced", func() bool { return s.count(t, "hanjul_admit_restores_total", "advance", "done") > 0 })
			if v := w.view(); v.Inc != 2 || v.Waiting != 4 || v.Active != 1 || !v.StockKnown {
				t.Fatalf("%+v", v)
			}
			for u, place := range places {
				if standing, err := w.room.Status(t.Context(), p, u, nil); err != nil || standing.Place != place {
					t.Fatal(standing, err)
				}
			}
			if place := w.join(5, 6)[user(5)]; place.Inc() != 2 {
				t.Fatal(place)
			}
		})
	}
}

// Settings that Redis would refuse burn no incarnation.
func TestSettingsThatCannotBeOpenedBurnNoIncarnation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(*product.Settings) {})
	if _, err := w.books.Pool().Exec(t.Context(), `UPDATE products SET settings = jsonb_set(settings, '{rate}', '0')`); err != nil {
		t.Fatal(err)
	}
	s := w.scheduler(nil)
	until(t, "three attempts", func() bool { return s.count(t, "hanjul_admit_restores_total", "restore", "error") >= 3 })
	if row := w.row(); row.LineInc != 0 {
		t.Fatalf("%+v", row)
	}
}
