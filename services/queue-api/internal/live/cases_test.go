package live

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestCases are faults that other waiting rooms had, by the numbers under which we keep them; the others are in httpapi.
func TestCases(t *testing.T) {
	t.Parallel()

	// The wait that was told grew while people waited. A range that follows the outflow holds for four fifths of those who ask, in a line of which
	// the rate is halved midway, however far behind they are.
	t.Run("Case12TheRangeHoldsWhenTheRateIsHalved", func(t *testing.T) {
		t.Parallel()
		const step, half, end = 250 * time.Millisecond, 10 * time.Minute, 30 * time.Minute
		rng := rand.New(rand.NewPCG(12, 12)) //nolint:gosec // a test's draws
		type asked struct {
			at                time.Duration
			gone, least, most int64
		}
		var f flow
		var open []asked
		var gone int64
		var kept, broken int
		begin := time.Now()
		for at := time.Duration(0); at < end; at += step {
			rate := 10.0
			if at >= half {
				rate = 5
			}
			var n int64 // people come to an end each by themselves, so their number in a step is spread
			for range 20 {
				if rng.Float64() < rate*step.Seconds()/20 {
					n++
				}
			}
			gone += n
			now := f.note(begin.Add(at), n)
			for i := 0; i < len(open); i++ {
				q := open[i]
				if gone < q.gone {
					continue
				}
				if waited := int64((at - q.at).Seconds()); waited >= q.least && waited <= q.most {
					kept++
				} else {
					broken++
				}
				open = append(open[:i], open[i+1:]...)
				i--
			}
			ahead := int64(rng.IntN(600))
			if least, most, ok := now.Wait(ahead); ok {
				open = append(open, asked{at, gone + ahead + 1, least, most})
			}
		}
		if kept < 5000 || kept < 4*broken {
			t.Fatalf("%d ranges held, %d did not", kept, broken)
		}
		t.Logf("%d ranges held, %d did not", kept, broken)
	})
}
