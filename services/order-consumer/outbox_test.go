package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/postgres"
)

func TestOutboxUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"outbox"}, 2, []string{"outbox: expected a subcommand"}},
		{[]string{"outbox", "-help"}, 0, []string{"outbox replay"}},
		{[]string{"outbox", "list", "-help"}, 0, []string{"Examples:"}},
		{[]string{"outbox", "list"}, 2, []string{"--product"}},
		{[]string{"outbox", "list", "--product", "p", "--limit", "0"}, 2, []string{"--limit"}},
		{[]string{"outbox", "stats", "-help"}, 0, []string{"Example:"}},
		{[]string{"outbox", "stats"}, 2, []string{"HANJUL_CONSUMER_POSTGRES_URL"}},
		{[]string{"outbox", "replay", "-help"}, 0, []string{"Examples:", "--from-seq", "order-events"}},
		{
			[]string{"outbox", "replay", "--operator", "ann", "--to-topic", "orders", "--rate", "0", "--since", "noon", "--event-id", "x", "--type", "x", "--from-seq", "9", "--to-seq", "8"},
			2,
			[]string{"--product", "--to-topic: expected one of order-events", "--rate", "--since", "--event-id", "--type: expected some of", "--from-seq"},
		},
		{[]string{"outbox", "replay", "--product", "p"}, 2, []string{"--operator: expected a name"}},
		{[]string{"outbox", "replay", "--product", "p", "--operator", "ann"}, 2, []string{"HANJUL_CONSUMER_POSTGRES_URL"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, nil, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(stdout+stderr, text) {
					t.Errorf("%q is not in\n%s%s", text, stdout, stderr)
				}
			}
		})
	}
}

func TestOutboxSubcommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := outboxtest.New(t)
	w.url = table.URL
	environ := w.environ("USER=ann")
	if code, _, stderr := call(t, environ, "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	for seq := range int64(3) {
		table.Insert(outboxtest.Row{Product: "apple", Seq: seq + 1, Topic: w.topics.Events, Payload: "{}"})
	}
	table.Publish("apple", 2)

	must := func(code int, args ...string) string {
		t.Helper()
		got, stdout, stderr := call(t, environ, append([]string{"outbox"}, args...)...)
		if got != code {
			t.Fatalf("%v = %d, want %d: %s%s", args, got, code, stdout, stderr)
		}
		return stdout + stderr
	}
	if out := must(0, "list", "--product", "apple"); strings.Count(out, "hanjul.order.confirmed") != 3 || !strings.HasPrefix(out, "SEQ") {
		t.Errorf("list: %s", out)
	}
	var row outbox.Listed
	if err := json.Unmarshal([]byte(must(0, "list", "--product", "apple", "--unpublished", "--json")), &row); err != nil || row.Seq != 3 {
		t.Errorf("list of unpublished: %+v, %v", row, err)
	}
	if out := must(0, "stats"); !strings.Contains(out, "unpublished") || !strings.Contains(out, "product apple") || !strings.Contains(out, "outbox_default") {
		t.Errorf("stats: %s", out)
	}
	var stats outbox.Stats
	if err := json.Unmarshal([]byte(must(0, "stats", "--json")), &stats); err != nil || stats.Unpublished != 1 {
		t.Errorf("stats: %+v, %v", stats, err)
	}

	if out := must(0, "replay", "--product", "apple", "--dry-run"); !strings.Contains(out, "2 of seq 1 to 2") {
		t.Errorf("dry run: %s", out)
	}
	if out := must(0, "replay", "--product", "apple", "--yes"); !strings.Contains(out, "done: 2 events") {
		t.Errorf("replay: %s", out)
	}
	must(2, "replay", "--product", "pear", "--yes")
	must(2, "replay", "--product", "apple", "--to-topic", w.topics.Orders, "--yes")
	_, end, err := kafka.Offsets(t.Context(), kafka.Config{Brokers: w.brokers}, w.topics.Events)
	if err != nil {
		t.Fatalf("offsets: %v", err)
	}
	sent := int64(0)
	for _, offset := range end {
		sent += offset
	}
	if sent != 2 {
		t.Errorf("%d records on the topic, want 2", sent)
	}
	// A topic that is not there is found out before anything is written down.
	environ = append(environ, "HANJUL_CONSUMER_REPLAY_TOPICS=nowhere")
	must(1, "replay", "--product", "apple", "--to-topic", "nowhere")
	if n := table.Count(`SELECT count(*) FROM outbox_replays WHERE state = 'done' AND operator = 'ann'`); n != 1 {
		t.Errorf("%d replays, want 1", n)
	}
	bad := append(w.environ("USER=ann"), "HANJUL_CONSUMER_REPLAY_TOPICS="+w.topics.DeadLetters)
	if code, _, stderr := call(t, bad, "outbox", "replay", "--product", "apple", "--dry-run"); code != 2 || !strings.Contains(stderr, "REPLAY_TOPICS") {
		t.Errorf("a list with dead letters = %d, %s", code, stderr)
	}
}

// The service itself runs what was asked for at the desk; a process that may run none leaves it alone.
func TestAppRunsReplays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := outboxtest.New(t)
	w.url = table.URL
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	for seq := range int64(3) {
		table.Insert(outboxtest.Row{Product: "apple", Seq: seq + 1, Topic: w.topics.Events, Payload: "{}"})
	}
	table.Publish("apple", 3)
	box, err := outbox.Open(t.Context(), postgres.At(w.url))
	if err != nil {
		t.Fatalf("outbox: %v", err)
	}
	t.Cleanup(box.Close)
	ask := func(request, topic string) string {
		t.Helper()
		asked, err := box.AskReplay(t.Context(), outbox.Action{RequestID: request, Operator: "ann", Product: "apple"}, outbox.Wanted{}, topic, 50)
		if err != nil {
			t.Fatalf("ask: %v", err)
		}
		return asked.ID
	}
	ends := func(id, state string) (r outbox.Replay) {
		t.Helper()
		until(t, state, func() (err error) {
			if r, err = box.Replay(t.Context(), id); err == nil && r.State != state {
				err = fmt.Errorf("replay %+v", r)
			}
			return err
		})
		return r
	}
	done, foreign := ask("r1", w.topics.Events), ask("r2", w.topics.Orders)
	_, stopNone := w.start(t, "HANJUL_CONSUMER_REPLAYS=0")
	if err := stopNone(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if r := ends(done, outbox.StateWaiting); r.Attempt != 0 {
		t.Errorf("run by a process that runs none: %+v", r)
	}
	admin, stop := w.start(t)
	if r := ends(done, outbox.StateDone); r.Sent != 3 {
		t.Errorf("done: %+v", r)
	}
	if r := ends(foreign, outbox.StateStopped); !strings.Contains(r.Problem, w.topics.Orders) {
		t.Errorf("to the topic of commands: %+v", r)
	}
	until(t, "counted", func() error {
		_, metrics, err := get(t.Context(), admin+"/metrics")
		if err == nil && !(strings.Contains(metrics, "hanjul_replay_events_total 3") && strings.Contains(metrics, `hanjul_replay_runs_total{outcome="done"} 1`)) {
			err = errors.New("not counted")
		}
		return err
	})
	if err := stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	for topic, want := range map[string]int64{w.topics.Events: 3, w.topics.Orders: 0} {
		_, end, err := kafka.Offsets(t.Context(), kafka.Config{Brokers: w.brokers}, topic)
		if err != nil {
			t.Fatalf("offsets: %v", err)
		}
		for _, offset := range end {
			want -= offset
		}
		if want != 0 {
			t.Errorf("topic %s: %d records are missing", topic, want)
		}
	}
}
