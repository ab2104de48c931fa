package ledger_test

import (
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"hanjul/migrations"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/postgres"
)

// Migration 4 notes by run what was noted by row. An event that waits must wait on both sides of it, or nobody publishes it (I9).
func TestMigrateKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(query string) (found string) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), query).Scan(&found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	const (
		byRow = `SELECT coalesce(string_agg(product_id || seq, ' ' ORDER BY product_id, seq), '') FROM outbox WHERE published_at IS NULL AND seq IS NOT NULL`
		byRun = `SELECT coalesce(string_agg(product_id || from_seq || '-' || to_seq, ' ' ORDER BY product_id, from_seq), '') FROM outbox_runs`
	)
	down := func() {
		t.Helper()
		provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS)
		if err == nil {
			_, err = provider.DownTo(t.Context(), 3)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	down()
	// Of a, one transaction's events 1 to 3 are published up to 2, and 4 to 5 wait; of b all are published. A command waits too.
	exec(`INSERT INTO outbox (id, created_at, topic, product_id, seq, aggregatetype, aggregateid, type, payload, published_at)
SELECT gen_random_uuid(), now() + at * interval '1 s', 'order-events', p, seq, 'product', p, 'x', '{}', CASE WHEN told THEN now() END
FROM (VALUES ('a', 1, 0, true), ('a', 2, 0, true), ('a', 3, 0, false), ('a', 4, 1, false), ('a', 5, 1, false), ('b', 1, 0, true), ('a', NULL, 2, false))
  AS r (p, seq, at, told)`)
	if _, err := ledger.Migrate(t.Context(), postgres.At(url)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a3-3 a4-5", waiting(byRun)); diff != "" {
		t.Errorf("after the way up (-want +got):\n%s", diff)
	}
	exec(`DELETE FROM outbox_runs WHERE from_seq = 3`) // published meanwhile
	down()
	if diff := cmp.Diff("a4 a5", waiting(byRow)); diff != "" {
		t.Errorf("after the way down (-want +got):\n%s", diff)
	}
}
