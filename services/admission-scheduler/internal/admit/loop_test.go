package admit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

// Three schedulers move one line. People give their pass up as soon as they see it, so that slots become free all the time.
func TestThreeSchedulersKeepOneLinesBounds(t *testing.T) {
	t.Parallel()
	const people, capacity, rate, burst = 300, 30, 200, 20
	w := newWorld(t, 1000, func(s *product.Settings) {
		s.Rate, s.Burst, s.Capacity = rate, burst, capacity
	})
	for range 3 {
		w.scheduler(nil)
	}
	w.open()

	stop, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if v := w.view(); v.Active > capacity {
				t.Errorf("sample %d: %d active, capacity %d", n, v.Active, capacity)
			}
		}
	}()
	places := w.join(0, people)
	for i := range people {
		until(t, "the next person is admitted", func() bool {
			s, err := w.room.Status(t.Context(), p, user(i), nil)
			if err != nil {
				t.Fatal(err)
			}
			if s.Place != places[user(i)] {
				t.Fatalf("person %d: place %s, was %s", i, s.Place, places[user(i)])
			}
			return s.State == waitingroom.Active
		})
		if _, err := w.room.Leave(t.Context(), p, user(i), places[user(i)]); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-sampled

	books, err := w.room.Audit(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if books.Tally.Joined != people || books.Tally.Admitted != people || books.Tally.Left != people || books.View.Waiting+books.View.Active != 0 {
		t.Fatalf("nobody may be lost: %+v", books.Tally)
	}
	// Any run of whole seconds.
	for from := range books.Admits {
		var n int64
		for to := from; to < from+120; to++ {
			n += books.Admits[to]
			if most := rate*(to-from+1) + burst; n > most {
				t.Fatalf("%d admitted from second %d to %d, at most %d", n, from, to, most)
			}
		}
	}
}

func TestProductsAreFollowedWithoutADeploy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(*product.Settings) {})
	s := w.scheduler(nil)
	w.open()
	until(t, "ready", func() bool { return s.Ready(t.Context()) == nil })

	const fresh = product.ID("fresh")
	ledgertest.Product(t, w.books, fresh, 5)
	s.Changed()
	// A product that never opened has a slot, so that people are told that it is not open, and not that it is not ready.
	until(t, "the slot of the new product", func() bool {
		_, err := w.room.Join(t.Context(), fresh, user(1), nil)
		if err != nil && !errors.Is(err, waitingroom.ErrNotReady) && !errors.Is(err, waitingroom.ErrNotOpen) {
			t.Fatal(err)
		}
		return errors.Is(err, waitingroom.ErrNotOpen)
	})
	until(t, "the catalogue", func() bool {
		known, err := w.room.InCatalogue(t.Context(), fresh)
		return err == nil && known
	})
	if known, err := w.room.InCatalogue(t.Context(), "other"); err != nil || known {
		t.Fatal(known, err)
	}

	if _, err := w.books.Open(t.Context(), ledger.Action{RequestID: "o", Operator: "test", Product: fresh}); err != nil {
		t.Fatal(err)
	}
	until(t, "the new product is open", func() bool {
		standing, err := w.room.Join(t.Context(), fresh, user(1), nil)
		return err == nil && standing.Place > 0
	})
	until(t, "and moves", func() bool {
		standing, err := w.room.Status(t.Context(), fresh, user(1), nil)
		return err == nil && standing.State == waitingroom.Active
	})
}

// hanging lets the calls for one product hang until their deadline while on is set.
type hanging struct {
	admit.Admitter
	product product.ID
	on      atomic.Bool
	calls   atomic.Int64
}

func (h *hanging) AdmitShare(ctx context.Context, id product.ID, limit int, share float64) (waitingroom.AdmitResult, error) {
	if id == h.product && h.on.Load() {
		h.calls.Add(1)
		<-ctx.Done()
		return waitingroom.AdmitResult{}, ctx.Err()
	}
	return h.Admitter.AdmitShare(ctx, id, limit, share)
}

func TestAProductThatHangsStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1000, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 1000 })
	const bad = product.ID("bad")
	ledgertest.Product(t, w.books, bad, 10)
	if _, err := w.books.Open(t.Context(), ledger.Action{RequestID: "o", Operator: "test", Product: bad}); err != nil {
		t.Fatal(err)
	}
	h := &hanging{product: bad}
	h.on.Store(true)
	s := w.scheduler(func(c *admit.Config) {
		h.Admitter, c.Admitter = c.Admitter, h
		c.Concurrency, c.Deadline = 2, 500*time.Millisecond
	})
	w.open()
	until(t, "the bad one hangs", func() bool { return h.calls.Load() > 0 })
	w.join(0, 50)
	until(t, "the good one moves", func() bool { return w.view().Admitted == 50 })
	until(t, "the bad one is given up and tried again", func() bool { return h.calls.Load() > 1 })
	if s.count(t, "hanjul_admit_runs_total", "error") == 0 {
		t.Fatal("no error was counted")
	}
	h.on.Store(false)
	if _, err := w.room.Join(t.Context(), bad, user(1), nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the bad one moves again", func() bool {
		standing, err := w.room.Status(t.Context(), bad, user(1), nil)
		return err == nil && standing.State == waitingroom.Active
	})
}

// away is a ledger whose server does not answer while on is set.
type away struct {
	admit.Ledger
	on    atomic.Bool
	calls atomic.Int64
}

func (a *away) Products(ctx context.Context) ([]ledger.ProductRow, error) {
	if a.on.Load() {
		a.calls.Add(1)
		return nil, ledger.ErrTransient
	}
	return a.Ledger.Products(ctx)
}

func TestWithoutPostgresPeopleAreLetThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1000, func(*product.Settings) {})
	a := &away{}
	w.scheduler(func(c *admit.Config) { a.Ledger, c.Ledger = c.Ledger, a })
	w.open()
	a.on.Store(true)
	until(t, "the ledger is away", func() bool { return a.calls.Load() > 0 })
	w.join(0, 20)
	until(t, "the line moves", func() bool { return w.view().Admitted == 20 })
	a.on.Store(false)
	until(t, "the front is written down", func() bool { row := w.row(); return row.Front == w.view().Front && row.Front > 0 })
}

// stalled is a room whose settings_put waits at a gate.
type stalled struct {
	admit.Room
	at, gate chan struct{}
}

func (s *stalled) SettingsPut(ctx context.Context, id product.ID, l waitingroom.LineSettings) (bool, error) {
	s.at <- struct{}{}
	<-s.gate
	return s.Room.SettingsPut(ctx, id, l)
}

// F19: a scheduler that read older settings and stalled does not undo what was changed meanwhile.
func TestOlderSettingsNeverWin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(*product.Settings) {})
	slow := &stalled{at: make(chan struct{}), gate: make(chan struct{})}
	one := w.scheduler(func(c *admit.Config) { slow.Room, c.Room = c.Room, slow })
	w.open()

	changed := product.DefaultSettings()
	changed.Rate = 7
	if _, err := w.books.PutProduct(t.Context(), w.action(), changed, nil); err != nil {
		t.Fatal(err)
	}
	<-slow.at // it has read the change and is about to write it
	if _, err := w.books.Pause(t.Context(), w.action(), "lunch"); err != nil {
		t.Fatal(err)
	}
	w.scheduler(nil)
	until(t, "the pause", func() bool { return w.view().State == product.Paused })
	close(slow.gate)
	until(t, "the older settings are refused", func() bool { return one.count(t, "hanjul_admit_settings_total", "older") == 1 })
	if v, row := w.view(), w.row(); v.State != product.Paused || v.Reason != "lunch" || v.Rate != 7 || v.SettingsV != row.SettingsV {
		t.Fatalf("%+v, the books have version %d", v, row.SettingsV)
	}
}

func TestStockIsAskedForOnceInASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(*product.Settings) {})
	w.log.answers = false
	begin := time.Now()
	for range 3 {
		w.scheduler(nil)
	}
	until(t, "three asks", func() bool { return w.log.count() >= 3 })
	if n, most := w.log.count(), int(time.Since(begin)/time.Second)+1; n > most {
		t.Fatalf("asked %d times, at most %d", n, most)
	}
	seen := make(map[string]bool)
	for _, command := range w.log.seen {
		seen[command.ID] = true
	}
	if len(seen) != len(w.log.seen) {
		t.Fatal("two asks share an id")
	}
	if w.join(0, 1); w.view().Admitted != 0 {
		t.Fatal("admitted while the stock was unknown")
	}
}

// The names are fixed: dashboards and the documentation know them.
func TestMetricsKeepTheirNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(*product.Settings) {})
	s := w.scheduler(nil)
	w.open()
	w.join(0, 1)
	until(t, "an admission", func() bool { return s.count(t, "hanjul_admit_admitted_total") == 1 })
	w.act(func(ctx context.Context, a ledger.Action) (ledger.ActionResult, error) {
		return w.books.Pause(ctx, a, "")
	})
	until(t, "settings", func() bool { return s.count(t, "hanjul_admit_settings_total", "written") > 0 })
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	want := []string{
		"hanjul_admit_admitted_total", "hanjul_admit_away_total", "hanjul_admit_evicted_total", "hanjul_admit_free_slot_seconds", "hanjul_admit_lag_share", "hanjul_admit_lapsed_total",
		"hanjul_admit_load_stock_total",
		"hanjul_admit_passes_active", "hanjul_admit_products", "hanjul_admit_readers_short_total", "hanjul_admit_restores_total", "hanjul_admit_runs_total",
		"hanjul_admit_settings_total", "hanjul_admit_stood_still_seconds_total", "hanjul_admit_waiting",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Fatal(diff)
	}
}

func TestAFreeSlotIsMeasuredToItsNextGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 1 })
	s := w.scheduler(nil)
	w.open()
	places := w.join(0, 2)
	until(t, "the capacity holds the second one up", func() bool {
		return w.view().Active == 1 && s.count(t, "hanjul_admit_runs_total", "capacity") > 0
	})
	if n := s.count(t, "hanjul_admit_free_slot_seconds"); n != 0 {
		t.Fatal(n)
	}
	if _, err := w.room.Leave(t.Context(), p, user(0), places[user(0)]); err != nil {
		t.Fatal(err)
	}
	until(t, "the second one is admitted, and measured", func() bool { return s.count(t, "hanjul_admit_free_slot_seconds") == 1 })
}
