package pace_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hanjul/services/admission-scheduler/internal/pace"
)

func limits(t *rapid.T) pace.Limits {
	return pace.Limits{
		Rate:         rapid.Float64Range(0.01, 100_000).Draw(t, "rate"),
		Burst:        rapid.IntRange(1, 100_000).Draw(t, "burst"),
		Capacity:     rapid.IntRange(1, 1_000_000).Draw(t, "capacity"),
		UnitsPerPass: rapid.IntRange(1, 1_000).Draw(t, "units_per_pass"),
	}
}

func TestFor(t *testing.T) {
	t.Parallel()

	t.Run("StaysInBounds", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			l, tick := limits(t), time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Second)).Draw(t, "tick"))
			stock := pace.Stock{Known: rapid.Bool().Draw(t, "known"), Left: rapid.Int64Range(-1_000, 1<<40).Draw(t, "left")}
			p := pace.For(l, stock, tick)
			if p.Ask < 1 || p.Ask > pace.BatchMax || p.Ask > l.Burst || p.Ask > l.Capacity {
				t.Fatalf("asks for %d", p.Ask)
			}
			if p.Calls < 1 || p.Calls > pace.CallsMax {
				t.Fatalf("calls %d times", p.Calls)
			}
			if p.Every > tick || p.Every < min(pace.Least, tick) {
				t.Fatalf("every %s", p.Every)
			}
			if stock.Known && int64(p.Ask) > max(stock.Left/int64(l.UnitsPerPass), 1) {
				t.Fatalf("asks for %d passes with %d units left", p.Ask, stock.Left)
			}
		})
	})

	// The script's bucket, driven by any number of schedulers whose turns come late now and then: what the plan asks reaches the
	// rate, and the bucket alone keeps any window below rate·w + burst.
	t.Run("ReachesTheRateAndNoMore", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			l := limits(t)
			l.Burst = min(l.Burst, pace.BatchMax*pace.CallsMax)
			l.Rate = min(l.Rate, max(float64(l.Burst-1), 0.05)/(2*pace.Least.Seconds()))
			l.Capacity = 1_000_000
			p := pace.For(l, pace.Stock{}, 100*time.Millisecond)
			schedulers := rapid.IntRange(1, 4).Draw(t, "schedulers")
			next := make([]float64, schedulers)
			for i := range next {
				next[i] = rapid.Float64Range(0, p.Every.Seconds()).Draw(t, "phase")
			}
			tokens, last, now, given := 0.0, 0.0, 0.0, 0
			turns := rapid.IntRange(50, 300).Draw(t, "turns")
			for range turns {
				first := 0
				for i := range next {
					if next[i] < next[first] {
						first = i
					}
				}
				now = next[first]
				late := rapid.Float64Range(0, 0.9).Draw(t, "late")
				next[first] = now + p.Every.Seconds()*(1+late)
				tokens = min(float64(l.Burst), tokens+l.Rate*(now-last))
				last = now
				for range p.Calls {
					n := min(p.Ask, int(tokens))
					tokens -= float64(n)
					given += n
					if n < p.Ask {
						break
					}
				}
			}
			if most := l.Rate*now + float64(l.Burst); float64(given) > most+1e-6 {
				t.Fatalf("%d given in %gs, most %g", given, now, most)
			}
			kept := 1.0
			if l.Burst == 1 {
				kept = 0.95
			}
			if least := math.Floor(l.Rate*now*kept) - 1; float64(given) < least {
				t.Fatalf("%d given in %gs, the rate allows %g; %+v", given, now, least, p)
			}
		})
	})
}
