package admit_test

import (
	"testing"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// While no queue-api is there a pass keeps its time, and once one is there again it lapses.
func TestPassesWaitForSomebodyWhoHears(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(s *product.Settings) { s.PassMS = 1000 })
	if err := w.room.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := w.keys.Alive()
	left, err := w.rdb.PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.rdb.PExpire(t.Context(), key, left-time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	s := w.scheduler(nil)
	w.open()
	until(t, "nobody is heard", func() bool { return s.count(t, "hanjul_admit_stood_still_seconds_total", "deaf") > 0 })
	w.join(0, 1)
	until(t, "an admission", func() bool { return w.view().Admitted == 1 })
	admitted := s.count(t, "hanjul_admit_stood_still_seconds_total", "deaf")
	until(t, "more time than a pass has", func() bool { return s.count(t, "hanjul_admit_stood_still_seconds_total", "deaf") > admitted+1.5 })
	if v := w.view(); v.Active != 1 || v.Lapsed != 0 {
		t.Fatalf("the pass lapsed while nobody could use it: %+v", v)
	}
	until(t, "it lapses", func() bool {
		if err := w.room.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		standing, err := w.room.Status(t.Context(), p, user(0), nil)
		return err == nil && standing.State == waitingroom.Lapsed
	})
}
