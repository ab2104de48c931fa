package outbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/outbox"
)

func asks(request string) outbox.Action {
	return outbox.Action{RequestID: request, Operator: "ann", Product: "a"}
}

func ask(t *testing.T, box *outbox.Outbox, request string, w outbox.Wanted) outbox.Asked {
	t.Helper()
	asked, err := box.AskReplay(t.Context(), asks(request), w, "order-events", 10)
	if err != nil {
		t.Fatalf("ask %s: %v", request, err)
	}
	return asked
}

// claimed takes the next replay; a session that was closed a moment ago may still hold it.
func claimed(t *testing.T, box *outbox.Outbox) *outbox.Replayer {
	t.Helper()
	r := eventually(t, func() (*outbox.Replayer, error) { return box.ClaimReplay(t.Context()) })
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func TestAskReplay(t *testing.T) {
	t.Parallel()
	table, box, start, _ := published(t)
	w := outbox.Wanted{FromSeq: 3, Since: start, Types: []string{"hanjul.order.confirmed"}}
	first := ask(t, box, "r1", w)
	if first.State != outbox.StateWaiting || first.Matched != 5 || first.Attempt != 0 || first.NextSeq != 3 || first.Repeat || !first.Background {
		t.Errorf("asked %+v", first)
	}
	// Two at once under one key make one replay.
	var wg sync.WaitGroup
	ids := make([]string, 4)
	for i := range ids {
		wg.Go(func() {
			asked, err := box.AskReplay(t.Context(), asks("r2"), outbox.Wanted{}, "order-events", 10)
			if err != nil {
				t.Errorf("at once: %v", err)
			}
			ids[i] = asked.ID
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]string{ids[0], ids[0], ids[0], ids[0]}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	// A repeat is answered as before, whatever became of it and of its events.
	table.Exec(`DELETE FROM outbox`)
	table.Exec(`UPDATE outbox_replays SET state = 'done', sent = 5`)
	again := ask(t, box, "r1", w)
	first.Repeat = true
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("repeat (-want +got):\n%s", diff)
	}
	other := w
	other.FromSeq = 4
	ben := asks("r1")
	ben.Operator = "ben"
	for name, call := range map[string]func() error{
		"another body":     func() error { _, err := box.AskReplay(t.Context(), asks("r1"), other, "order-events", 10); return err },
		"another rate":     func() error { _, err := box.AskReplay(t.Context(), asks("r1"), w, "order-events", 11); return err },
		"another operator": func() error { _, err := box.AskReplay(t.Context(), ben, w, "order-events", 10); return err },
		"another call":     func() error { _, err := box.CancelReplay(t.Context(), asks("r1"), first.ID); return err },
	} {
		if err := call(); !errors.Is(err, outbox.ErrRequestReused) {
			t.Errorf("%s: %v, want ErrRequestReused", name, err)
		}
	}
	if _, err := box.AskReplay(t.Context(), asks("r3"), outbox.Wanted{}, "order-events", 10); !errors.Is(err, outbox.ErrNothing) {
		t.Errorf("nothing: %v, want ErrNothing", err)
	}
	if replays, actions := table.Count(`SELECT count(*) FROM outbox_replays`), table.Count(`SELECT count(*) FROM operator_actions WHERE action = 'replay'`); replays != 2 || actions != 2 {
		t.Errorf("%d replays and %d actions, want 2 of each", replays, actions)
	}
}

// What retention dropped is told: as a number where some is left, in words where nothing is.
func TestPlanReplayTellsWhatIsGone(t *testing.T) {
	t.Parallel()
	table, box, start, _ := published(t)
	table.Publish("a", 10)
	table.Exec(`INSERT INTO products (id, settings) VALUES ('a', '{}')`)
	table.Exec(`INSERT INTO stock (product_id, seq) VALUES ('a', 10)`)
	table.Exec(`DELETE FROM outbox WHERE seq <= 6`)
	if p, err := box.PlanReplay(t.Context(), outbox.Wanted{Product: "a"}); err != nil || p.Matched != 4 || p.Missing != 6 {
		t.Errorf("some are left: %+v, %v", p, err)
	}
	for _, w := range []outbox.Wanted{{ToSeq: 6}, {Until: start}} {
		w.Product = "a"
		if _, err := box.PlanReplay(t.Context(), w); !errors.Is(err, outbox.ErrNothing) || !strings.Contains(err.Error(), "before seq 7 are no longer kept") {
			t.Errorf("none of the range: %v", err)
		}
	}
	table.Exec(`DELETE FROM outbox`)
	if _, err := box.PlanReplay(t.Context(), outbox.Wanted{Product: "a"}); !errors.Is(err, outbox.ErrNothing) || !strings.Contains(err.Error(), "before seq 11") {
		t.Errorf("none at all: %v", err)
	}
	if _, err := box.PlanReplay(t.Context(), outbox.Wanted{Product: "none"}); !errors.Is(err, outbox.ErrNothing) || strings.Contains(err.Error(), "kept") {
		t.Errorf("no events ever: %v", err)
	}
}

func TestClaimReplay(t *testing.T) {
	t.Parallel()
	table, box, _, _ := published(t)
	plan, err := box.PlanReplay(t.Context(), outbox.Wanted{Product: "a"})
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	plan.Topic, plan.Rate, plan.Operator = "order-events", 10, "ann"
	hand, err := box.StartReplay(t.Context(), plan)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	hand.Close(t.Context()) // Killed: nobody but a person takes it up.
	older, newer := ask(t, box, "r1", outbox.Wanted{}), ask(t, box, "r2", outbox.Wanted{})

	first, second := claimed(t, box), claimed(t, box)
	if first.ID != older.ID || second.ID != newer.ID || first.Attempt != 1 || first.State != outbox.StateRunning {
		t.Errorf("claimed %+v, then %+v", first.Replay, second.Replay)
	}
	if r, err := box.ClaimReplay(t.Context()); !errors.Is(err, outbox.ErrNoReplay) {
		t.Fatalf("a third: %v, %v", r, err)
	}
	// One that its process gave back, one whose process died: each goes on where it was.
	if err := second.End(t.Context(), outbox.StateWaiting, "asked to stop"); err != nil {
		t.Fatalf("give back: %v", err)
	}
	second.Close(t.Context())
	rows, err := first.Next(t.Context(), 3)
	if err == nil {
		err = first.Advance(t.Context(), rows)
	}
	if err != nil {
		t.Fatalf("advance: %v", err)
	}
	first.Close(t.Context())
	table.Exec(`DELETE FROM outbox WHERE seq BETWEEN 1 AND 5`) // It stood for longer than partitions are kept for it.
	left := map[string]bool{older.ID: true, newer.ID: true}    // The server ends sessions in its own order.
	for range 2 {
		r := claimed(t, box)
		if !left[r.ID] {
			t.Fatalf("claimed %s, want one of %v", r.ID, left)
		}
		delete(left, r.ID)
		gone, sent := int64(5), int64(0)
		if r.ID == older.ID {
			gone, sent = 2, 3
		}
		if r.Attempt != 2 || r.Sent != sent || r.Missing != gone || r.Matched != 8-gone || r.Problem != "" {
			t.Errorf("taken up %+v", r.Replay)
		}
		if err := first.Check(t.Context()); err == nil {
			t.Error("a dead session may go on")
		}
		if err := r.End(t.Context(), outbox.StateStopped, "no such topic\x00"); err != nil {
			t.Fatalf("stop: %v", err)
		}
		r.Close(t.Context())
	}
	// What was stopped waits for a person, and then for a process again; also what was begun by hand.
	if _, err := box.ClaimReplay(t.Context()); !errors.Is(err, outbox.ErrNoReplay) {
		t.Errorf("stopped ones: %v, want ErrNoReplay", err)
	}
	if r, err := box.Replay(t.Context(), newer.ID); err != nil || r.State != outbox.StateStopped || r.Problem != "no such topic?" {
		t.Errorf("stopped: %+v, %v", r, err)
	}
	for i, id := range []string{hand.ID, newer.ID} {
		for n := range 2 {
			if r, err := box.ContinueReplay(t.Context(), asks("go on "+id), id); err != nil || !r.Background || r.Repeat != (n == 1) {
				t.Errorf("go on: %+v, %v", r, err)
			}
		}
		if r := claimed(t, box); r.ID != id || r.Attempt != 2+i {
			t.Errorf("claimed %+v, want %s", r.Replay, id)
		}
	}
	list, err := box.Replays(t.Context(), "a")
	if err != nil || len(list) != 3 || list[0].ID != newer.ID || list[2].ID != hand.ID {
		t.Errorf("list %+v, %v", list, err)
	}
	if list, err := box.Replays(t.Context(), "b"); err != nil || len(list) != 0 {
		t.Errorf("list of another product %+v, %v", list, err)
	}
}

func TestCancelReplay(t *testing.T) {
	t.Parallel()
	table, box, _, _ := published(t)
	cancel := func(request, id string) (outbox.Asked, error) {
		return box.CancelReplay(t.Context(), asks(request), id)
	}

	waiting := ask(t, box, "r1", outbox.Wanted{})
	for _, request := range []string{"c1", "c1", "c2"} { // A repeat, and one more, change nothing.
		if r, err := cancel(request, waiting.ID); err != nil || r.State != outbox.StateCancelled {
			t.Errorf("%s: %+v, %v", request, r, err)
		}
	}
	if r, err := box.ClaimReplay(t.Context()); !errors.Is(err, outbox.ErrNoReplay) {
		t.Fatalf("a cancelled one was claimed: %v, %v", r, err)
	}

	// While it runs: the batch in hand is noted, nothing more is read, and nothing brings it back.
	running := ask(t, box, "r2", outbox.Wanted{})
	r := claimed(t, box)
	rows, err := r.Next(t.Context(), 3)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	if _, err := cancel("c3", running.ID); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if err := r.Advance(t.Context(), rows); !errors.Is(err, outbox.ErrCancelled) {
		t.Errorf("advance: %v, want ErrCancelled", err)
	}
	if _, err := r.Next(t.Context(), 3); !errors.Is(err, outbox.ErrCancelled) {
		t.Errorf("next: %v, want ErrCancelled", err)
	}
	if err := r.End(t.Context(), outbox.StateDone, ""); !errors.Is(err, outbox.ErrCancelled) {
		t.Errorf("end: %v, want ErrCancelled", err)
	}
	r.Close(t.Context())
	if have, err := box.Replay(t.Context(), running.ID); err != nil || have.State != outbox.StateCancelled || have.Sent != 3 || have.NextSeq != 4 {
		t.Errorf("cancelled: %+v, %v", have, err)
	}
	eventually(t, func() (struct{}, error) {
		if _, err := box.ResumeReplay(t.Context(), running.ID, "ann", 1); !errors.Is(err, outbox.ErrCancelled) {
			return struct{}{}, errors.New("not yet ErrCancelled")
		}
		return struct{}{}, nil
	})
	if _, err := box.ContinueReplay(t.Context(), asks("g1"), running.ID); !errors.Is(err, outbox.ErrCancelled) {
		t.Errorf("go on: %v, want ErrCancelled", err)
	}

	// After its end it changes nothing.
	done := ask(t, box, "r3", outbox.Wanted{})
	r = claimed(t, box)
	if err := r.End(t.Context(), outbox.StateDone, ""); err != nil {
		t.Fatalf("end: %v", err)
	}
	if _, err := cancel("c4", done.ID); !errors.Is(err, outbox.ErrDone) {
		t.Errorf("cancel of one that is done: %v, want ErrDone", err)
	}
	if _, err := cancel("c4", "none"); !errors.Is(err, outbox.ErrNoReplay) {
		t.Errorf("cancel of none: %v, want ErrNoReplay", err)
	}
	other := asks("c4")
	other.Product = "b"
	if _, err := box.CancelReplay(t.Context(), other, done.ID); !errors.Is(err, outbox.ErrNoReplay) {
		t.Errorf("cancel of another product's: %v, want ErrNoReplay", err)
	}
	if n := table.Count(`SELECT count(*) FROM operator_actions WHERE action = 'replay cancel'`); n != 3 {
		t.Errorf("%d cancels in the audit trail, want 3", n)
	}
}

// A replay that waits keeps its partitions; a cancelled one does not.
func TestReplaysKeepPartitions(t *testing.T) {
	t.Parallel()
	table, box := bundle(t)
	day := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	if _, err := box.MakePartitions(t.Context(), day, 2); err != nil {
		t.Fatalf("make: %v", err)
	}
	row := event("a", 1)
	row.At = day
	table.Insert(row)
	table.Publish("a", 1)
	asked := ask(t, box, "r1", outbox.Wanted{})
	late := day.AddDate(0, 0, 2)
	dropped, err := box.DropPartitions(t.Context(), late)
	if err != nil || dropped.Kept["outbox_20310504"] != "a replay reads it" {
		t.Errorf("while it waits: %+v, %v", dropped, err)
	}
	if _, err := box.CancelReplay(t.Context(), asks("c1"), asked.ID); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	dropped, err = box.DropPartitions(t.Context(), late)
	if err != nil || len(dropped.Kept) != 0 {
		t.Errorf("cancelled: %+v, %v", dropped, err)
	}
}
