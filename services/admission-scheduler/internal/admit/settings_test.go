package admit_test

import (
	"context"
	"testing"

	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// TestSettingsTakeHold: what operators change is so from the next run on, without a restart: no run behind it goes by what was before, and nobody who
// has a pass loses it.
func TestSettingsTakeHold(t *testing.T) {
	t.Parallel()
	const people = 12
	w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 2 })
	s := w.scheduler(nil)
	w.open()
	places := w.join(0, people)
	put := func(capacity int) {
		settings := w.row().Settings
		settings.Capacity = capacity
		if _, err := w.books.PutProduct(t.Context(), w.action(), settings, nil); err != nil {
			t.Fatal(err)
		}
	}
	pause := func(ctx context.Context, a ledger.Action) (ledger.ActionResult, error) {
		return w.books.Pause(ctx, a, "a break")
	}
	gone := 0
	leave := func() {
		if _, err := w.room.Leave(t.Context(), p, user(gone), places[user(gone)]); err != nil {
			t.Fatal(err)
		}
		gone++
	}
	for _, step := range []struct {
		what             string
		change           func()
		reason           string // what runs come to then
		admitted, active int64
	}{
		{"as it was opened", func() {}, "capacity", 2, 2},
		{"more at a time", func() { put(5) }, "capacity", 5, 5},
		{"fewer than there are: nobody is put out", func() { put(3) }, "capacity", 5, 5},
		{"one goes, and nobody comes yet", leave, "capacity", 5, 4},
		{"paused", func() { w.act(pause) }, "paused", 5, 4},
		{"more at a time, while paused", func() { put(8) }, "paused", 5, 4},
		{"resumed", func() { w.act(w.books.Resume) }, "capacity", 9, 8},
		{"one goes, and one comes", leave, "capacity", 10, 8},
		{"queue off: the line stands as it is", func() { w.act(w.books.QueueOff) }, "queue_off", 10, 8},
		{"queue on, and it goes on", func() { w.act(w.books.QueueOn) }, "capacity", 10, 8},
		{"orders halted: people come until it is full", func() { w.act(w.books.Halt); put(9) }, "capacity", 11, 9},
		{"closed", func() {
			w.act(func(ctx context.Context, a ledger.Action) (ledger.ActionResult, error) {
				return w.books.CloseSale(ctx, a, "")
			})
		}, "closed", 11, 9},
		{"one goes from a closed line", leave, "closed", 11, 8},
	} {
		step.change()
		until(t, step.what, func() bool { v := w.view(); return v.SettingsV == w.row().SettingsV && v.Admitted == step.admitted })
		// Whatever run was on its way has ended: three more, of which each tells the same reason.
		runs := s.count(t, "hanjul_admit_runs_total", step.reason)
		until(t, step.what+": runs", func() bool { return s.count(t, "hanjul_admit_runs_total", step.reason) >= runs+2 })
		if v := w.view(); v.Admitted != step.admitted || v.Active != step.active {
			t.Fatalf("%s: %d admitted, %d active, expected %d and %d", step.what, v.Admitted, v.Active, step.admitted, step.active)
		}
	}
	w.is(p, 0, gone, waitingroom.Left)
	w.is(p, gone, 11, waitingroom.Active)
	w.is(p, 11, people, waitingroom.Waiting)
}
