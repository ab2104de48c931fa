package failopen_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/failopen"
)

func user(n int) product.UserHash { return product.UserHash(fmt.Sprintf("%032x", n)) }

// However many ask at once, and however often, never are more people in than rate × time and a burst.
func TestDoorKeepsItsCeiling(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{0.5, 1, 7, 100} {
		synctest.Test(t, func(t *testing.T) {
			d := failopen.New(perSecond, nil)
			began, burst := time.Now(), max(1, perSecond)
			var in atomic.Int64
			for step := range 20 {
				var crowd sync.WaitGroup
				for n := range 100 {
					crowd.Go(func() {
						u := user(1000*step + n)
						first, let := d.Let("shoe", u, time.Minute)
						if !let {
							return
						}
						in.Add(1)
						if again, let := d.Let("shoe", u, time.Minute); !let || again != first {
							t.Errorf("asked again: %v, %v", again, let)
						}
					})
				}
				crowd.Wait()
				ceiling := perSecond*time.Since(began).Seconds() + burst
				if n := float64(in.Load()); n > ceiling+1e-6 || n < ceiling/2 {
					t.Fatalf("%v a second: %v in after %s, the ceiling is %v", perSecond, n, time.Since(began), ceiling)
				}
				time.Sleep(333 * time.Millisecond)
			}
		})
	}
}

// Who was let in is so for each product by itself, and anew behind the end.
func TestDoorForgetsWhatEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := failopen.New(2000, nil)
		first, _ := d.Let("shoe", user(0), time.Second)
		other, let := d.Let("boot", user(0), time.Second)
		if !let || other == first || first.Ends != first.At.Add(time.Second) {
			t.Fatal(first, other)
		}
		for n := range 10_000 { // far beyond what is looked through at once
			if _, let := d.Let("shoe", user(n), time.Second); !let {
				t.Fatal(n)
			}
			time.Sleep(time.Millisecond)
		}
		if again, let := d.Let("shoe", user(0), time.Second); !let || again == first {
			t.Fatal(again)
		}
	})
}
