package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/product"
)

// Go and SQL agree on the shard of a product, of any spelling, and products are spread.
func TestShardIsTheSameInSQL(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	var rows []outboxtest.Row
	want, got, filled := map[product.ID]bool{}, map[product.ID]bool{}, map[int]int{}
	for i := range 400 {
		p := product.ID(fmt.Sprintf("%s%d", []string{"p", "P.", "concert_", "-"}[i%4], i))
		rows = append(rows, event(p, 1))
		shard := outbox.Shard(p, shards)
		filled[shard]++
		want[p] = shard != 3 && shard != 6
	}
	table.Insert(rows...)
	owner := own(t, box)
	claimed, err := owner.Claim(t.Context(), 1000, nil, 3, 6)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	for _, row := range rows {
		got[row.Product] = slices.ContainsFunc(claimed, func(r outbox.Row) bool { return r.Product == row.Product })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claimed (-Go +SQL):\n%s", diff)
	}
	for shard := range shards {
		if filled[shard] < 20 {
			t.Errorf("shard %d has %d of 400 products", shard, filled[shard])
		}
	}
	// The samples are for ever: another function would let two builds own one product.
	samples := map[product.ID]int{"demo": outbox.Shard("demo", 8), "apple": outbox.Shard("apple", 8), "concert.2026_A-1": outbox.Shard("concert.2026_A-1", 256)}
	if diff := cmp.Diff(map[product.ID]int{"demo": 7, "apple": 3, "concert.2026_A-1": 16}, samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestOwnerBalance(t *testing.T) {
	t.Parallel()
	_, box := bundle(t)
	var owners []*outbox.Owner
	// settle lets everybody balance twice, to give back and to take, and counts what each holds; nothing may be held twice.
	settle := func() (counts []int) {
		t.Helper()
		var all []int
		for range 2 {
			for _, owner := range owners {
				balance(t, owner)
			}
		}
		for _, owner := range owners {
			counts, all = append(counts, len(owner.Held())), append(all, owner.Held()...)
		}
		slices.Sort(counts)
		slices.Sort(all)
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7}, all); diff != "" {
			t.Fatalf("held (-want +got):\n%s", diff)
		}
		return counts
	}
	for _, want := range [][]int{{8}, {4, 4}, {2, 3, 3}, {2, 2, 2, 2}, {1, 1, 2, 2, 2}} {
		owners = append(owners, own(t, box))
		if diff := cmp.Diff(want, settle()); diff != "" {
			t.Errorf("shares of %d (-want +got):\n%s", len(owners), diff)
		}
	}
	// Two go: what they held is free as soon as the server has ended their sessions.
	for _, owner := range owners[3:] {
		owner.Close(context.Background())
	}
	owners = owners[:3]
	eventually(t, func() (struct{}, error) {
		held := 0
		for _, owner := range owners {
			balance(t, owner)
			held += len(owner.Held())
		}
		if held != shards {
			return struct{}{}, fmt.Errorf("%d shards held", held)
		}
		return struct{}{}, nil
	})
	if diff := cmp.Diff([]int{2, 3, 3}, settle()); diff != "" {
		t.Errorf("shares of those who are left (-want +got):\n%s", diff)
	}
}

// Two numbers of shards at once would give a product two owners.
func TestOutboxOwnRefusesAnotherNumberOfShards(t *testing.T) {
	t.Parallel()
	_, box := bundle(t)
	first := own(t, box)
	if _, err := box.Own(t.Context(), shards+1); !errors.Is(err, outbox.ErrShards) {
		t.Errorf("own with another number: %v, want ErrShards", err)
	}
	balance(t, first)
	if held := len(first.Held()); held != shards {
		t.Errorf("the first holds %d shards, want %d", held, shards)
	}
	first.Close(context.Background())
	eventually(t, func() (struct{}, error) {
		other, err := box.Own(t.Context(), shards+1)
		if err == nil {
			other.Close(context.Background())
		}
		return struct{}{}, err
	})
	for _, n := range []int{0, outbox.MaxShards + 1} {
		if _, err := box.Own(t.Context(), n); err == nil {
			t.Errorf("own with %d shards succeeded", n)
		}
	}
}

func TestOwnerWithoutItsSession(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	first := own(t, box)
	table.Insert(event("a", 1))
	rows := claim(t, first, 10)

	// The first one's session is cut: its locks are free, and it can neither claim nor mark.
	table.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hanjul-relay' AND datname = current_database()`)
	second := eventually(t, func() (*outbox.Owner, error) {
		owner, err := box.Own(t.Context(), shards)
		if err != nil {
			return nil, err
		}
		if balance(t, owner); len(owner.Held()) < shards {
			owner.Close(context.Background())
			return nil, errors.New("not all shards are free")
		}
		return owner, nil
	})
	defer second.Close(context.Background())
	if _, err := first.Mark(t.Context(), rows); err == nil {
		t.Errorf("an owner without its session marked")
	}
	if _, err := first.Claim(t.Context(), 10, nil); err == nil {
		t.Errorf("an owner without its session claimed")
	}
	if _, err := first.Balance(t.Context()); err == nil {
		t.Errorf("an owner without its session took shards")
	}
	if rows = claim(t, second, 10); len(rows) != 1 {
		t.Errorf("the new owner claimed %d rows, want 1", len(rows))
	}
}

// O8, F12: without a token on the rows, a mark by an owner whose shard has gone to another says no more than what Kafka acknowledged, whichever
// of the two marks first. It never crosses out what nobody published, and one of them steps down.
func TestLateMarkOfAFormerOwner(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	const products = 16 // some of them in the shards of each
	for n := range products {
		p := product.ID(fmt.Sprintf("p%d-", n))
		table.Insert(event(p, 1), event(p, 2))
	}
	first := own(t, box)
	early := of(claim(t, first, 100))
	for _, shard := range first.Held() {
		if err := first.GiveBack(t.Context(), shard); err != nil {
			t.Fatalf("give back: %v", err)
		}
	}
	second := own(t, box)
	for n := range products {
		table.Insert(event(product.ID(fmt.Sprintf("p%d-", n)), 3))
	}
	now := of(claim(t, second, 100))
	if len(now) < 2 {
		t.Fatalf("the second owner has %d products, want two at least", len(now))
	}
	taken := slices.Sorted(maps.Keys(now))
	mark := func(owner *outbox.Owner, rows []outbox.Row, want int, lost bool) {
		t.Helper()
		if n, err := owner.Mark(t.Context(), rows); n != want || errors.Is(err, outbox.ErrLost) != lost || err != nil && !lost {
			t.Fatalf("mark of %v = %d, %v; want %d", names(rows), n, err, want)
		}
	}
	left := func(p product.ID) []string { return names(of(claim(t, second, 100))[p]) }

	// The former owner marks first what it had acknowledged: the present one sees that somebody else is at work.
	p := taken[0]
	mark(first, early[p], 2, false)
	if got := left(p); len(got) != 1 || got[0] != string(p)+"3" {
		t.Fatalf("left are %v, want the third event", got)
	}
	mark(second, now[p], 1, true)

	// It marks last: everything is marked, and what came since stays.
	p = taken[1]
	mark(second, now[p], 3, false)
	table.Insert(event(p, 4))
	mark(first, early[p], 0, true)
	if got := left(p); len(got) != 1 || got[0] != string(p)+"4" {
		t.Fatalf("left are %v, want the fourth event", got)
	}
}

// of sorts rows by product.
func of(rows []outbox.Row) map[product.ID][]outbox.Row {
	sorted := map[product.ID][]outbox.Row{}
	for _, row := range rows {
		sorted[row.Product] = append(sorted[row.Product], row)
	}
	return sorted
}

// A partition that was analyzed while it held a handful of rows tempts the planner to scan it: the relay reads by index all the same.
func TestOwnerNeverScansThePartitions(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	table.Insert(event("a", 1))
	table.Exec(`ANALYZE outbox`)
	owner := own(t, box)
	before := table.Count(`SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname LIKE 'outbox%'`)
	for i := range int64(10) {
		rows := claim(t, owner, 1)
		if _, err := owner.Mark(t.Context(), rows); err != nil {
			t.Fatalf("mark: %v", err)
		}
		table.Insert(event("b", i+1), command("b", fmt.Sprint(i)))
	}
	owner.Close(context.Background()) // Which tells its counters.
	eventually(t, func() (struct{}, error) {
		if n := table.Count(`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hanjul-relay' AND datname = current_database()`); n > 0 {
			return struct{}{}, errors.New("its session is still there")
		}
		return struct{}{}, nil
	})
	if after := table.Count(`SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname LIKE 'outbox%'`); after != before {
		t.Errorf("%d scans of all rows", after-before)
	}
}
