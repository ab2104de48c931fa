package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// replayAnswer is what these tests read of the desk's answers.
type replayAnswer struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Matched int64  `json:"matched"`
	Missing int64  `json:"missing"`
	Sent    int64  `json:"sent"`
	Attempt int    `json:"attempt"`
	Repeat  bool   `json:"repeat"`
}

// callDesk makes one call at the first scheduler's desk, under the key where it is a change.
func callDesk(t *testing.T, stack *local.Stack, method, path, key, body string) (status int, answer replayAnswer) {
	t.Helper()
	token, err := stack.OperatorToken()
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, stack.OperatorURLs()[0]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	raw := fetch(t, r, &status)
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("%s %s: %d %s: %v", method, path, status, raw, err)
	}
	return status, answer
}

func fetch(t *testing.T, r *http.Request, status *int) []byte {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	*status = response.StatusCode
	return raw
}

// soon polls for what the stack brings about in its own time.
func soon(t *testing.T, what string, fine func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(2 * time.Minute); !fine(); {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("never %s", what)
		}
	}
}

// running finds the consumer that runs a replay, or nil.
func running(t *testing.T, stack *local.Stack) *local.Process {
	t.Helper()
	for _, p := range stack.Processes(local.Consumer) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.AdminAddr()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		var status int
		if bytes.Contains(fetch(t, r, &status), []byte("\nhanjul_replay_running 1\n")) {
			return p
		}
	}
	return nil
}

// An operator asks for a replay to the live topic. The consumer that runs it is killed in its middle: another goes on where its row says, while
// new orders are judged and published. Each event comes again under its own id, in order, none is skipped, and the books balance.
func TestReplayOutlivesItsConsumer(t *testing.T) {
	t.Parallel()
	const id, path = product.ID("again"), "/v1/products/again/replays"
	env, settings := sale.Quick(false)
	stack := startIn(t, local.StackOptions{DataDir: localtest.Dir(t), PerService: 2, Env: env})
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	settings.OrderTTL = time.Hour
	if err := sale.Open(t.Context(), target, id, 50, settings); err != nil {
		t.Fatal(err)
	}
	if err := sale.Preload(t.Context(), stack, []product.ID{id}, 200); err != nil {
		t.Fatal(err)
	}
	const first = 201 // the stock's event, and one per order
	soon(t, "all published", func() bool {
		status, dry := callDesk(t, stack, "POST", path, "dry", `{"dry_run": true}`)
		return status == http.StatusOK && dry.Matched == first && dry.Missing == 0
	})

	status, asked := callDesk(t, stack, "POST", path, "k1", `{"rate": 40, "confirm": "again"}`)
	if status != http.StatusAccepted || asked.Matched != first {
		t.Fatalf("asked: %d %+v", status, asked)
	}
	now := func() replayAnswer {
		t.Helper()
		_, answer := callDesk(t, stack, "GET", path+"/"+asked.ID, "", "")
		return answer
	}
	soon(t, "under way", func() bool { return now().Sent > 20 })
	victim := running(t, stack)
	if victim == nil {
		t.Fatalf("no consumer says that it runs it: %+v", now())
	}
	victim.Kill()
	soon(t, "taken over", func() bool { return now().Attempt == 2 })
	if err := victim.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _ := callDesk(t, stack, "POST", "/v1/products/again/restock", "k3", `{"units": 5}`); status != http.StatusAccepted {
		t.Errorf("restock: %d", status)
	}
	soon(t, "done", func() bool { return now().State == "done" })
	if end := now(); end.Sent != first || end.Attempt != 2 || end.Missing != 0 {
		t.Errorf("ended as %+v", end)
	}
	if status, again := callDesk(t, stack, "POST", path, "k1", `{"rate": 40, "confirm": "again"}`); status != http.StatusAccepted || again.ID != asked.ID || !again.Repeat {
		t.Errorf("the same request again: %d %+v", status, again)
	}
	if status, _ := callDesk(t, stack, "POST", path+"/"+asked.ID+"/cancel", "k2", ""); status != http.StatusConflict {
		t.Errorf("cancelled after its end: %d", status)
	}
	compareCopies(t, stack, id, asked.ID, first)
	if report := auditOf(t, stack, id, ""); !strings.HasSuffix(report, "audit: ok\n") {
		t.Errorf("audit:\n%s", report)
	}
}

// compareCopies reads the topic of events: the replay's records are the first events of the product, by seq without a hole, each run's in order, under
// the ids of their originals.
func compareCopies(t *testing.T, stack *local.Stack, id product.ID, replay string, events int) {
	t.Helper()
	config := kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ","), ClientID: "test"}
	topic, partition := stack.Setting("HANJUL_TOPIC_EVENTS"), kafka.Partition([]byte(id), local.DefaultPartitions)
	begin, end, err := kafka.Offsets(t.Context(), config, topic)
	if err != nil {
		t.Fatal(err)
	}
	originals := map[string]string{}  // seq → id
	runs := map[string][]int{}        // attempt → seqs
	copied := make(map[string]string) // seq → id
	err = kafka.Read(t.Context(), config, topic, partition, begin[partition], end[partition], func(m kafka.Message) error {
		headers := map[string]string{}
		for _, h := range m.Headers {
			headers[h.Key] = string(h.Value)
		}
		if string(m.Key) != string(id) {
			return nil
		}
		seq := headers[order.HeaderSequence]
		if headers[order.HeaderReplayID] != replay {
			originals[seq] = headers[order.HeaderID]
			return nil
		}
		var n int
		if _, err := fmt.Sscan(seq, &n); err != nil {
			return err
		}
		runs[headers[order.HeaderReplayAttempt]] = append(runs[headers[order.HeaderReplayAttempt]], n)
		copied[seq] = headers[order.HeaderID]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(copied) != events || len(runs) != 2 || len(originals) <= events-1 {
		t.Errorf("%d of %d events came again in %d runs, beside %d", len(copied), events, len(runs), len(originals))
	}
	for seq, have := range copied {
		if have != originals[seq] {
			t.Errorf("seq %s came again as %s, not %s", seq, have, originals[seq])
		}
	}
	for attempt, seqs := range runs {
		if !slices.IsSorted(seqs) || len(seqs) != seqs[len(seqs)-1]-seqs[0]+1 {
			t.Errorf("attempt %s: %v", attempt, seqs)
		}
	}
}
