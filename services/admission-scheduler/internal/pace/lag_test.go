package pace_test

import (
	"testing"

	"pgregory.net/rapid"

	"hanjul/services/admission-scheduler/internal/pace"
)

func TestShare(t *testing.T) {
	t.Parallel()

	t.Run("StaysInBoundsAndNeverGrowsWithTheLag", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			low := rapid.Int64Range(0, 1<<40).Draw(t, "low")
			m := pace.Marks{Low: low, High: low + rapid.Int64Range(1, 1<<40).Draw(t, "above")}
			one, other := rapid.Int64Range(0, 1<<42).Draw(t, "one"), rapid.Int64Range(0, 1<<42).Draw(t, "other")
			less, more := m.Share(min(one, other)), m.Share(max(one, other))
			if more > less || more < pace.Floor || less > 1 {
				t.Fatalf("%g for %d, %g for %d", less, min(one, other), more, max(one, other))
			}
			if m.Share(m.Low) != 1 || m.Share(m.High) != pace.Floor {
				t.Fatalf("at the marks: %g, %g", m.Share(m.Low), m.Share(m.High))
			}
			// Without a step: one unit more takes at most its part of the way, and as much as a float rounds.
			if step := m.Share(one) - m.Share(one+1); step > 1/float64(m.High-m.Low)+1e-12 {
				t.Fatalf("falls by %g", step)
			}
		})
	})

	t.Run("IsWholeWithoutMarks", func(t *testing.T) {
		t.Parallel()
		if got := (pace.Marks{}).Share(1 << 60); got != 1 {
			t.Fatal(got)
		}
	})

	// Whatever the measures are, what is followed never exceeds them, and is there ten measures after they stopped changing.
	t.Run("IsFollowed", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			share := rapid.Float64Range(pace.Floor, 1).Draw(t, "before")
			for _, asked := range rapid.SliceOf(rapid.Float64Range(pace.Floor, 1)).Draw(t, "asked") {
				next := pace.Follow(share, asked)
				if next > asked || next > share+0.1 || next < min(share, asked) {
					t.Fatalf("from %g to %g, asked for %g", share, next, asked)
				}
				share = next
			}
			asked := rapid.Float64Range(pace.Floor, 1).Draw(t, "last")
			for range 10 {
				share = pace.Follow(share, asked)
			}
			if share != asked {
				t.Fatalf("%g, asked for %g", share, asked)
			}
		})
	})
}
