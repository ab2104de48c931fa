package operator_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/services/admission-scheduler/internal/operator"
)

// rows counts the rows of a table.
func rows(t *testing.T, l *ledger.Ledger, table string) (n int) {
	t.Helper()
	if err := l.Pool().QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// desk is a desk over a real ledger.
func desk(t *testing.T) (operator.Config, *ledger.Ledger) {
	t.Helper()
	l := ledgertest.Open(t)
	return config(t, l), l
}

func TestDeskOnTheLedger(t *testing.T) {
	t.Parallel()

	t.Run("AProductsWholeLife", func(t *testing.T) {
		t.Parallel()
		c, l := desk(t)
		steps := []struct {
			method, path, body string
			status             int
			state              string
			version            float64
		}{
			{"PUT", "/v1/products/p", `{"stock":100,"rate":200}`, 201, "not_open", 1},
			{"POST", "/v1/products/p/resume", ``, 409, "", 0},
			{"POST", "/v1/products/p/pause", ``, 409, "", 0},
			{"POST", "/v1/products/p/open", ``, 200, "open", 2},
			{"POST", "/v1/products/p/open", ``, 200, "open", 2},
			{"PUT", "/v1/products/p", `{"rate":50,"capacity":10}`, 200, "open", 3},
			{"PUT", "/v1/products/p", `{"stock":5}`, 409, "", 0},
			{"POST", "/v1/products/p/pause", `{"reason":"lunch"}`, 200, "paused", 4},
			{"POST", "/v1/products/p/open", ``, 409, "", 0},
			{"POST", "/v1/products/p/resume", ``, 200, "open", 5},
			{"POST", "/v1/products/p/restock", `{"units":-3}`, 202, "open", 5},
			{"GET", "/v1/products/p", ``, 200, "open", 5},
			{"POST", "/v1/products/p/halt", ``, 200, "open", 6},
			{"POST", "/v1/products/p/halt", ``, 200, "open", 6},
			{"POST", "/v1/products/p/unhalt", ``, 200, "open", 7},
			{"POST", "/v1/products/p/queue-off", ``, 200, "open", 8},
			{"POST", "/v1/products/p/queue-off", ``, 200, "open", 8},
			{"PUT", "/v1/products/p", `{"rate":60}`, 200, "open", 9},
			{"POST", "/v1/products/p/queue-on", ``, 200, "open", 10},
			{"POST", "/v1/products/p/close", `{"reason":"night"}`, 200, "closed", 11},
			{"POST", "/v1/products/p/resume", ``, 409, "", 0},
			{"POST", "/v1/products/q/halt", ``, 404, "", 0},
			{"POST", "/v1/products/q/queue-off", ``, 404, "", 0},
			{"GET", "/v1/products/q", ``, 404, "", 0},
			{"POST", "/v1/products/q/open", ``, 404, "", 0},
			{"POST", "/v1/products/q/restock", `{"units":1}`, 404, "", 0},
		}
		done := 0
		for i, step := range steps {
			a := call(t, c, step.method, step.path, step.body, "Idempotency-Key", "step-"+strconv.Itoa(i))
			settings, _ := a.body["settings"].(map[string]any)
			state, _ := settings["state"].(string)
			version, _ := a.body["settings_v"].(float64)
			if diff := cmp.Diff([]any{step.status, step.state, step.version}, []any{a.status, state, version}); diff != "" {
				t.Fatalf("step %d, %s %s: %s\n%v", i, step.method, step.path, diff, a.body)
			}
			if step.method != "GET" && step.status < 300 {
				done++
			}
		}
		// What was refused left no trace; what was done left one each.
		if n := rows(t, l, "operator_actions"); n != done {
			t.Fatalf("%d actions of %d", n, done)
		}
		if n := rows(t, l, "outbox WHERE topic = 'orders' AND seq IS NULL"); n != 2 {
			t.Fatalf("%d commands on their way", n)
		}
	})

	t.Run("TheSameKeyTwiceIsDoneOnce", func(t *testing.T) {
		t.Parallel()
		c, l := desk(t)
		first := call(t, c, "PUT", "/v1/products/p", `{"stock":100}`)
		call(t, c, "POST", "/v1/products/p/open", "", "Idempotency-Key", "k2")
		again := call(t, c, "PUT", "/v1/products/p", ` {"stock" : 100} `)
		if first.status != 201 || again.status != 201 || first.body["repeat"] != false || again.body["repeat"] != true {
			t.Fatal(first, again)
		}
		delete(first.body, "repeat")
		delete(again.body, "repeat")
		if diff := cmp.Diff(first.body, again.body); diff != "" {
			t.Fatal(diff)
		}
		for name, other := range map[string]answer{
			"body":     call(t, c, "PUT", "/v1/products/p", `{"stock":101}`),
			"product":  call(t, c, "PUT", "/v1/products/q", `{"stock":100}`),
			"call":     call(t, c, "POST", "/v1/products/p/open", ""),
			"operator": call(t, c, "PUT", "/v1/products/p", `{"stock":100}`, "Authorization", "Bearer another-long-token"),
		} {
			if other.status != 409 || other.text("type") != "request-reused" {
				t.Fatal("another "+name, other)
			}
		}
		if rows(t, l, "operator_actions") != 2 || rows(t, l, "outbox") != 1 || rows(t, l, "products") != 1 {
			t.Fatal("done twice")
		}
	})

	t.Run("TheSameKeyAtTheSameTime", func(t *testing.T) {
		t.Parallel()
		c, l := desk(t)
		call(t, c, "PUT", "/v1/products/p", "", "Idempotency-Key", "make")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if a := call(t, c, "POST", "/v1/products/p/restock", `{"units":5}`); a.status != 202 || a.text("command_id") != "k1" {
					t.Error(a)
				}
			})
		}
		wg.Wait()
		if rows(t, l, "operator_actions") != 2 || rows(t, l, "outbox") != 1 {
			t.Fatal("done twice")
		}
	})

	t.Run("TheCommandIsSignedAndCarriesTheKeyAsItsID", func(t *testing.T) {
		t.Parallel()
		c, l := desk(t)
		call(t, c, "PUT", "/v1/products/p", `{"stock":100}`)
		var topic, payload string
		if err := l.Pool().QueryRow(t.Context(), "SELECT topic, payload FROM outbox").Scan(&topic, &payload); err != nil {
			t.Fatal(err)
		}
		command, err := order.DecodeCommand([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Verify(ring(t)); err != nil || topic != "orders" || command.ID != "k1" || command.Delta != 100 || command.Kind != order.KindAdjust {
			t.Fatal(topic, command, err)
		}
	})

	// The change, its row in the audit trail and its command are one transaction: where the command cannot be kept, nothing is.
	t.Run("WithoutItsCommandNothingIsChanged", func(t *testing.T) {
		t.Parallel()
		c, l := desk(t)
		call(t, c, "PUT", "/v1/products/p", "", "Idempotency-Key", "make")
		if _, err := l.Pool().Exec(t.Context(), "ALTER TABLE outbox ADD CHECK (topic <> 'orders')"); err != nil {
			t.Fatal(err)
		}
		for _, a := range []answer{
			call(t, c, "PUT", "/v1/products/q", `{"stock":100}`),
			call(t, c, "POST", "/v1/products/p/restock", `{"units":5}`),
		} {
			if a.status != 503 || a.text("type") != "unavailable" || a.header.Get("Retry-After") == "" {
				t.Fatal(a)
			}
		}
		if rows(t, l, "operator_actions") != 1 || rows(t, l, "products") != 1 || rows(t, l, "outbox") != 0 {
			t.Fatal("half was done")
		}
	})

	t.Run("LoweringBelowWhatIsSoldIsJudgedInTheLog", func(t *testing.T) {
		t.Parallel()
		c, l := desk(t)
		ledgertest.Product(t, l, "p", 10)
		a := call(t, c, "POST", "/v1/products/p/restock", `{"units":-11}`)
		if a.status != 202 || a.text("command_id") != "k1" {
			t.Fatal(a)
		}
	})
}
