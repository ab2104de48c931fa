package admit_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// is fails unless people n to m−1 of a product are in this state.
func (w *world) is(id product.ID, n, m int, want waitingroom.State) {
	w.t.Helper()
	for i := n; i < m; i++ {
		s, err := w.room.Status(w.t.Context(), id, user(i), nil)
		if err != nil || s.State != want {
			w.t.Fatalf("person %d of %s is %s, expected %s: %v", i, id, s.State, want, err)
		}
	}
}

// TestCases are faults that other gates had, by the numbers under which we keep them; the others are in queue-api's httpapi and in pkg/waitingroom.
func TestCases(t *testing.T) {
	t.Parallel()

	// Ten people were let in, went away, and nobody else came in; when they came back together there were more inside than may be.
	t.Run("Case1NobodyUsesThePass", func(t *testing.T) {
		t.Parallel()
		const capacity = 10
		w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, capacity })
		s := w.scheduler(nil)
		w.open()
		last := w.join(0, 30)[user(29)]
		until(t, "the first ten are in", func() bool { return w.view().Admitted == capacity })
		w.is(p, 0, 10, waitingroom.Active)
		w.is(p, 10, 30, waitingroom.Waiting)
		for n := range capacity { // the time of their passes goes by
			if err := w.rdb.ZAddXX(t.Context(), w.keys.Product(p).Active, redis.Z{Score: 1000, Member: string(user(n))}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "the next ten are in", func() bool { return w.view().Admitted == 2*capacity })
		w.is(p, 0, 10, waitingroom.Lapsed)
		w.is(p, 10, 20, waitingroom.Active)
		w.is(p, 20, 30, waitingroom.Waiting)
		until(t, "they are counted", func() bool {
			return s.count(t, "hanjul_admit_lapsed_total") == capacity && s.count(t, "hanjul_admit_admitted_total") == 2*capacity
		})
		for u, place := range w.join(0, 10) {
			if place <= last {
				t.Fatalf("%s is at %s again, in front of %s", u, place, last)
			}
		}
		runs := s.count(t, "hanjul_admit_runs_total", "capacity")
		until(t, "the capacity holds them up", func() bool { return s.count(t, "hanjul_admit_runs_total", "capacity") > runs+3 })
		if v := w.view(); v.Active != capacity || v.Waiting != 20 {
			t.Fatalf("%+v", v)
		}
		w.is(p, 0, 10, waitingroom.Waiting)
	})

	// The room was said to be as full as if those were there who had gone.
	t.Run("Case2WhoIsAbsentIsNotCounted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 1 })
		s := w.scheduler(nil)
		w.open()
		places := w.join(0, 101)
		seen := w.keys.Product(p).Seen
		until(t, "everybody is met", func() bool {
			return w.view().Admitted == 1 && w.rdb.ZCard(t.Context(), seen).Val() >= 100 && s.gauge(t, "hanjul_admit_waiting") == 100
		})
		for n := 1; n <= 40; n++ { // nothing is heard of them for a quarter of an hour
			if err := w.rdb.ZIncrBy(t.Context(), seen, -900_000, string(user(n))).Err(); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "sixty wait", func() bool { return w.view().Waiting == 60 && s.gauge(t, "hanjul_admit_waiting") == 60 })
		here, err := w.room.Status(t.Context(), p, user(41), nil)
		if err != nil || here.Total != 60 || here.Position != 1 {
			t.Fatalf("%+v, %v", here, err)
		}
		if n := s.count(t, "hanjul_admit_away_total", "moved"); n != 40 {
			t.Fatalf("%g moved", n)
		}
		back, err := w.room.Status(t.Context(), p, user(40), nil)
		if err != nil || back.State != waitingroom.Waiting || back.Place != places[user(40)] || back.Position != 1 || back.Total != 61 {
			t.Fatalf("%+v, %v", back, err)
		}
	})

	// One queue for everything: what was set for one was felt in another.
	t.Run("Case7ProductsDoNotFeelEachOther", func(t *testing.T) {
		t.Parallel()
		const other = product.ID("other")
		w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 5 })
		ledgertest.Product(t, w.books, other, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 2 })
		if _, err := w.books.Open(t.Context(), ledger.Action{RequestID: "o", Operator: "test", Product: other}); err != nil {
			t.Fatal(err)
		}
		w.scheduler(nil)
		w.open()
		see := func(id product.ID) waitingroom.ProductView { v, _ := w.room.View(t.Context(), id); return v }
		until(t, "the other opens", func() bool { v := see(other); return v.State == product.Open && v.StockKnown })
		places := w.join(0, 10)
		for n := range 10 {
			if _, err := w.room.Join(t.Context(), other, user(n), nil); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "each has as many as it may", func() bool { return see(p).Active == 5 && see(other).Active == 2 })
		for n := range 3 {
			if _, err := w.room.Leave(t.Context(), p, user(n), places[user(n)]); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "the one moves", func() bool { return see(p).Admitted == 8 })
		if v := see(other); v.Admitted != 2 || v.Waiting != 8 || v.Active != 2 {
			t.Fatalf("%+v", v)
		}
		w.is(other, 0, 2, waitingroom.Active)
		w.is(other, 2, 10, waitingroom.Waiting)
		for id, position := range map[product.ID]int64{p: 2, other: 8} {
			if s, err := w.room.Status(t.Context(), id, user(9), nil); err != nil || s.Position != position {
				t.Fatalf("%s: %+v, %v", id, s, err)
			}
		}
	})

	// The gate went on when all was sold, or never again when more came in.
	t.Run("Case17SoldOutAndMoreComesIn", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 2, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 100, 100 })
		s := w.scheduler(nil)
		w.open()
		w.join(0, 6)
		until(t, "nobody more is let through than there are units", func() bool { return s.count(t, "hanjul_admit_runs_total", "sold_out") > 3 })
		w.is(p, 0, 2, waitingroom.Active)
		w.is(p, 2, 6, waitingroom.Waiting)
		for total := int64(3); total <= 5; total += 2 {
			// What the judge does with an operator's restock, and the decrement behind it.
			if _, err := w.books.Pool().Exec(t.Context(), `UPDATE stock SET total = $2, seq = seq + 1 WHERE product_id = $1`, string(p), total); err != nil {
				t.Fatal(err)
			}
			left, err := w.books.StockOf(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.log.counter.Settle(t.Context(), p, left.Left(), left.Seq, false, nil); err != nil {
				t.Fatal(err)
			}
			until(t, "those who were next are let through", func() bool { return w.view().Admitted == total })
			w.is(p, 0, int(total), waitingroom.Active)
			w.is(p, int(total), 6, waitingroom.Waiting)
		}
	})
}
