package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// An operator finds what was parked, sends one again, gives one up and puts a forgery away, over a process that judges what is sent; the
// users read what became of their orders (F20).
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	w.start(t, "HANJUL_CONSUMER_RELAY_POLL=20ms")
	c := w.client(t)
	const fig = product.ID("fig")
	early, one := c.place(fig, "ann", 1, 2)
	broken, two := c.place(fig, "ben", 2, 5000)
	c.send(one, two, kafka.Record{Topic: w.topics.Orders, Key: []byte(fig), Value: []byte("\x1b[2Jno command")})

	environ := []string{"HANJUL_POSTGRES_URL=" + w.url, "HANJUL_TOPIC_ORDERS=" + w.topics.Orders}
	var list struct {
		Letters []letterView `json:"dead_letters"`
	}
	until(t, "parked", func() error {
		code, stdout, stderr := call(t, environ, "dead-letters", "list", "--json", "--product", "fig")
		if err := json.Unmarshal([]byte(stdout), &list); code != 0 || err != nil || len(list.Letters) != 3 {
			return fmt.Errorf("%d: %s%s: %w", code, stdout, stderr, err)
		}
		return nil
	})
	ids := map[order.ID]string{}
	for _, l := range list.Letters {
		ids[l.OrderID] = fmt.Sprint(l.ID)
	}
	code, stdout, _ := call(t, environ, "dead-letters", "list")
	for _, text := range []string{"REASON", "unknown_product", "invalid", "undecodable", "never verified", "order " + string(early)} {
		if code != 0 || !strings.Contains(stdout, text) {
			t.Errorf("%q is not in %d:\n%s", text, code, stdout)
		}
	}
	if code, stdout, _ := call(t, environ, "dead-letters", "show", ids[broken]); code != 0 || !strings.Contains(stdout, `"quantity":5000`) || !strings.Contains(stdout, "verdict    none") {
		t.Errorf("show = %d:\n%s", code, stdout)
	}
	if code, stdout, _ := call(t, environ, "dead-letters", "show", ids[""]); code != 0 || strings.Contains(stdout, "\x1b") {
		t.Errorf("a stranger's bytes reach the terminal: %d, %q", code, stdout)
	}

	ledgertest.Product(t, c.books, fig, 5)
	signing := append(environ, "HANJUL_KEY_COMMAND_FILE="+w.keys.Command)
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"redrive", ids[early], "--operator", "kim", "--request-id", "again-1"}, 0, "redriven, on its way to the judge; request id again-1"},
		{[]string{"redrive", ids[early], "--operator", "kim", "--request-id", "again-1"}, 0, "(done before)"},
		{[]string{"redrive", ids[early], "--operator", "lee", "--request-id", "again-1"}, 1, "request id was used for another call"},
		{[]string{"redrive", ids[""]}, 1, "never verified"},
		{[]string{"redrive", "99"}, 1, "no such dead letter"},
		{[]string{"drop", "--request-id", "give-up-1", ids[broken], "--json"}, 0, `"command_id":"give-up-1"`},
		{[]string{"drop", ids[""]}, 0, "dropped; request id"},
		{[]string{"drop", ids[""]}, 1, "only a parked dead letter has a way out"},
	} {
		code, stdout, stderr := call(t, signing, append([]string{"dead-letters"}, step.args...)...)
		if code != step.code || !strings.Contains(stdout+stderr, step.says) {
			t.Errorf("%v = %d, %s%s", step.args, code, stdout, stderr)
		}
	}
	c.untilStatus(early, order.StateConfirmed, "")
	c.untilStatus(broken, order.StateRejected, order.ReasonFailed)
	if code, _, stderr := call(t, environ, "dead-letters", "redrive", ids[early]); code != 1 || !strings.Contains(stderr, "has its verdict") {
		t.Errorf("redrive of what was judged = %d, %s", code, stderr)
	}
	if code, stdout, stderr := call(t, environ, "dead-letters", "list"); code != 0 || strings.Count(stdout, "\n") != 1 {
		t.Errorf("nothing is parked any more: %d, %s%s", code, stdout, stderr)
	}

	looking := append(environ, "HANJUL_REDIS_ADDRS="+strings.Join(w.redis.Addrs, ","), "HANJUL_KEY_PREFIX="+w.redis.Prefix)
	until(t, "published", func() error {
		code, stdout, stderr := call(t, looking, "orders", "show", string(broken))
		for _, text := range []string{"rejected (failed), version 1", "user         ben", "hanjul.order.rejected, 5 left, published", "dropped (invalid)", "rejected (failed), version 2", "intent       none"} {
			if code != 0 || !strings.Contains(strings.ReplaceAll(stdout, "3 left", "5 left"), text) {
				return fmt.Errorf("%q is not in %d:\n%s%s", text, code, stdout, stderr)
			}
		}
		return nil
	})
	var seen orderView
	code, stdout, stderr := call(t, looking, "orders", "show", "--json", string(early))
	if err := json.Unmarshal([]byte(stdout), &seen); code != 0 || err != nil {
		t.Fatal(code, stderr, err)
	}
	if seen.Row == nil || seen.Row.Quantity != 2 || seen.Status == nil || seen.Status.Version != 2 || len(seen.Events) != 1 || seen.Letter.State != "redriven" || seen.Product != fig {
		t.Errorf("%s", stdout)
	}
	nobody, _ := c.place(fig, "nobody", 9, 1)
	if code, _, stderr := call(t, looking, "orders", "show", string(nobody), "--product", "fig"); code != 1 || !strings.Contains(stderr, "nothing is known of it") {
		t.Errorf("show of nothing = %d, %s", code, stderr)
	}
}

func TestOperatorsUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"dead-letters", 2, "Examples:"},
		{"dead-letters -help", 0, "dead-letters redrive ID"},
		{"dead-letters show -help", 0, "Examples:"},
		{"dead-letters burn", 2, `unknown subcommand "burn"`},
		{"dead-letters show", 2, "expected a dead letter's id"},
		{"dead-letters show 1 2", 2, `unexpected argument "2"`},
		{"dead-letters show seven", 2, `got "seven"`},
		{"dead-letters list 7", 2, `unexpected argument "7"`},
		{"dead-letters list --state lost", 2, "expected parked, redriven, dropped or all"},
		{"dead-letters list --limit 0", 2, "expected a number from 1 to 1000"},
		{"dead-letters list", 2, "HANJUL_CONSUMER_POSTGRES_URL: found nothing"},
		{"dead-letters redrive 1 --operator=", 2, "--operator"},
		{"dead-letters drop 1 --operator kim", 2, "HANJUL_CONSUMER_KEY_COMMAND: found nothing"},
		{"orders", 2, "Examples:"},
		{"orders show x", 2, "expected a lower-case UUID"},
		{"orders show 018bcfe5-6800-7a10-8b2c-0d3e5f708192", 2, "HANJUL_CONSUMER_REDIS_ADDRS: found nothing"},
	} {
		code, stdout, stderr := call(t, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s = %d, want %d and %q:\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}
