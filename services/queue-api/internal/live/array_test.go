package live

import (
	"math/rand/v2"
	"slices"
	"testing"

	"hanjul/pkg/product"
)

// TestArrayAgainstSlice makes the same changes to the blocks and to a plain slice, over lines that grow, shrink and are served in front.
func TestArrayAgainstSlice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test's own
		var a array
		var plain []product.Place
		span := int64(200 << (2 * seed)) // from places that are nearly all taken to places that hardly are
		for step := range 20_000 {
			p := product.Place(1 + random.Int64N(span))
			at, found := slices.BinarySearch(plain, p)
			growing := step/4000%2 == 0
			switch dice := random.IntN(1000); {
			case dice == 0:
				n := at
				if found {
					n++
				}
				if n > 50 { // a batch of the first
					n = 50
				}
				if n == 0 {
					continue
				}
				if got := a.removeTo(plain[n-1]); got != n {
					t.Fatalf("seed %d, step %d: %d removed from the front, want %d", seed, step, got, n)
				}
				plain = slices.Delete(plain, 0, n)
			case dice < 700 == growing:
				if a.add(p) == found {
					t.Fatalf("seed %d, step %d: add %d", seed, step, p)
				}
				if !found {
					plain = slices.Insert(plain, at, p)
				}
			default:
				if a.remove(p) != found {
					t.Fatalf("seed %d, step %d: remove %d", seed, step, p)
				}
				if found {
					plain = slices.Delete(plain, at, at+1)
				}
			}
			if step%97 == 0 {
				same(t, &a, plain, product.Place(1+random.Int64N(span)))
			}
		}
		all := slices.Concat(a.blocks...)
		if !slices.Equal(all, plain) {
			t.Fatalf("seed %d: the blocks hold other places than the slice", seed)
		}
	}
}

func same(t *testing.T, a *array, plain []product.Place, probe product.Place) {
	t.Helper()
	a.settle()
	if a.n != len(plain) {
		t.Fatalf("%d places, want %d", a.n, len(plain))
	}
	if len(plain) > 0 && a.first() != plain[0] {
		t.Fatalf("first is %d, want %d", a.first(), plain[0])
	}
	at, found := slices.BinarySearch(plain, probe)
	if rank, waits := a.rank(probe); waits != found || rank != at {
		t.Fatalf("rank of %d is %d (%v), want %d (%v)", probe, rank, waits, at, found)
	}
	for _, b := range a.blocks {
		if len(b) == 0 || len(b) > blockMax {
			t.Fatalf("a block of %d", len(b))
		}
	}
}
