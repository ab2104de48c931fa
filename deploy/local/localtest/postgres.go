package localtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
)

// Postgres gives the URL of a fresh, empty database on the shared server. It is
// dropped when the test ends; a failed test logs its name.
func Postgres(t testing.TB) string {
	t.Helper()
	return database(t, postgres(t), "")
}

// PostgresTemplate gives the URL of a fresh copy of a database that build made:
// the first caller on a server runs build on an empty database, everyone after
// that copies the result, over processes too. The name stands for what build
// makes and must change with it: put a hash of the migrations into it.
func PostgresTemplate(t testing.TB, name string, build func(url string) error) string {
	t.Helper()
	server := postgres(t)
	sum := sha256.Sum256([]byte(name))
	template := "template_" + hex.EncodeToString(sum[:8])
	if err := makeTemplate(t.Context(), server, template, build); err != nil {
		t.Fatalf("template database %s: %v", name, err)
	}
	return database(t, server, template)
}

// postgres gives the URL of the shared server's maintenance database.
func postgres(t testing.TB) string {
	t.Helper()
	if given := local.GivenByEnvironment().Postgres; given != "" {
		return given
	}
	server, err := servers.postgres.get(func(ctx context.Context) (*local.Postgres, error) {
		return local.StartPostgres(ctx, local.PostgresOptions{})
	})
	Need(t, err)
	return server.URL("postgres")
}

// database makes a database for one test, empty or as a copy.
func database(t testing.TB, server, template string) string {
	t.Helper()
	name := "test_" + random()
	statement := "CREATE DATABASE " + name
	if template != "" {
		statement += " TEMPLATE " + template
	}
	if err := execute(t.Context(), server, statement); err != nil {
		t.Fatalf("make a database: %v", err)
	}
	made, err := withDatabase(server, name)
	if err != nil {
		t.Fatalf("make a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		if t.Failed() {
			t.Logf("postgres %s (dropped now)", made)
		}
		// FORCE: a pool that a failed test left open must not keep it.
		if err := execute(ctx, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop %s: %v", name, err)
		}
	})
	return made
}

// makeTemplate builds the template once per server: an advisory lock holds the
// other processes back, and the name appears only when the build is complete.
func makeTemplate(ctx context.Context, server, template string, build func(url string) error) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // frees the lock too
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", template); err != nil {
		return fmt.Errorf("wait for the builder: %w", err)
	}
	var made bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", template).Scan(&made); err != nil || made {
		return err
	}
	building := template + "_new"
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+building+" WITH (FORCE)"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+building); err != nil {
		return err
	}
	address, err := withDatabase(server, building)
	if err != nil {
		return err
	}
	if err := build(address); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	// A connection left open by build would forbid renaming and every copy.
	for _, statement := range []string{
		"ALTER DATABASE " + building + " ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + building + "'",
		"ALTER DATABASE " + building + " RENAME TO " + template,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, server, statement string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

// withDatabase gives a server's URL with another database name.
func withDatabase(server, name string) (string, error) {
	address, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("address of postgres: %w", err)
	}
	address.Path = "/" + name
	return address.String(), nil
}
