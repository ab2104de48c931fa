package kafka

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// K11: a batch takes memory for the records in it, not for the most that it may hold: with room for a hundred thousand, one that leaves alone
// allocates what it does with room for one.
//
//nolint:paralleltest // it counts what the whole process allocates
func TestProducerAllocatesForWhatABatchHolds(t *testing.T) {
	c, _ := cluster(t, 1)

	perRecord := func(room int) float64 {
		cfg := produceConfig(c, 1)
		cfg.BatchRecords = room
		p := producer(t, cfg)
		accepted(t, p.send(t, record("k", "first"))) // The connection is there.

		const count = 200

		before := allocated()

		for i := range count {
			accepted(t, p.send(t, record("k", fmt.Sprint(i))))
		}

		return float64(allocated()-before) / count
	}

	narrow, wide := perRecord(1), perRecord(100_000)
	if wide > 2*narrow {
		t.Errorf("a record that leaves alone allocates %.0f bytes with room for 100000, %.0f with room for one", wide, narrow)
	}

	// Nor does a record cost more among many.
	body := strings.Repeat("x", 200)
	encoded := func(count int) float64 {
		batch := make([]*item, count)
		for i := range batch {
			batch[i] = newItem(record("k", body), nil, 0)
		}

		before := allocated()
		_ = encode(batch, time.Now())

		return float64(allocated()-before) / float64(count)
	}

	one, thousand := encoded(1), encoded(1000)
	if thousand > 2*one || thousand > 1024 {
		t.Errorf("a record of %d bytes allocates %.0f bytes alone and %.0f among a thousand", len(body), one, thousand)
	}
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)

	return stats.TotalAlloc
}

// K13: with 64 partitions in use at once there is a connection for each, and none beside them but that of metadata: more records on a
// partition wait for the connection it has, and so do tries after a broker that did not answer in time.
func TestProducerConnectionsPerPartition(t *testing.T) {
	t.Parallel()

	const (
		count, spare = 64, 4
		each         = 5
	)

	c, seen := cluster(t, count)
	gate, release := seen.stall(t)

	cfg := produceConfig(c, count)
	cfg.Timeout = 500 * time.Millisecond
	p := producer(t, cfg)

	var wg sync.WaitGroup

	keys := onePerPartition(count)
	for _, key := range keys {
		for i := range each {
			wg.Go(func() {
				if r := p.send(t, record(key, fmt.Sprint(i))); r.Outcome != Accepted {
					t.Errorf("key %s is %v: %v", key, r.Outcome, r.Err)
				}
			})
		}
	}

	gate.wait(t)

	most := 0
	// Three times over the broker answers none of them in time.
	eventually(t, "every partition was tried again and again", func() bool {
		most = max(most, p.client.conns.count())

		return len(seen.requests) >= 3*count
	})
	release()
	wg.Wait()

	most = max(most, p.client.conns.count())
	if most < count || most > count+spare {
		t.Errorf("%d connections for %d partitions, want at most %d beside them", most, count, spare)
	}
}

func (c *Conns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return len(c.open)
}

// onePerPartition gives a key for each partition.
func onePerPartition(count int) []string {
	keys := make([]string, count)
	for i, found := 0, 0; found < count; i++ {
		key := fmt.Sprint("key-", i)
		if p := Partition([]byte(key), count); keys[p] == "" {
			keys[p] = key
			found++
		}
	}

	return keys
}
