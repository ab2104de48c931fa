package admit_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

func TestParseTriggers(t *testing.T) {
	t.Parallel()
	got, err := admit.ParseTriggers([]string{"stream", "tick", "stream"})
	if err != nil || !slices.Equal(got, []admit.Trigger{admit.Stream, admit.Tick}) {
		t.Fatal(got, err)
	}
	for _, words := range [][]string{nil, {"clock"}, {"tick", ""}} {
		if _, err := admit.ParseTriggers(words); err == nil || !strings.Contains(err.Error(), "expected some of tick, pubsub") {
			t.Errorf("%q: %v", words, err)
		}
	}
}

// rarely makes a scheduler that by itself looks at a line after a test has given up.
func rarely(c *admit.Config) { c.Tick, c.Upkeep = 10*time.Minute, 10*time.Minute }

// The tick is far away, so whoever is admitted was hinted at: who joins an empty line, and who comes next when a slot is free.
func TestHintsMoveALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 1 })
	first := w.scheduler(nil)
	w.open()
	first.stop()
	s := w.scheduler(func(c *admit.Config) {
		rarely(c)
		c.Triggers, c.Sources = []admit.Trigger{admit.Tick, admit.PubSub}, map[admit.Trigger]admit.Source{admit.PubSub: w.room.Follow}
	})
	until(t, "it listens, and found the line empty", func() bool {
		return s.gauge(t, "hanjul_admit_trigger_up", "pubsub") == 1 && s.count(t, "hanjul_admit_runs_total", "empty") > 0
	})
	places := w.join(0, 10)
	for n := range 10 {
		until(t, "the next one is admitted", func() bool { return w.view().Admitted == int64(n+1) })
		until(t, "the capacity is found to hold people up", func() bool {
			return n == 9 || w.rdb.HExists(t.Context(), w.keys.Product(p).Clock, "freed").Val()
		})
		if _, err := w.room.Leave(t.Context(), p, user(n), places[user(n)]); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.count(t, "hanjul_admit_hints_total", "pubsub"); n < 10 {
		t.Fatalf("%g hints", n)
	}
}

// The tick is far away, and nobody tells that a pass has ended: the scheduler knows when it will.
func TestAPassThatEndsLetsTheNextOneThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity, s.PassMS = 1000, 100, 1, 1000 })
	first := w.scheduler(nil)
	w.open()
	first.stop()
	w.join(0, 3)
	w.scheduler(rarely) // its first look finds them
	until(t, "they are admitted, each when the pass before ends", func() bool { return w.view().Admitted == 3 })
}

// The stream alone moves a line that the capacity holds up, also when it was lost with its group; what it brought is acknowledged.
func TestTheStreamOfSlotsMovesALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 1 })
	first := w.scheduler(nil)
	w.open()
	places := w.join(0, 10)
	key := w.keys.Product(p)
	until(t, "the capacity holds people up", func() bool { return w.view().Active == 1 && w.rdb.HExists(t.Context(), key.Clock, "freed").Val() })
	first.stop()
	s := w.scheduler(func(c *admit.Config) {
		rarely(c)
		c.Triggers, c.Slots, c.Readers = []admit.Trigger{admit.Tick, admit.Stream}, waitingroom.NewSlots(w.rdb, w.keys), 1
	})
	groups := func() int {
		groups, _ := w.rdb.XInfoGroups(t.Context(), key.Slots).Result()
		return len(groups)
	}
	for n := range 9 {
		until(t, "it reads", func() bool { return groups() == 1 })
		if n == 4 {
			if err := w.rdb.Del(t.Context(), key.Slots).Err(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		leaving := n
		if n > 4 {
			leaving--
		}
		if _, err := w.room.Leave(t.Context(), p, user(leaving), places[user(leaving)]); err != nil {
			t.Fatal(err)
		}
		until(t, "the next one is admitted, and the line held up again", func() bool {
			return w.view().Admitted == int64(leaving+2) && w.rdb.HExists(t.Context(), key.Clock, "freed").Val()
		})
	}
	until(t, "all is acknowledged", func() bool {
		pending, err := w.rdb.XPending(t.Context(), key.Slots, "schedulers").Result()
		return err == nil && pending.Count == 0
	})
	if n := s.count(t, "hanjul_admit_hints_total", "stream"); n < 8 {
		t.Fatalf("%g hints", n)
	}
}

// Hints that were lost with their connection are made good when it stands again.
func TestLostHintsAreMadeGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(*product.Settings) {})
	first := w.scheduler(nil)
	w.open()
	first.stop()
	var begun atomic.Int64
	cut := make(chan struct{})
	w.scheduler(func(c *admit.Config) {
		rarely(c)
		c.Triggers = []admit.Trigger{admit.PubSub}
		c.Sources = map[admit.Trigger]admit.Source{admit.PubSub: func(ctx context.Context, heard func(), hint func(product.ID)) error {
			heard()
			if begun.Add(1) == 1 {
				<-cut // deaf, and does not know
				return waitingroom.ErrNotReady
			}
			return w.room.Follow(ctx, heard, hint)
		}}
		c.Tick = time.Minute
	})
	until(t, "it listens", func() bool { return begun.Load() == 1 })
	w.join(0, 3)
	close(cut)
	until(t, "they are admitted", func() bool { return w.view().Admitted == 3 })
}

// Products of a node that does not answer hold every place there is for looks, and wait for longer than the test: the others go on.
func TestManyProductsThatHangStopNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1000, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 1000 })
	const bad = 12
	h := &hangingMany{prefix: "bad"}
	for n := range bad {
		id := product.ID("bad" + strconv.Itoa(n))
		ledgertest.Product(t, w.books, id, 10)
		if _, err := w.books.Open(t.Context(), ledger.Action{RequestID: "o" + strconv.Itoa(n), Operator: "test", Product: id}); err != nil {
			t.Fatal(err)
		}
	}
	w.scheduler(func(c *admit.Config) {
		h.Admitter, c.Admitter = c.Admitter, h
		c.Concurrency, c.Deadline = 2, time.Hour
	})
	w.open()
	until(t, "all of them hang", func() bool { return h.calls.Load() == bad })
	w.join(0, 50)
	until(t, "the good one moves", func() bool { return w.view().Admitted == 50 })
}

// hangingMany lets the calls for some products hang until they are given up.
type hangingMany struct {
	admit.Admitter
	prefix string
	calls  atomic.Int64
}

func (h *hangingMany) AdmitShare(ctx context.Context, id product.ID, limit int, share float64) (waitingroom.AdmitResult, error) {
	if strings.HasPrefix(string(id), h.prefix) {
		h.calls.Add(1)
		<-ctx.Done()
		return waitingroom.AdmitResult{}, ctx.Err()
	}
	return h.Admitter.AdmitShare(ctx, id, limit, share)
}
