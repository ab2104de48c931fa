package ledger_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/postgres"
)

// Everything is in the schema that was named, and nothing elsewhere; several who migrate at once meet on a lock of that schema.
func TestMigrateKeepsToItsSchema(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	var at []postgres.Address
	for _, schema := range []string{"staging", "production", "staging", "production"} {
		a := postgres.At(url)
		a.Schema = schema
		at = append(at, a)
	}
	at[1].Direct = config.NewSecret(url + "&application_name=another")
	var running sync.WaitGroup
	for _, a := range at {
		running.Go(func() {
			if version, err := ledger.Migrate(t.Context(), a); err != nil || version < 1 {
				t.Error(a.Schema, version, err)
			}
		})
	}
	running.Wait()
	for _, a := range at[:2] {
		l := ledgertest.OpenAddress(t, a)
		if err := l.CheckSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		ledgertest.Product(t, l, "p", 10)
	}
	var elsewhere string
	err := ledgertest.OpenAt(t, url).Pool().QueryRow(t.Context(), `
SELECT coalesce(string_agg(relname, ' '), '') FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname NOT IN ('staging', 'production', 'pg_catalog', 'information_schema') AND nspname NOT LIKE 'pg_toast%'`).Scan(&elsewhere)
	if err != nil || elsewhere != "" {
		t.Fatal(elsewhere, err)
	}
}

// Whatever is not as it must be is named, with what to do about it.
func TestCheckSchemaNamesTheRemedy(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	a := postgres.At(url)
	a.Schema = "mine"
	l := ledgertest.OpenAddress(t, a)
	exec := func(sql string) {
		t.Helper()
		if _, err := l.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		err := l.CheckSchema(t.Context())
		if len(want) == 0 && err != nil || len(want) > 0 && (!errors.Is(err, ledger.ErrSchema) || errors.Is(err, ledger.ErrTransient)) {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v lacks %q", err, part)
			}
		}
	}
	check("schema mine has no tables of the ledger", "run `order-consumer migrate`")
	if _, err := ledger.Migrate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	check()
	exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)`)
	check()
	exec(`COMMENT ON TABLE goose_db_version IS 'oldest build: 998'`)
	check("schema mine has version 999", "less than version 998", "run a newer build")
	exec(`COMMENT ON TABLE goose_db_version IS NULL`)
	exec(`DELETE FROM goose_db_version WHERE version_id > 2`)
	check("schema mine has version 2, needed ", "run `order-consumer migrate`")

	locked := ledgertest.OpenAt(t, url+"&default_transaction_read_only=on")
	if err := locked.CheckSchema(t.Context()); !errors.Is(err, postgres.ErrReadOnly) || !errors.Is(err, ledger.ErrTransient) {
		t.Fatal(err)
	}
}
