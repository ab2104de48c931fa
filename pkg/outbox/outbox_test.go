package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// bundle is a table with an outbox opened on it.
func bundle(t *testing.T) (*outboxtest.Table, *outbox.Outbox) {
	t.Helper()
	table := outboxtest.New(t)
	box, err := outbox.Open(t.Context(), postgres.At(table.URL))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(box.Close)
	return table, box
}

func own(t *testing.T, box *outbox.Outbox) *outbox.Owner {
	t.Helper()
	owner, err := box.Own(t.Context(), shards)
	if err != nil {
		t.Fatalf("own: %v", err)
	}
	t.Cleanup(func() { owner.Close(context.Background()) })
	balance(t, owner)
	return owner
}

const shards = 8

// balance lets the owner take and give back until it is content.
func balance(t *testing.T, owner *outbox.Owner) {
	t.Helper()
	surplus, err := owner.Balance(t.Context())
	if err != nil {
		t.Fatalf("balance: %v", err)
	}
	for _, shard := range surplus {
		if err := owner.GiveBack(t.Context(), shard); err != nil {
			t.Fatalf("give back: %v", err)
		}
	}
}

func claim(t *testing.T, owner *outbox.Owner, limit int, hold ...outbox.Lane) []outbox.Row {
	t.Helper()
	rows, err := owner.Claim(t.Context(), limit, hold)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return rows
}

// names says in short what was claimed: product and seq, or payload for what is no event.
func names(rows []outbox.Row) []string {
	said := []string{}
	for _, row := range rows {
		if row.IsEvent() {
			said = append(said, fmt.Sprintf("%s%d", row.Product, row.Seq))
		} else {
			said = append(said, string(row.Payload))
		}
	}
	return said
}

func event(p product.ID, seq int64) outboxtest.Row {
	return outboxtest.Row{Product: p, Seq: seq, Topic: "order-events", Payload: "{}"}
}

func command(p product.ID, payload string) outboxtest.Row {
	return outboxtest.Row{Product: p, Topic: "orders", Payload: payload}
}

func TestOwnerClaim(t *testing.T) {
	t.Parallel()

	t.Run("GivesEachProductsRowsInOrder", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		table.Insert(event("b", 2), command("a", "a-second"), event("a", 3), event("a", 1), event("b", 1), event("a", 2), command("b", "b-first"))
		table.Insert(command("a", "a-third"))
		owner := own(t, box)
		want := []string{"a-second", "a-third", "a1", "a2", "a3", "b-first", "b1", "b2"}
		if diff := cmp.Diff(want, names(claim(t, owner, 100))); diff != "" {
			t.Errorf("claimed (-want +got):\n%s", diff)
		}
	})

	t.Run("TakesBeginningsAndGoesRoundTheProducts", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		for seq := range int64(5) {
			table.Insert(event("a", seq+1), event("b", seq+1))
		}
		owner := own(t, box)
		var rounds [][]string
		for range 3 {
			rows := claim(t, owner, 3)
			rounds = append(rounds, names(rows))
			if _, err := owner.Mark(t.Context(), rows); err != nil {
				t.Fatalf("mark: %v", err)
			}
		}
		want := [][]string{{"a1", "a2", "a3"}, {"b1", "b2", "b3"}, {"a4", "a5", "b4"}}
		if diff := cmp.Diff(want, rounds); diff != "" {
			t.Errorf("claimed (-want +got):\n%s", diff)
		}
	})

	t.Run("LeavesOutWhatIsHeld", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		dead := outboxtest.Row{Product: "a", Topic: "orders.dead-letters", Payload: "a-dead"}
		table.Insert(event("a", 1), dead, command("a", "a-command"), event("b", 1))
		owner := own(t, box)
		hold := []outbox.Lane{{Product: "a", Topic: "order-events", Events: true}, {Product: "a", Topic: "orders.dead-letters"}}
		if diff := cmp.Diff([]string{"a-command", "b1"}, names(claim(t, owner, 100, hold...))); diff != "" {
			t.Errorf("claimed (-want +got):\n%s", diff)
		}
	})

	t.Run("GivesUnmarkedRowsAgainAndFillsTheRow", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		ids := table.Insert(event("a", 1))
		owner := own(t, box)
		first, second := claim(t, owner, 10), claim(t, owner, 10)
		if diff := cmp.Diff(first, second); diff != "" || len(first) != 1 {
			t.Fatalf("claimed %d rows, then (-first +second):\n%s", len(first), diff)
		}
		row := first[0]
		want := outbox.Row{
			ID: ids[0], CreatedAt: row.CreatedAt, N: row.N, Topic: "order-events", Product: "a", Seq: 1,
			AggregateType: "product", AggregateID: "a", Type: "hanjul.order.confirmed", Payload: []byte("{}"),
		}
		if diff := cmp.Diff(want, row); diff != "" || row.CreatedAt.IsZero() || row.N == 0 {
			t.Errorf("row (-want +got):\n%s", diff)
		}
	})
}

// An event that is not there must not be passed over (I9): what stands behind it waits for somebody to act.
func TestOwnerClaimStopsAtAHole(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	table.Insert(event("a", 1), event("a", 2), event("a", 3), event("b", 1))
	table.Exec(`DELETE FROM outbox WHERE product_id = 'a' AND seq = 2`)
	owner := own(t, box)
	for _, want := range [][]string{{"a1", "b1"}, {}} {
		rows := claim(t, owner, 10)
		if diff := cmp.Diff(want, names(rows)); diff != "" {
			t.Fatalf("claimed (-want +got):\n%s", diff)
		}
		if _, err := owner.Mark(t.Context(), rows); err != nil {
			t.Fatalf("mark: %v", err)
		}
	}
	if backlog, err := box.Backlog(t.Context()); err != nil || backlog.Rows != 2 {
		t.Errorf("backlog %+v, %v; want the two that wait", backlog, err)
	}
}

// The number of a row is drawn before its transaction commits: one that commits late is late, not lost (hazard O1), and holds up
// nobody while it is open (hazard O2).
func TestOwnerClaimFindsLateCommit(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	late, err := table.Pool.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	table.InsertWith(late, command("a", "late"))
	table.Insert(command("a", "early"))
	owner := own(t, box)
	first := claim(t, owner, 10)
	if _, err := owner.Mark(t.Context(), first); err != nil {
		t.Fatalf("mark: %v", err)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatalf("commit: %v", err)
	}
	got := [][]string{names(first), names(claim(t, owner, 10))}
	if diff := cmp.Diff([][]string{{"early"}, {"late"}}, got); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
}

func TestOwnerMark(t *testing.T) {
	t.Parallel()

	t.Run("MarksOnce", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		table.Insert(event("a", 1), event("a", 2))
		owner := own(t, box)
		rows := claim(t, owner, 10)
		if n, err := owner.Mark(t.Context(), rows); n != 2 || err != nil {
			t.Fatalf("mark = %d, %v", n, err)
		}
		if n, err := owner.Mark(t.Context(), rows); n != 0 || !errors.Is(err, outbox.ErrLost) {
			t.Errorf("second mark = %d, %v; want 0 and ErrLost", n, err)
		}
		if n, err := owner.Mark(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("mark of nothing = %d, %v", n, err)
		}
		if left := table.Unpublished(); left != 0 {
			t.Errorf("%d rows unpublished, want 0", left)
		}
	})

	t.Run("TellsThatAnotherMarked", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		table.Insert(event("a", 1), event("a", 2), command("a", "c"), command("a", "d"))
		owner := own(t, box)
		rows := claim(t, owner, 10)
		table.Publish("a", 1)
		table.Exec(`UPDATE outbox SET claim = 'somebody else', published_at = now() WHERE seq IS NULL`)
		if n, err := owner.Mark(t.Context(), rows); n != 1 || !errors.Is(err, outbox.ErrLost) {
			t.Errorf("mark = %d, %v; want 1 and ErrLost", n, err)
		}
		if left := table.Count(`SELECT count(*) FROM outbox WHERE claim = 'somebody else'`); left != 2 {
			t.Errorf("the other's mark stands on %d rows, want 2", left)
		}
	})

	// A run is what one judge transaction wrote; what was acknowledged may end in its middle.
	t.Run("CrossesOutPartOfARun", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		at := time.Now().UTC().Truncate(time.Microsecond)
		for seq := range int64(6) {
			row := event("a", seq+1)
			row.At = at
			table.Insert(row)
		}
		table.Exec(`DELETE FROM outbox_runs WHERE from_seq > 1`)
		table.Exec(`UPDATE outbox_runs SET to_seq = 6`)
		owner := own(t, box)
		for _, want := range [][]string{{"a1", "a2"}, {"a3", "a4"}, {"a5", "a6"}, {}} {
			rows := claim(t, owner, 2)
			if diff := cmp.Diff(want, names(rows)); diff != "" {
				t.Fatalf("claimed (-want +got):\n%s", diff)
			}
			if n, err := owner.Mark(t.Context(), rows); err != nil || n != len(want) {
				t.Fatalf("mark = %d, %v; want %d", n, err, len(want))
			}
		}
		if n := table.Count(`SELECT count(*) FROM outbox_runs`); n != 0 {
			t.Errorf("%d runs are left", n)
		}
	})
}

func TestOutboxBacklog(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	if got, err := box.Backlog(t.Context()); err != nil || !got.Oldest.IsZero() || got.Rows != 0 {
		t.Errorf("empty backlog = %+v, %v", got, err)
	}
	old := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	row := event("a", 1)
	row.At = old
	table.Insert(row, event("a", 2))
	got, err := box.Backlog(t.Context())
	if err != nil || got.Rows != 2 || !got.Oldest.Equal(old) {
		t.Errorf("backlog = %+v, %v; want 2 rows since %s", got, err, old)
	}
}

func TestOutboxMakePartitions(t *testing.T) {
	t.Parallel()
	const made = `SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox'::regclass`

	t.Run("MovesWhatLiesInTheDefault", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		day := time.Date(2031, 5, 4, 13, 0, 0, 0, time.UTC)
		for i := range int64(4) { // One before, two within, one after.
			row := event("a", i+1)
			row.At = day.Add(time.Duration(i-1) * 24 * time.Hour)
			table.Insert(row)
		}
		owner := own(t, box)
		rows := claim(t, owner, 10)
		n, err := box.MakePartitions(t.Context(), day, 2)
		if n != 2 || err != nil {
			t.Fatalf("make = %d, %v", n, err)
		}
		if got := table.Count(`SELECT count(*) FROM outbox_default`); got != 2 {
			t.Errorf("%d rows left in the default partition, want 2", got)
		}
		if got := table.Count(`SELECT count(*) FROM outbox_20310504`) + table.Count(`SELECT count(*) FROM outbox_20310505`); got != 2 {
			t.Errorf("%d rows moved, want 2", got)
		}
		if n, err := owner.Mark(t.Context(), rows); n != 4 || err != nil {
			t.Errorf("mark after the move = %d, %v; want 4", n, err)
		}
		if n, err := box.MakePartitions(t.Context(), day, 2); n != 0 || err != nil {
			t.Errorf("repeat = %d, %v; want nothing to do", n, err)
		}
	})

	t.Run("ManyAtOnceWhileRowsComeAndGo", func(t *testing.T) {
		t.Parallel()
		table, box := bundle(t)
		owner := own(t, box)
		var wg sync.WaitGroup
		for range 4 {
			other, err := outbox.Open(t.Context(), postgres.At(table.URL))
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			wg.Go(func() {
				defer other.Close()
				for {
					_, err := other.MakePartitions(t.Context(), time.Now(), 8)
					if err == nil {
						return
					}
					if postgres.State(err) != "55P03" { // The locks were not free in time.
						t.Errorf("make: %v", err)
						return
					}
				}
			})
		}
		marked := 0
		for seq := range int64(100) {
			table.Insert(event("a", seq+1))
			rows := claim(t, owner, 10)
			n, err := owner.Mark(t.Context(), rows)
			if err != nil {
				t.Fatalf("mark: %v", err)
			}
			marked += n
		}
		wg.Wait()
		if got := table.Count(made); got != 9 {
			t.Errorf("%d partitions, want 8 and the default", got)
		}
		if marked != 100 || table.Unpublished() != 0 {
			t.Errorf("marked %d rows, %d left", marked, table.Unpublished())
		}
		if got := table.Count(`SELECT count(*) FROM outbox_default`); got != 0 {
			t.Errorf("%d rows left in the default partition", got)
		}
	})
}

// eventually asks until there is no error, for what a server does in its own time.
func eventually[T any](t *testing.T, ask func() (T, error)) T {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		value, err := ask()
		if err == nil {
			return value
		}
		if time.Now().After(deadline) {
			t.Fatalf("still: %v", err)
		}
	}
}

// An event's row is written once: neither publishing nor marking touches it again, so it leaves nothing dead behind (hazard O9).
func TestOwnerMarkLeavesEventsUntouched(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	for seq := range int64(20) {
		table.Insert(event("a", seq+1), event("b", seq+1), event("c", seq+1))
	}
	versions := func() (all string) {
		t.Helper()
		err := table.Pool.QueryRow(t.Context(), `SELECT string_agg(concat_ws('/', tableoid, ctid, xmin, xmax), ' ' ORDER BY product_id, seq) FROM outbox`).Scan(&all)
		if err != nil {
			t.Fatalf("versions: %v", err)
		}
		return all
	}
	before := versions()
	owner := own(t, box)
	for table.Unpublished() > 0 {
		if _, err := owner.Mark(t.Context(), claim(t, owner, 7)); err != nil {
			t.Fatalf("mark: %v", err)
		}
	}
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("rows were written again (-before +after):\n%s", diff)
	}
}
