package e2e

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/outbox"
	"hanjul/pkg/postgres"
)

// roles are those of deploy/postgres/roles.sql in a fresh database, under names of this test's own.
type roles struct{ admin, migrate, run, schema string }

func makeRoles(t *testing.T) roles {
	t.Helper()
	suffix := "_" + strings.ToLower(rand.Text()[:10])
	r := roles{schema: "hanjul" + suffix}
	t.Cleanup(func() { // behind the database, in which they have rights
		conn := connect(t, strings.Replace(r.admin, "/"+database(t, r.admin), "/postgres", 1))
		for _, role := range []string{"hanjul_migrate", "hanjul_run"} {
			if _, err := conn.Exec(context.Background(), "DROP ROLE IF EXISTS "+role+suffix); err != nil {
				t.Error(err)
			}
		}
	})
	r.admin = localtest.Postgres(t)
	text, err := os.ReadFile(filepath.Join("..", "deploy", "postgres", "roles.sql"))
	if err != nil {
		t.Fatal(err)
	}
	sql := strings.NewReplacer("SCHEMA hanjul", "SCHEMA "+r.schema, "hanjul_migrate", "hanjul_migrate"+suffix, "hanjul_run", "hanjul_run"+suffix).Replace(string(text))
	if _, err := connect(t, r.admin).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	as := func(role string) string {
		address, err := url.Parse(r.admin)
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.User(role + suffix)
		return address.String()
	}
	r.migrate, r.run = as("hanjul_migrate"), as("hanjul_run")
	return r
}

func database(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func user(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.User.Username()
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // it may be closed already, with its database
	return conn
}

// at is the address of the role that runs.
func (r roles) at() postgres.Address {
	a := postgres.At(r.run)
	a.Schema = r.schema
	return a
}

// From a fresh database: one role migrates, and a sale is held under exactly the other one, all of it through PgBouncer in transaction mode but
// what lives in a session.
func TestSaleUnderItsRolesThroughAPooler(t *testing.T) {
	t.Parallel()
	inKafka(t)
	r := makeRoles(t)
	pooler := localtest.PgBouncer(t, local.PgBouncerOptions{Server: r.admin, Users: []string{user(t, r.migrate), user(t, r.run)}})
	owner := postgres.At(pooler.URL(r.migrate))
	owner.Direct, owner.Schema = config.NewSecret(r.migrate), r.schema
	if _, err := ledger.Migrate(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	env := quick()
	env["HANJUL_POSTGRES_URL"], env["HANJUL_POSTGRES_DIRECT_URL"], env["HANJUL_POSTGRES_SCHEMA"] = pooler.URL(r.run), r.run, r.schema
	stack := startIn(t, local.StackOptions{DataDir: localtest.Dir(t), PerService: 2, Env: env})
	report := hold(t, stack, "roles", 60, 20, false, false)
	if again := auditOf(t, stack, "roles", report.Journal); !strings.HasSuffix(again, "audit: ok\n") {
		t.Fatal(again)
	}
	admin := connect(t, r.admin)
	var days, others int
	err := admin.QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE relname ~ '^outbox_[0-9]{8}$'), count(*) FILTER (WHERE pg_get_userbyid(relowner) <> $1)
FROM pg_class WHERE relnamespace = $2::regnamespace`, user(t, r.migrate), r.schema).Scan(&days, &others)
	if err != nil || days < 8 || others != 0 {
		t.Fatalf("%d partitions, %d things that another role owns, %v", days, others, err)
	}
}

// The role that runs can do its work and no more.
func TestRolesCanNoMore(t *testing.T) {
	t.Parallel()
	r := makeRoles(t)
	owner := postgres.At(r.migrate)
	owner.Schema = r.schema
	if _, err := ledger.Migrate(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	// A second time, as a start script does it under the role that runs: there is nothing to do.
	if _, err := ledger.Migrate(t.Context(), r.at()); err != nil {
		t.Fatal(err)
	}
	box, err := outbox.Open(t.Context(), r.at())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	if err := box.CheckDirect(t.Context()); err != nil {
		t.Fatal(err)
	}
	runner := connect(t, r.run+"&search_path="+r.schema)
	// A table of the caller's own that has the name of ours: the functions do not look at it.
	for _, sql := range []string{`CREATE TEMP TABLE outbox (created_at timestamptz) PARTITION BY RANGE (created_at)`, `CREATE TEMP TABLE outbox_runs ()`} {
		if _, err := runner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	today := time.Now().UTC()
	var made bool
	if err := runner.QueryRow(t.Context(), `SELECT outbox_make_partition($1::date)`, today).Scan(&made); err != nil || !made {
		t.Fatal(made, err)
	}
	if n, err := box.MakePartitions(t.Context(), today, 2); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if dropped, err := box.DropPartitions(t.Context(), today.AddDate(0, 0, 3)); err != nil || len(dropped.Names) != 2 {
		t.Fatal(dropped, err)
	}
	for _, sql := range []string{
		`CREATE TABLE more (id int)`, `DROP TABLE orders`, `ALTER TABLE stock ADD COLUMN x int`, `TRUNCATE orders`,
		`CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'`, `SET ROLE ` + user(t, r.migrate), `CREATE SCHEMA more`, `CREATE TABLE public.more (id int)`,
		`DROP FUNCTION outbox_make_partition(date)`,
	} {
		if _, err := runner.Exec(t.Context(), sql); postgres.State(err) != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	var super bool
	if err := runner.QueryRow(t.Context(), `SELECT bool_or(rolsuper OR rolcreaterole OR rolcreatedb) FROM pg_roles WHERE rolname = ANY ($1)`,
		[]string{user(t, r.run), user(t, r.migrate)}).Scan(&super); err != nil || super {
		t.Fatal(super, err)
	}
	// Before what is its own was granted, the message says where that is written.
	if _, err := connect(t, r.admin).Exec(t.Context(), `REVOKE SELECT ON `+r.schema+`.goose_db_version FROM `+user(t, r.run)); err != nil {
		t.Fatal(err)
	}
	books, err := ledger.Open(t.Context(), r.at(), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(books.Close)
	if err := books.CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "docs/deploy.md") {
		t.Fatal(err)
	}
}
