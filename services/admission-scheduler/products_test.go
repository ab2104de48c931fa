package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/product"
	"hanjul/services/admission-scheduler/internal/operator"
)

const annas = "correct-horse-battery"

// desk serves the operators' desk over a ledger of the test's own, and returns the environment of an operator who knows it.
func desk(t *testing.T) []string {
	t.Helper()
	tokens, err := operator.ParseTokens("anna:" + annas)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyring.Parse(keyLine())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(operator.New(slog.New(slog.DiscardHandler), operator.Config{
		Tokens: tokens, Commands: key, Users: key, Ledger: ledgertest.Open(t), PassMin: 102 * time.Second,
		Live: func(context.Context, product.ID) (operator.Numbers, error) {
			return operator.Numbers{}, errors.New("away")
		},
	}).Handler())
	t.Cleanup(server.Close)
	return []string{"HANJUL_OPERATOR_URL=" + server.URL, "HANJUL_OPERATOR_TOKEN=" + annas}
}

// ask runs one subcommand of products as typed.
func ask(environ []string, typed string) (code int, stdout, stderr string) {
	return askAs(environ, "products", strings.Fields(typed)...)
}

// askAs runs a subcommand, as typed word by word.
func askAs(environ []string, name string, words ...string) (code int, stdout, stderr string) {
	var out, faults bytes.Buffer
	code = run(append([]string{name}, words...), environ, &out, &faults)
	return code, out.String(), faults.String()
}

// TestProducts runs a sale from the terminal, and what an operator gets wrong on the way.
func TestProducts(t *testing.T) {
	t.Parallel()
	environ := desk(t)
	for _, step := range []struct {
		typed string
		code  int
		said  []string // on the one side or the other
	}{
		{"list", 0, []string{"PRODUCT  STATE"}},
		{"create demo --stock 500 rate=20 capacity=50", 0, []string{"demo is not_open; its settings have version 1; the units follow as command "}},
		{"create demo --stock 500", 1, []string{"product-exists (409)", "stock: "}},
		{"show demo", 0, []string{"not_open", "rate", "20", "redis does not answer"}},
		{"open demo", 0, []string{"demo is open; its settings have version 2"}},
		{"set rate=40 demo", 2, []string{"product"}},
		{"set demo rate=40", 0, []string{"demo is open; its settings have version 3"}},
		{"show --json demo", 0, []string{`"rate":40`, `"capacity":50`, `"burst":2`}}, // the others are kept
		{"halt demo --if-version 2", 1, []string{"version-conflict (409)", "If-Match"}},
		{"halt demo --if-version 3 --request-id till-1", 0, []string{"demo is open, orders halted; its settings have version 4"}},
		{"halt demo --if-version 3 --request-id till-1", 0, []string{"version 4 (done before)"}},
		{"set demo user_limit=2", 0, []string{"demo is open, orders halted; its settings have version 5"}},
		{"queue-off demo --if-version 5", 0, []string{"demo is open, queue off, orders halted; its settings have version 6"}},
		{"unhalt demo", 0, []string{"demo is open, queue off; its settings have version 7"}},
		{"set demo user_limit=3", 0, []string{"demo is open, queue off; its settings have version 8"}}, // which the others keep
		{"set demo queue_on=true", 1, []string{"invalid-field (422)", "queue_on: "}},
		{"queue-on demo", 0, []string{"demo is open; its settings have version 9"}},
		{"revoke-passes demo --reason leaked --if-version 9", 0, []string{"demo is open; its settings have version 10"}},
		{"revoke-passes demo --if-version 9", 1, []string{"version-conflict (409)"}},
		{"pause demo --reason lunch", 0, []string{"demo is paused"}},
		{"list --json", 0, []string{`"reason":"lunch"`, `"next":null`}},
		{"resume demo", 0, []string{"demo is open"}},
		{"restock demo --units -20 --json", 0, []string{`"command_id":"`}},
		{"set demo rate=0 capacity=-1", 1, []string{"invalid-field (422)", "rate: ", "capacity: "}},
		{"set demo rat=5", 1, []string{"invalid-field (422)", "rat: "}},
		{"pause other", 1, []string{"unknown-product (404)"}},
		{"close demo", 2, []string{"--yes"}},
		{"close demo --yes --reason night", 0, []string{"demo is closed"}},
		{"open demo", 1, []string{"closed (409)"}},
		{"create second --stock 1", 0, []string{"second is not_open"}},
		{"list --limit 1", 0, []string{"demo", "closed", "there may be more: --after demo"}},
		{"list --after demo", 0, []string{"second", "not_open"}},
		{"list --limit 0", 1, []string{"limit: "}},
	} {
		code, out, faults := ask(environ, step.typed)
		if code != step.code {
			t.Fatalf("%s: code %d, expected %d:\n%s%s", step.typed, code, step.code, out, faults)
		}
		for _, part := range step.said {
			if !strings.Contains(out+faults, part) {
				t.Fatalf("%s: expected %q in:\n%s%s", step.typed, part, out, faults)
			}
		}
		if code == 0 && strings.Contains(step.typed, "--json") && !json.Valid([]byte(out)) {
			t.Fatalf("%s: no JSON document: %s", step.typed, out)
		}
		if strings.Contains(out+faults, annas) {
			t.Fatalf("%s: the token is shown", step.typed)
		}
	}
}

func TestProductsMistyped(t *testing.T) {
	t.Parallel()
	environ := []string{"HANJUL_OPERATOR_URL=http://127.0.0.1:1", "HANJUL_OPERATOR_TOKEN=" + annas}
	for typed, said := range map[string]string{
		"": "Examples:", "-help": "Examples:", "pause -help": "-reason", "halts demo": `unknown subcommand "halts"`, "show": "expected a product",
		"show a/b": "product", "show demo more": `unexpected argument "more"`, "list demo": `unexpected argument "demo"`, "set demo": "NAME=VALUE",
		"set demo rate": "NAME=VALUE", "set demo rate=fast": "NAME=VALUE", "create demo": "--stock", "create demo --stock 0": "--stock",
		"restock demo": "--units", "open demo --reason x": "-reason",
	} {
		code, out, faults := ask(environ, typed)
		if wanted := map[bool]int{true: 0, false: 2}[strings.Contains(typed, "-help")]; code != wanted || out != "" || !strings.Contains(faults, said) {
			t.Errorf("%q: code %d, expected %d and %q:\n%s%s", typed, code, wanted, said, out, faults)
		}
	}
	for wrong, said := range map[string][]string{
		"no settings":   {"", "HANJUL_SCHEDULER_OPERATOR_TOKEN"},
		"no URL":        {"HANJUL_OPERATOR_URL=localhost:8081", "HANJUL_OPERATOR_URL: expected a URL"},
		"another token": {"HANJUL_OPERATOR_TOKEN_FILE=/nowhere", "HANJUL_OPERATOR_TOKEN"},
	} {
		some := []string{said[0]}
		if strings.Contains(said[0], "URL") {
			some = append(some, environ[1])
		}
		if code, _, faults := ask(some, "list"); code != 2 || !strings.Contains(faults, said[1]) {
			t.Errorf("%s: code %d, expected 2 and %q:\n%s", wrong, code, said[1], faults)
		}
	}
}

// What nobody answered, and what another server answers, is said with the way on.
func TestProductsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	var asked atomic.Value // of the last call
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Idempotency-Key"))
		switch r.URL.Path {
		case "/v1/products/away/open":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"type":"unavailable","title":"The books do not answer"}`))
		case "/v1/products/cut/open":
			panic(http.ErrAbortHandler)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	environ := []string{"HANJUL_OPERATOR_URL=" + server.URL, "HANJUL_OPERATOR_TOKEN=" + annas}
	for typed, said := range map[string]string{
		"open away": "unavailable (503): The books do not answer; it may have been done: ", "open cut": "it may have been done: ", "show demo": "no desk's",
	} {
		code, out, faults := ask(environ, typed)
		if code != 1 || out != "" || !strings.Contains(faults, said) {
			t.Errorf("%s: code %d: %s%s", typed, code, out, faults)
		}
		if id, _ := asked.Load().(string); strings.HasPrefix(typed, "open") && !strings.Contains(faults, "--request-id "+id+" ") {
			t.Errorf("%s: the request id %q is not told: %s", typed, id, faults)
		}
	}
}
