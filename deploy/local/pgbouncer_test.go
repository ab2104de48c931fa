package local_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// The pooler hands out the server's sessions by turns, and is gone when it was stopped.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := localtest.Postgres(t)
	pooler := localtest.PgBouncer(t, local.PgBouncerOptions{Server: server})
	conn, err := pgx.Connect(t.Context(), pooler.URL(server))
	if err != nil {
		t.Fatal(err)
	}
	var inside, outside string
	const question = `SELECT current_database()`
	if err := conn.QueryRow(t.Context(), question, pgx.QueryExecModeSimpleProtocol).Scan(&inside); err != nil {
		t.Fatal(err)
	}
	straight, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if err := straight.QueryRow(t.Context(), question).Scan(&outside); err != nil || inside != outside {
		t.Fatal(inside, outside, err)
	}
	if err := errors.Join(conn.Close(t.Context()), straight.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := pooler.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgx.Connect(t.Context(), pooler.URL(server)); err == nil {
		t.Fatal("it answers after its end")
	}
}
