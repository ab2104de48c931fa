package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestPeople puts people out of a line from the terminal and lets them in again, and what an operator gets wrong on the way.
func TestPeople(t *testing.T) {
	t.Parallel()
	environ := desk(t)
	if code, _, faults := ask(environ, "create demo --stock 5"); code != 0 {
		t.Fatal(faults)
	}
	until := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	for _, step := range []struct {
		typed []string
		code  int
		said  []string
	}{
		{[]string{"evict", "demo", "김 서연", "--for", "24h", "--reason", "a bot", "--request-id", "bot-1"}, 0, []string{"MAY JOIN", "김 서연", "from 20", "bot-1", "now"}},
		{[]string{"evict", "demo", "김 서연", "--for", "24h", "--reason", "a bot", "--request-id", "bot-1"}, 0, []string{"from 20", "before"}},
		{[]string{"evict", "demo", "김 서연", "--for", "25h", "--request-id", "bot-1"}, 1, []string{"request-reused (409)"}},
		{[]string{"evict", "--until", until, "demo", "b"}, 0, []string{"from " + until}},
		{[]string{"evict", "demo", "c", "--for", "90m", "--json"}, 0, []string{`"banned_until":"20`}},
		{[]string{"evict", "demo", "c", "--for", "900000h"}, 1, []string{"invalid-field (422)", "for_ms"}},
		{[]string{"evict", "demo", "c", "--until", "2001-01-31T12:00:00Z"}, 1, []string{"invalid-field (422)"}},
		{[]string{"unban", "demo", "b"}, 0, []string{"MAY JOIN", "b", "now"}},
		{[]string{"unban", "demo", "never-here", "--json"}, 0, []string{`"product":"demo"`}},
		{[]string{"evict", "other", "a", "--for", "1h"}, 1, []string{"unknown-product (404)"}},
		{[]string{"unban", "other", "a"}, 1, []string{"unknown-product (404)"}},
		// Nothing is asked.
		{nil, 2, []string{"Examples:", "people: expected a subcommand"}},
		{[]string{"-h"}, 0, []string{"Examples:"}},
		{[]string{"evict", "-h"}, 0, []string{"Examples:", "-for", "-until", "-reason", "-request-id", "-json"}},
		{[]string{"expel", "demo", "a"}, 2, []string{`unknown subcommand "expel"`}},
		{[]string{"evict"}, 2, []string{"people evict: expected a product"}},
		{[]string{"evict", "demo", "--for", "1h"}, 2, []string{"people evict: expected a user"}},
		{[]string{"evict", "demo", "a", "b", "--for", "1h"}, 2, []string{`unexpected argument "b"`}},
		{[]string{"evict", "demo", "a"}, 2, []string{"expected one of --for and --until"}},
		{[]string{"evict", "demo", "a", "--for", "1h", "--until", until}, 2, []string{"expected one of --for and --until"}},
		{[]string{"evict", "demo", "a", "--for", "-1h"}, 2, []string{"--for: expected a time"}},
		{[]string{"evict", "demo", "a", "--for", "soon"}, 2, []string{`"soon"`}},
		{[]string{"evict", "demo", "a", "--until", "tomorrow"}, 2, []string{"--until: expected a time such as 2030-01-31T12:00:00Z"}},
		{[]string{"evict", "a/b", "a\nb", "--for", "1h"}, 2, []string{"product", "user"}},
		{[]string{"unban", "demo", "a", "--reason", "sorry"}, 2, []string{"-reason"}},
	} {
		code, out, faults := askAs(environ, "people", step.typed...)
		if code != step.code || code == 2 && out != "" {
			t.Fatalf("%q: code %d, expected %d:\n%s%s", step.typed, code, step.code, out, faults)
		}
		for _, part := range step.said {
			if !strings.Contains(out+faults, part) {
				t.Fatalf("%q: expected %q in:\n%s%s", step.typed, part, out, faults)
			}
		}
		if code == 0 && strings.Contains(strings.Join(step.typed, " "), "--json") && !json.Valid([]byte(out)) {
			t.Fatalf("%q: no JSON document: %s", step.typed, out)
		}
		if strings.Contains(out+faults, annas) {
			t.Fatalf("%q: the token is shown", step.typed)
		}
	}
}
