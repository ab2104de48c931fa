package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"hanjul/migrations"
	"hanjul/pkg/postgres"
)

// Migrate brings the schema to this build's version, under a session lock of Postgres, so that any number of processes may
// call it at once. It goes to the server itself, and makes the schema that the address names where it is not there yet. Safe to repeat. It
// returns the version it left.
func Migrate(ctx context.Context, a postgres.Address) (int64, error) {
	const op = "migrate ledger"
	lockID, err := prepare(ctx, a)
	if err != nil {
		return 0, classify(op, err)
	}
	config, err := a.SessionConfig(postgres.Session{Name: "hanjul-migrate"})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(a.CheckSession))
	defer func() { _ = db.Close() }()
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return 0, classify(op, err)
	}
	version, err := provider.GetDBVersion(ctx)
	return version, classify(op, err)
}

// prepare looks at what is to be migrated, makes the schema, and returns the key of its lock.
func prepare(ctx context.Context, a postgres.Address) (lockID int64, err error) {
	conn, err := postgres.Connect(ctx, a, postgres.Session{Name: "hanjul-migrate"})
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	server, err := postgres.Look(ctx, conn)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(server.Check(), checkEncoding(server.Encoding)); err != nil {
		return 0, err
	}
	if server.Schema == "" && a.Schema == "" {
		return 0, fmt.Errorf("%w: the search path names no schema that exists: set POSTGRES_SCHEMA", ErrSchema)
	}
	if server.Schema == "" {
		_, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{a.Schema}.Sanitize())
		switch postgres.State(err) {
		case "42501":
			return 0, fmt.Errorf("%w: schema %s is not there, and this role may not make it: CREATE SCHEMA %s AUTHORIZATION %s: %w",
				ErrSchema, a.Schema, a.Schema, conn.Config().User, err)
		case "23505", "42P06": // another process made it at the same moment
			err = nil
		}
		if err != nil {
			return 0, err
		}
	}
	err = conn.QueryRow(ctx, "SELECT $1::bigint # "+postgres.SchemaKey, lock.DefaultLockID).Scan(&lockID)
	return lockID, err
}

// CheckSchema refuses a server that is too old (postgres.ErrVersion) or read-only (postgres.ErrReadOnly, which passes by waiting), a database
// whose encoding is not UTF8, and a schema that is older than this build, or so new that this build may not work on it any more (ErrSchema; the
// text names the remedy). Other newer schemas pass: migrations add before they remove.
func (l *Ledger) CheckSchema(ctx context.Context) error {
	const op = "check ledger's schema"
	server, err := postgres.Look(ctx, l.pool)
	if err != nil {
		return classify(op, err)
	}
	if err := errors.Join(server.Check(), checkEncoding(server.Encoding)); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	want, err := newest(migrations.FS)
	if err != nil {
		return err
	}
	where := cmp.Or(l.pool.Address().Schema, server.Schema, "(none)")
	var have, oldest int64
	err = l.pool.QueryRow(ctx, `
SELECT coalesce(max(version_id), 0), coalesce(substring(obj_description('goose_db_version'::regclass) FROM '^oldest build: ([0-9]{1,9})')::bigint, 0)
FROM goose_db_version WHERE is_applied`).Scan(&have, &oldest)
	if postgres.State(err) == "42501" {
		return fmt.Errorf("%w: this role may not read schema %s: grant it what docs/deploy.md says of the role that runs: %w", ErrSchema, where, err)
	}
	if err != nil && postgres.State(err) != "42P01" { // no such table: nothing was ever applied
		return classify(op, err)
	}
	switch {
	case have == 0:
		return fmt.Errorf("%w: schema %s has no tables of the ledger, needed version %d: run `order-consumer migrate`", ErrSchema, where, want)
	case have < want:
		return fmt.Errorf("%w: schema %s has version %d, needed %d: run `order-consumer migrate`", ErrSchema, where, have, want)
	case oldest > want:
		return fmt.Errorf("%w: schema %s has version %d, on which builds that know less than version %d may not run, and this one knows %d: run a newer build",
			ErrSchema, where, have, oldest, want)
	}
	return nil
}

// checkEncoding: user ids are UTF-8 and must be storable, or one order would hold up its partition.
func checkEncoding(encoding string) error {
	if encoding != "UTF8" {
		return fmt.Errorf("%w: encoding %s, needed UTF8: create the database with ENCODING 'UTF8'", ErrSchema, encoding)
	}
	return nil
}

// newest is the highest number among the migrations' names.
func newest(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	var highest int64
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("list migrations: %w", err)
		}
		highest = max(highest, n)
	}
	if highest == 0 {
		return 0, errors.New("list migrations: none embedded")
	}
	return highest, nil
}
