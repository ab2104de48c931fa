package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
)

// A table that was analyzed while it held a handful of rows tempts the planner to scan it, and a kept plan would do so for each order
// of each batch however long the table has become. The judge reads by index from the first order on.
func TestJudgeNeverScansTheOrders(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 1000)
	scans := func() (n int) {
		t.Helper()
		err := l.Pool().QueryRow(t.Context(), `SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'orders'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	next := int64(0)
	round := func() {
		inputs := make([]ledger.Input, 20)
		for i := range inputs {
			next++
			inputs[i] = place(t, "p", fmt.Sprint("u", next), next, 1)
			inputs[i].Command.IdempotencyKey = strings.Repeat("k", i%2)
		}
		judge(t, l, batch(inputs...))
		// Otherwise a session tells its counters once a second.
		if _, err := l.Pool().Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			t.Fatal(err)
		}
	}
	round()
	if _, err := l.Pool().Exec(t.Context(), `ANALYZE orders`); err != nil {
		t.Fatal(err)
	}
	before := scans()
	for range 10 {
		round()
	}
	if after := scans(); after != before {
		t.Fatalf("%d scans of all orders", after-before)
	}
}
