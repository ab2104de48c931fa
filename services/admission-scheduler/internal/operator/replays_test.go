package operator_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/postgres"
	"hanjul/services/admission-scheduler/internal/operator"
)

const (
	replays = "/v1/products/p/replays"
	rebuild = `{"topic":"order-events.rebuild"}`
)

// replayDesk is a desk over a product p with ten published events, and a product q without any.
func replayDesk(t *testing.T) (operator.Config, *outboxtest.Table, *outbox.Outbox) {
	t.Helper()
	table := outboxtest.New(t)
	l, err := ledger.Open(t.Context(), postgres.At(table.URL), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	box, err := outbox.Open(t.Context(), postgres.At(table.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	ledgertest.Product(t, l, "p", 10)
	ledgertest.Product(t, l, "q", 10)
	table.Exec(`DELETE FROM outbox`)
	table.Exec(`DELETE FROM operator_actions`)
	table.Exec(`UPDATE stock SET seq = CASE product_id WHEN 'p' THEN 10 ELSE 0 END`)
	for seq := range int64(10) {
		table.Insert(outboxtest.Row{Product: "p", Seq: seq + 1, Topic: "order-events", Payload: "{}"})
	}
	table.Publish("p", 10)
	c := config(t, l)
	c.Replays = box
	return c, table, box
}

func TestDeskRefusesReplays(t *testing.T) {
	t.Parallel()
	c, table, _ := replayDesk(t)
	for name, tt := range map[string]struct {
		path, body string
		headers    []string
		status     int
		kind       string
		fields     []string
	}{
		"NoToken":            {replays, rebuild, []string{"Authorization", ""}, 401, "token-invalid", nil},
		"NoKey":              {replays, rebuild, []string{"Idempotency-Key", ""}, 400, "idempotency-key-required", []string{"Idempotency-Key"}},
		"NoBody":             {replays, ``, nil, 400, "malformed-request", nil},
		"UnknownProduct":     {"/v1/products/none/replays", rebuild, nil, 404, "unknown-product", nil},
		"UnknownProductDry":  {"/v1/products/none/replays", `{"dry_run":true}`, nil, 404, "unknown-product", nil},
		"ProductID":          {"/v1/products/a%20b/replays", rebuild, nil, 422, "invalid-field", []string{"product"}},
		"NoEvents":           {"/v1/products/q/replays", rebuild, nil, 409, "no-events", nil},
		"BeyondTheEnd":       {replays, `{"topic":"order-events.rebuild","from_seq":11}`, nil, 409, "no-events", nil},
		"BeyondTheEndDry":    {replays, `{"dry_run":true,"from_seq":11}`, nil, 409, "no-events", nil},
		"TheTopicOfCommands": {replays, `{"topic":"orders"}`, nil, 422, "invalid-field", []string{"topic"}},
		"LiveUnconfirmed":    {replays, `{}`, nil, 422, "invalid-field", []string{"confirm"}},
		"LiveConfirmedWrong": {replays, `{"confirm":"q"}`, nil, 422, "invalid-field", []string{"confirm"}},
		"ConfirmNoText":      {replays, `{"confirm":true}`, nil, 422, "invalid-field", []string{"confirm"}},
		"AnotherConfirmed":   {replays, `{"topic":"order-events.rebuild","confirm":"q"}`, nil, 422, "invalid-field", []string{"confirm"}},
		"EveryFaultAtOnce": {
			replays, `{"from_seq":0,"to_seq":"9","since":"noon","until":5,"types":["x"],"event_id":"X","topic":"x","rate":0,"dry_run":1,"yes":true}`, nil,
			422, "invalid-field",
			[]string{"from_seq", "to_seq", "since", "until", "types", "event_id", "topic", "rate", "dry_run", "yes"},
		},
		"Backwards": {
			replays, `{"dry_run":true,"from_seq":5,"to_seq":4,"since":"2027-01-15T09:00:00Z","until":"2027-01-15T08:00:00Z"}`, nil,
			422, "invalid-field",
			[]string{"to_seq", "until"},
		},
		"TypesNoList":      {replays, `{"dry_run":true,"types":"hanjul.order.confirmed"}`, nil, 422, "invalid-field", []string{"types"}},
		"CancelUnknown":    {replays + "/abc234/cancel", ``, nil, 404, "replay-unknown", nil},
		"CancelOfNone":     {"/v1/products/none/replays/abc234/cancel", ``, nil, 404, "unknown-product", nil},
		"CancelNoID":       {replays + "/A%00/cancel", ``, nil, 422, "invalid-field", []string{"replay"}},
		"CancelSaysNotAny": {replays + "/abc234/cancel", `{"reason":"x"}`, nil, 422, "invalid-field", []string{"reason"}},
		"ResumeUnknown":    {replays + "/abc234/resume", ``, nil, 404, "replay-unknown", nil},
	} {
		a := call(t, c, "POST", tt.path, tt.body, tt.headers...)
		if diff := cmp.Diff([]any{tt.status, tt.kind, tt.fields}, []any{a.status, a.text("type"), a.fields()}); diff != "" {
			t.Errorf("%s: %s\n%v", name, diff, a.body)
		}
	}
	if n := table.Count(`SELECT (SELECT count(*) FROM outbox_replays) + (SELECT count(*) FROM operator_actions)`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	for path, kind := range map[string]string{
		replays + "/abc234": "replay-unknown", "/v1/products/none/replays": "unknown-product", "/v1/products/none/replays/abc234": "unknown-product",
	} {
		if a := call(t, c, "GET", path, ""); a.status != 404 || a.text("type") != kind {
			t.Errorf("GET %s: %v", path, a)
		}
	}
}

func TestDeskAsksForReplays(t *testing.T) {
	t.Parallel()
	c, table, box := replayDesk(t)

	dry := call(t, c, "POST", replays, `{"from_seq":3,"to_seq":40,"dry_run":true}`)
	want := map[string]any{
		"product": "p", "from_seq": 3.0, "to_seq": 10.0, "types": []any{}, "topic": "order-events", "rate": 500.0, "matched": 8.0, "missing": 0.0, "dry_run": true,
	}
	if diff := cmp.Diff(want, dry.body); diff != "" || dry.status != 200 {
		t.Fatal(dry.status, diff)
	}
	if n := table.Count(`SELECT (SELECT count(*) FROM outbox_replays) + (SELECT count(*) FROM operator_actions)`); n != 0 {
		t.Fatalf("a dry run wrote %d rows", n)
	}

	first := call(t, c, "POST", replays, `{"from_seq":3,"types":["hanjul.order.confirmed"],"rate":5,"confirm":"p"}`)
	id := first.text("id")
	if first.status != 202 || first.text("state") != "waiting" || first.body["matched"] != 8.0 || first.body["progress"] != 0.0 || first.body["repeat"] != false ||
		first.text("operator") != "anna" || first.body["problem"] != nil || first.header.Get("Location") != replays+"/"+id {
		t.Fatal(first)
	}
	again := call(t, c, "POST", replays, `{"from_seq":3,"types":["hanjul.order.confirmed"],"rate":5,"confirm":"p"}`)
	if again.status != 202 || again.text("id") != id || again.body["repeat"] != true {
		t.Fatal(again)
	}
	if a := call(t, c, "POST", replays, rebuild); a.status != 409 || a.text("type") != "request-reused" {
		t.Fatal(a)
	}
	// Under one key at the same time there is one replay; another key is another one, of the same product at once.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if a := call(t, c, "POST", replays, rebuild, "Idempotency-Key", "k2"); a.status != 202 {
				t.Error(a)
			}
		})
	}
	wg.Wait()
	if n := table.Count(`SELECT count(*) FROM outbox_replays`); n != 2 {
		t.Fatalf("%d replays", n)
	}
	if n := table.Count(`SELECT count(*) FROM operator_actions WHERE action = 'replay' AND operator = 'anna' AND product_id = 'p'`); n != 2 {
		t.Fatalf("%d actions", n)
	}

	// A consumer runs it; its progress shows, and so does what is run by hand.
	replayer, err := box.ClaimReplay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer replayer.Close(t.Context())
	rows, err := replayer.Next(t.Context(), 2)
	if err == nil {
		err = replayer.Advance(t.Context(), rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	shown := call(t, c, "GET", replays+"/"+id, "")
	if shown.status != 200 || shown.text("state") != "running" || shown.body["progress"] != 0.25 || shown.body["next_seq"] != 5.0 || shown.body["attempt"] != 1.0 {
		t.Fatal(shown)
	}
	plan, err := box.PlanReplay(t.Context(), outbox.Wanted{Product: "p"})
	if err != nil {
		t.Fatal(err)
	}
	plan.Topic, plan.Rate, plan.Operator = "order-events", 1, "kim"
	hand, err := box.StartReplay(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	defer hand.Close(t.Context())
	list, _ := call(t, c, "GET", replays, "").body["replays"].([]any)
	var said []string
	for _, each := range list {
		entry, _ := each.(map[string]any)
		said = append(said, fmt.Sprint(entry["operator"], " ", entry["state"], " ", entry["background"]))
	}
	if diff := cmp.Diff([]string{"kim running false", "anna waiting true", "anna running true"}, said); diff != "" {
		t.Fatal(diff)
	}
	if a := call(t, c, "GET", "/v1/products/q/replays/"+id, ""); a.status != 404 || a.text("type") != "replay-unknown" {
		t.Fatal("another product's", a)
	}
}

func TestDeskEndsReplays(t *testing.T) {
	t.Parallel()
	c, table, box := replayDesk(t)
	ask := func(key string) string {
		t.Helper()
		return call(t, c, "POST", replays, rebuild, "Idempotency-Key", key).text("id")
	}
	one, two := ask("a1"), ask("a2")
	table.Exec(`UPDATE outbox_replays SET state = 'stopped', problem = 'no such topic' WHERE id = $1`, two)
	for i, step := range []struct {
		path, key string
		status    int
		says      string
	}{
		{one + "/cancel", "c1", 200, "cancelled"},
		{one + "/cancel", "c1", 200, "cancelled"},
		{one + "/cancel", "c2", 200, "cancelled"},
		{one + "/resume", "c3", 409, "state-conflict"},
		{two + "/resume", "c1", 409, "request-reused"},
		{two + "/resume", "c4", 200, "waiting"},
		{two + "/resume", "c5", 200, "waiting"},
	} {
		a := call(t, c, "POST", replays+"/"+step.path, ``, "Idempotency-Key", step.key)
		if says := a.text("state") + a.text("type"); a.status != step.status || says != step.says {
			t.Fatalf("step %d: %d %v", i, a.status, a.body)
		}
	}
	replayer, err := box.ClaimReplay(t.Context())
	if err != nil || replayer.ID != two {
		t.Fatal(replayer, err)
	}
	defer replayer.Close(t.Context())
	if err := replayer.End(t.Context(), outbox.StateDone, ""); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/cancel", "/resume"} {
		if a := call(t, c, "POST", replays+"/"+two+path, ``, "Idempotency-Key", "d"+path); a.status != 409 || a.text("type") != "state-conflict" {
			t.Fatal(path, a)
		}
	}
	if a := call(t, c, "GET", replays+"/"+two, ""); a.text("state") != "done" {
		t.Fatal(a)
	}
	if a := call(t, c, "POST", "/v1/products/q/replays/"+two+"/cancel", ``, "Idempotency-Key", "e1"); a.status != 404 || a.text("type") != "replay-unknown" {
		t.Fatal(a)
	}
	if n := table.Count(`SELECT count(*) FROM operator_actions WHERE action IN ('replay cancel', 'replay resume')`); n != 4 {
		t.Fatalf("%d actions, want 4", n)
	}

	// What retention dropped is told.
	table.Exec(`DELETE FROM outbox WHERE seq <= 6`)
	if a := call(t, c, "POST", replays, `{"dry_run":true}`); a.status != 200 || a.body["matched"] != 4.0 || a.body["missing"] != 6.0 {
		t.Fatal(a)
	}
	if a := call(t, c, "POST", replays, `{"topic":"order-events.rebuild","to_seq":5}`); a.status != 409 || !strings.Contains(a.text("detail"), "before seq 7 are no longer kept") {
		t.Fatal(a)
	}
}

// Where the audit trail cannot be written, no replay is.
func TestDeskReplayIsOneTransaction(t *testing.T) {
	t.Parallel()
	c, table, _ := replayDesk(t)
	table.Exec(`ALTER TABLE operator_actions ADD CHECK (action <> 'replay')`)
	if a := call(t, c, "POST", replays, rebuild); a.status != 503 || a.text("type") != "unavailable" {
		t.Fatal(a)
	}
	if n := table.Count(`SELECT count(*) FROM outbox_replays`); n != 0 {
		t.Fatalf("%d replays", n)
	}
}
