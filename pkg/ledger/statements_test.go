package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/product"
)

// P3, P8: however many orders a batch has, each table is written by one statement, and a product's stock row, which is what others
// wait for, changes once.
func TestJudgeWritesOncePerBatch(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	products := []product.ID{"a", "b", "c"}
	for _, p := range products {
		ledgertest.Product(t, l, p, 100)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := l.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE written (what text)`)
	exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO written VALUES (TG_OP || ' ' || TG_TABLE_NAME || ' ' || TG_LEVEL); RETURN NULL; END $$`)
	for _, table := range []string{"orders", "outbox", "outbox_runs", "stock"} {
		exec(`CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION note()`)
	}
	exec(`CREATE TRIGGER row AFTER UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION note()`)
	var inputs []ledger.Input
	for i := range 300 {
		inputs = append(inputs, place(t, products[i%3], fmt.Sprint("u", i), int64(i+1), 1))
	}
	judge(t, l, batch(inputs...))
	rows, err := l.Pool().Query(t.Context(), `SELECT what, count(*) FROM written GROUP BY what`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	var what string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&what, &n}, func() error { got[what] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"INSERT orders STATEMENT": 1, "INSERT outbox STATEMENT": 1, "INSERT outbox_runs STATEMENT": 1,
		"UPDATE stock STATEMENT": 1, "UPDATE stock ROW": len(products),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// P2: a migration that adds columns while a consumer judges costs it nothing but a repeat: the statements that its connections keep
// prepared are of the tables as they were.
func TestJudgeMeetsAMigration(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	l, operator := ledgertest.OpenAt(t, url), ledgertest.OpenAt(t, url)
	ledgertest.Product(t, l, "p", 100)
	a, b := place(t, "p", "a", 1, 1), place(t, "p", "b", 2, 1)
	wants(t, judge(t, l, batch(a)), "judged confirmed")
	wants(t, judge(t, l, batch(a, cancel(t, a, "x"))), "known confirmed", "judged cancelled(operator) done")
	for _, table := range []string{"products", "stock", "orders", "commands", "outbox", "outbox_runs", "consumer_progress", "dead_letters"} {
		if _, err := operator.Pool().Exec(t.Context(), `ALTER TABLE `+table+` ADD COLUMN later text DEFAULT 'x'`); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, judge(t, l, batch(a, b, cancel(t, b, "y"))), "known cancelled(operator)", "judged confirmed", "judged cancelled(operator) done")
	checkBooks(t, l, "p")
}

// P2: behind a pooler that keeps no prepared statements for us, the address says so and everything works as before.
func TestJudgeWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	l := ledgertest.OpenAt(t, url)
	ledgertest.Product(t, l, "p", 100)
	a := place(t, "p", "a", 1, 1)
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe"} {
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		through := ledgertest.OpenAt(t, url+separator+"default_query_exec_mode="+mode)
		b := place(t, "p", mode, int64(len(mode)+1), 1)
		judge(t, through, batch(a, b, cancel(t, b, mode)))
		if r := judge(t, through, batch(a)); said(r.Verdicts[0]) != "known confirmed" {
			t.Errorf("%s: %s", mode, said(r.Verdicts[0]))
		}
	}
	checkBooks(t, l, "p")
}
