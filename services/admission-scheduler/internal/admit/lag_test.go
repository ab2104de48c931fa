package admit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
	"hanjul/services/admission-scheduler/internal/pace"
)

// A backlog in a product's partition holds its line back, says so, and lets go of it again; another partition's does not.
func TestABacklogHoldsALineBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100_000, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 20, 1, 1000 })
	var behind, measures atomic.Int64
	s := w.scheduler(func(c *admit.Config) {
		c.Lag = admit.Lag{
			Records: pace.Marks{Low: 10, High: 100}, PartitionOf: func(product.ID) int { return 3 },
			Measure: func(context.Context) (admit.Behind, error) {
				measures.Add(1)
				return admit.Behind{Records: map[int]int64{3: behind.Load(), 4: 5}}, nil
			},
		}
	})
	w.open()
	w.join(0, 200)
	until(t, "the rate", func() bool { return s.count(t, "hanjul_admit_runs_total", "rate") > 0 })
	if n := s.count(t, "hanjul_admit_runs_total", "lag"); n != 0 || s.gauge(t, "hanjul_admit_lag_share") != 1 {
		t.Fatal("held back without a backlog", n)
	}
	behind.Store(1000)
	until(t, "it is held back", func() bool { return s.count(t, "hanjul_admit_runs_total", "lag") > 0 })
	if share := s.gauge(t, "hanjul_admit_lag_share"); share != pace.Floor {
		t.Fatalf("share %g", share)
	}
	behind.Store(0)
	until(t, "it rises", func() bool { return s.gauge(t, "hanjul_admit_lag_share") > pace.Floor })
	until(t, "the whole rate again", func() bool { return s.gauge(t, "hanjul_admit_lag_share") == 1 })
}

// What cannot be measured holds nobody back for ever.
func TestWithoutAMeasureTheRateIsWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(*product.Settings) {})
	var measures atomic.Int64
	s := w.scheduler(func(c *admit.Config) {
		c.Lag = admit.Lag{
			Records: pace.Marks{Low: 1, High: 2}, PartitionOf: func(product.ID) int { return 0 },
			Measure: func(context.Context) (admit.Behind, error) {
				measures.Add(1)
				return admit.Behind{}, errors.New("no right to look")
			},
		}
	})
	w.open()
	until(t, "a measure", func() bool { return measures.Load() > 0 })
	w.join(0, 3)
	until(t, "they are admitted", func() bool { return w.view().Admitted == 3 })
	if n := s.count(t, "hanjul_admit_runs_total", string(waitingroom.AdmitLag)); n != 0 {
		t.Fatal(n)
	}
}
