package relay_test

import (
	"fmt"
	"testing"

	"hanjul/pkg/outbox"
	"hanjul/pkg/product"
)

// Each live process takes its fair share; what is on its way lands before its shard moves, so nothing is published twice.
func TestRelaySharesTheOutbox(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	open := make(chan struct{})
	stall := &stalling{s.producer, map[string]chan struct{}{}}
	var products []product.ID
	filled := map[int]bool{}
	want := map[product.ID]int64{}
	for i := 0; len(filled) < 8 || len(products) < 16; i++ {
		p := product.ID(fmt.Sprintf("p%d", i))
		products, filled[outbox.Shard(p, 8)], want[p] = append(products, p), true, 20
		stall.open[string(p)] = open
	}
	insert := func(from, to int64) {
		for seq := from; seq <= to; seq++ {
			for _, p := range products {
				s.Insert(s.event(p, seq))
			}
		}
	}
	config := quick()
	config.Grace = 0 // The default: nothing is cut at the end.
	insert(1, 10)
	first := s.start(config, stall)
	s.until("all shards owned", func() bool { return first.value(t, "hanjul_relay_shards") == 8 })
	second := s.start(config, s.producer)
	sessions := `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	s.until("both there", func() bool { return s.Count(sessions) == 2 })
	if got := second.value(t, "hanjul_relay_shards"); got != 0 {
		t.Errorf("%g shards moved with rows on their way", got)
	}
	close(open)
	shared := func() bool {
		return first.value(t, "hanjul_relay_shards") == 4 && second.value(t, "hanjul_relay_shards") == 4
	}
	s.until("shared evenly", shared)
	insert(11, 15)
	s.untilPublished()
	if first.value(t, "hanjul_relay_published_total") == 0 || second.value(t, "hanjul_relay_published_total") == 0 {
		t.Errorf("one of the two published nothing")
	}
	if err := first.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	insert(16, 20)
	s.until("all with the other", func() bool { return second.value(t, "hanjul_relay_shards") == 8 })
	s.untilPublished()
	if repeats := s.inOrder(want); repeats != 0 {
		t.Errorf("%d repeats, want 0", repeats)
	}
}

// Switched off it publishes nothing, and goes on measuring.
func TestRelayOff(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Insert(s.event("apple", 1))
	config := quick()
	config.Off = true
	off := s.start(config, s.producer)
	s.until("measured", func() bool { return off.value(t, "hanjul_relay_unpublished_rows") == 1 })
	if got := off.value(t, "hanjul_relay_shards"); got != 0 {
		t.Errorf("%g shards owned", got)
	}
	if err := off.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if left := s.Unpublished(); left != 1 {
		t.Errorf("%d rows left, want 1", left)
	}
}
