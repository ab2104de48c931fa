package intake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"hanjul/pkg/kafka"
)

// A window hands out each of its records once, a product's in the order of the
// log, and never says that more is handled than is.
func TestWindowTakesTurns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var records []kafka.Message

		offset := int64(0)
		for _, key := range rapid.SliceOfN(rapid.IntRange(0, 4), 1, 60).Draw(t, "keys") {
			offset += rapid.Int64Range(1, 3).Draw(t, "gap")
			records = append(records, kafka.Message{Offset: offset, Key: fmt.Append(nil, key)})
		}

		most := rapid.IntRange(1, 20).Draw(t, "most")
		w := newWindow(records)
		handled := make(map[int64]bool)
		last := make(map[string]int64)

		for {
			some, next := w.take(most)
			if len(some) == 0 {
				break
			}

			if len(some) > most || !slices.IsSortedFunc(some, func(a, b kafka.Message) int { return int(a.Offset - b.Offset) }) {
				t.Fatalf("batch of %d: %v", most, some)
			}

			for _, r := range some {
				if handled[r.Offset] || r.Offset <= last[string(r.Key)] {
					t.Fatalf("offset %d of %s came after %d", r.Offset, r.Key, last[string(r.Key)])
				}

				handled[r.Offset], last[string(r.Key)] = true, r.Offset
			}

			want := records[len(records)-1].Offset + 1
			if i := slices.IndexFunc(records, func(r kafka.Message) bool { return !handled[r.Offset] }); i >= 0 {
				want = records[i].Offset
			}

			if next != want {
				t.Fatalf("next is %d, want %d", next, want)
			}
		}

		if len(handled) != len(records) {
			t.Fatalf("%d of %d records came", len(handled), len(records))
		}
	})
}

// The only order of a cold product, behind 20,000 of a hot one and at the end
// of its window, comes in the first batch of that window.
func TestIntakeIsFair(t *testing.T) {
	t.Parallel()

	const (
		hot       = 21_999
		perWindow = 2000
		perBatch  = 500
		want      = 20_000/perBatch + 1
	)

	b := bench(t)
	same := make([][]byte, 0, 2) // Two products of one partition.

	for i := 0; len(same) < 2; i++ {
		if key := fmt.Append(nil, "product-", i); kafka.Partition(key, partitions) == 0 {
			same = append(same, key)
		}
	}

	records := make([]kafka.Record, 0, hot+1)
	for range hot {
		records = append(records, kafka.Record{Topic: b.topic, Key: same[0], Value: []byte("hot")})
	}

	b.produce(t, append(records, kafka.Record{Topic: b.topic, Key: same[1], Value: []byte("cold")}))

	var (
		mu             sync.Mutex
		batches, found int
		committed      int64
	)

	m := b.start(t, func(_ context.Context, batch Batch) error {
		mu.Lock()
		defer mu.Unlock()

		batches++

		if i := slices.IndexFunc(batch.Records, func(r kafka.Message) bool { return string(r.Value) == "cold" }); i >= 0 {
			found = batches
			committed = batch.Next
		}

		return nil
	}, func(c *Config) { c.Window, c.MaxRecords, c.MaxBytes = perWindow, perBatch, 64<<20 })

	eventually(t, "everything is committed", func() bool { return b.committed(t)[0] == hot+1 })
	m.stop(t)

	if found != want {
		t.Errorf("the cold order came in batch %d of %d, want %d", found, batches, want)
	}

	// Its offset is not committed before those in front of it are handled.
	if committed >= hot {
		t.Errorf("with the cold order %d were committed", committed)
	}
}
