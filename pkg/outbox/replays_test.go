package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
)

// published is a table with ten published events of product a, one second apart from start on, of which the fifth carries an early time as
// one that waited long for its lock does; the ninth and tenth wait.
func published(t *testing.T) (*outboxtest.Table, *outbox.Outbox, time.Time, []string) {
	t.Helper()
	table, box := bundle(t)
	start := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	var rows []outboxtest.Row
	for seq := range int64(10) {
		row := event("a", seq+1)
		row.At = start.Add(time.Duration(seq) * time.Second)
		if row.Seq == 5 {
			row.At = start
		}
		rows = append(rows, row)
	}
	ids := table.Insert(append(rows, event("b", 1), command("a", "a command"))...)
	table.Publish("a", 8)
	table.Publish("b", 1)
	table.Exec(`UPDATE outbox SET type = 'hanjul.order.rejected' WHERE seq IN (2, 4)`)
	return table, box, start, ids
}

func TestOutboxPlanReplay(t *testing.T) {
	t.Parallel()
	table, box, start, ids := published(t)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	type got struct{ From, To, Matched, Missing int64 }
	plan := func(w outbox.Wanted) (got, error) {
		w.Product = "a"
		p, err := box.PlanReplay(t.Context(), w)
		return got{p.FromSeq, p.ToSeq, p.Matched, p.Missing}, err
	}
	for name, c := range map[string]struct {
		wanted outbox.Wanted
		want   got
	}{
		"only what was published":                {outbox.Wanted{}, got{1, 8, 8, 0}},
		"a range":                                {outbox.Wanted{FromSeq: 3, ToSeq: 5}, got{3, 5, 3, 0}},
		"a range beyond":                         {outbox.Wanted{FromSeq: 7, ToSeq: 100}, got{7, 8, 2, 0}},
		"a type":                                 {outbox.Wanted{Types: []string{"hanjul.order.rejected"}}, got{1, 8, 2, 0}},
		"an event":                               {outbox.Wanted{EventID: ids[3]}, got{4, 4, 1, 0}},
		"times are a range of seq, late commits": {outbox.Wanted{Since: at(0), Until: at(2)}, got{1, 5, 5, 0}},
		"since":                                  {outbox.Wanted{Since: at(6)}, got{7, 8, 2, 0}},
		"until":                                  {outbox.Wanted{Until: at(1)}, got{1, 5, 5, 0}},
	} {
		if have, err := plan(c.wanted); err != nil || have != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, have, err, c.want)
		}
	}
	for name, w := range map[string]outbox.Wanted{
		"not published": {FromSeq: 9}, "another time": {Since: at(100)}, "another event": {EventID: "00000000-0000-0000-0000-000000000000"},
	} {
		if have, err := plan(w); !errors.Is(err, outbox.ErrNothing) {
			t.Errorf("%s: %+v, %v; want ErrNothing", name, have, err)
		}
	}
	table.Exec(`DELETE FROM outbox WHERE seq <= 3`)
	if have, err := plan(outbox.Wanted{}); err != nil || have != (got{1, 8, 5, 3}) {
		t.Errorf("with seqs that are gone: %+v, %v", have, err)
	}
}

func TestReplayer(t *testing.T) {
	t.Parallel()
	table, box, _, _ := published(t)
	plan, err := box.PlanReplay(t.Context(), outbox.Wanted{Product: "a"})
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	plan.Topic, plan.Rate, plan.Operator = "order-events", 10, "ann"
	first, err := box.StartReplay(t.Context(), plan)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	next := func(r *outbox.Replayer, limit int) []outbox.Row {
		t.Helper()
		rows, err := r.Next(t.Context(), limit)
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		return rows
	}
	rows := next(first, 3)
	if diff := cmp.Diff([]string{"a1", "a2", "a3"}, names(rows)); diff != "" {
		t.Errorf("first rows (-want +got):\n%s", diff)
	}
	if err := first.Advance(t.Context(), rows); err != nil {
		t.Fatalf("advance: %v", err)
	}
	if _, err := box.ResumeReplay(t.Context(), first.ID, "ben", 10); !errors.Is(err, outbox.ErrRunning) {
		t.Errorf("resume of a running one: %v, want ErrRunning", err)
	}
	// Its process dies, and another goes on; the fence holds even if the first one's session should come back.
	first.Close(context.Background())
	second := eventually(t, func() (*outbox.Replayer, error) { return box.ResumeReplay(t.Context(), first.ID, "ben", 20) })
	if second.Attempt != 2 || second.NextSeq != 4 || second.Sent != 3 || second.Rate != 20 {
		t.Errorf("resumed %+v", second.Replay)
	}
	rows = next(second, 100)
	if diff := cmp.Diff([]string{"a4", "a5", "a6", "a7", "a8"}, names(rows)); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	if err := second.Advance(t.Context(), rows); err != nil {
		t.Fatalf("advance: %v", err)
	}
	if left := next(second, 100); len(left) != 0 {
		t.Errorf("still %v", names(left))
	}
	table.Exec(`UPDATE outbox_replays SET runner = 'somebody else'`)
	if err := second.End(t.Context(), outbox.StateDone, ""); !errors.Is(err, outbox.ErrLost) {
		t.Errorf("end of one that was taken over: %v, want ErrLost", err)
	}
	table.Exec(`UPDATE outbox_replays SET state = 'done'`)
	second.Close(context.Background())
	eventually(t, func() (struct{}, error) {
		if _, err := box.ResumeReplay(t.Context(), first.ID, "ben", 20); !errors.Is(err, outbox.ErrDone) {
			return struct{}{}, errors.New("not yet ErrDone")
		}
		return struct{}{}, nil
	})
	if _, err := box.ResumeReplay(t.Context(), "none", "ben", 1); !errors.Is(err, outbox.ErrNoReplay) {
		t.Errorf("resume of none: %v, want ErrNoReplay", err)
	}
	if n := table.Count(`SELECT count(*) FROM operator_actions WHERE action = 'replay' AND product_id = 'a' AND operator IN ('ann', 'ben')`); n != 2 {
		t.Errorf("%d operator actions, want 2", n)
	}
}

func TestOutboxDropPartitions(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	day := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	if _, err := box.MakePartitions(t.Context(), day, 4); err != nil {
		t.Fatalf("make: %v", err)
	}
	for i := range int64(4) {
		row := event("a", i+1)
		row.At = day.AddDate(0, 0, int(i))
		table.Insert(row)
	}
	drop := func(before time.Time) outbox.Dropped {
		t.Helper()
		result, err := box.DropPartitions(t.Context(), before)
		if err != nil {
			t.Fatalf("drop: %v", err)
		}
		return result
	}
	none := map[string]string{}
	table.Exec(`DELETE FROM outbox_runs WHERE from_seq <> 2`)
	// The fourth is not over its time: its day must have ended.
	want := outbox.Dropped{Names: []string{"outbox_20310504", "outbox_20310506"}, Kept: map[string]string{"outbox_20310505": "unpublished rows"}}
	plan := outbox.Replay{Product: "a", FromSeq: 3, ToSeq: 4, Topic: "order-events", Rate: 1, Operator: "ann"}
	replayer, err := box.StartReplay(t.Context(), plan)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	defer replayer.Close(context.Background())
	late := day.AddDate(0, 0, 3)
	held := outbox.Dropped{Names: []string{"outbox_20310504"}, Kept: map[string]string{"outbox_20310505": "unpublished rows", "outbox_20310506": "a replay reads it"}}
	if diff := cmp.Diff(held, drop(late)); diff != "" {
		t.Errorf("under a replay (-want +got):\n%s", diff)
	}
	if err := replayer.End(t.Context(), outbox.StateDone, ""); err != nil {
		t.Fatalf("end: %v", err)
	}
	want.Names = want.Names[1:]
	if diff := cmp.Diff(want, drop(late)); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
	table.Publish("a", 4)
	if diff := cmp.Diff(outbox.Dropped{Names: []string{"outbox_20310505"}, Kept: none}, drop(late)); diff != "" {
		t.Errorf("once published (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(outbox.Dropped{Kept: none}, drop(late)); diff != "" {
		t.Errorf("repeat (-want +got):\n%s", diff)
	}
	if n := table.Count(`SELECT count(*) FROM outbox`); n != 1 {
		t.Errorf("%d rows left, want 1", n)
	}
}
