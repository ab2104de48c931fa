package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"hanjul/migrations"
	"hanjul/pkg/postgres"
)

// Migrate brings the schema to this build's version, under a session lock of Postgres, so that any number of processes may
// call it at once. Safe to repeat. It returns the version it left.
func Migrate(ctx context.Context, url string) (int64, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return 0, fmt.Errorf("migrate ledger: %w", err)
	}
	defer func() { _ = db.Close() }()
	var encoding string
	if err := db.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return 0, classify("migrate ledger", err)
	}
	if err := checkEncoding(encoding); err != nil {
		return 0, err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return 0, fmt.Errorf("migrate ledger: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return 0, fmt.Errorf("migrate ledger: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return 0, classify("migrate ledger", err)
	}
	version, err := provider.GetDBVersion(ctx)
	return version, classify("migrate ledger", err)
}

// CheckSchema refuses a database whose schema is older than this build (ErrSchema; the text names the remedy) or whose encoding is not
// UTF8. A newer schema passes: migrations add before they remove.
func (l *Ledger) CheckSchema(ctx context.Context) error {
	const op = "check ledger's schema"
	var encoding string
	if err := l.pool.QueryRow(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return classify(op, err)
	}
	if err := checkEncoding(encoding); err != nil {
		return err
	}
	want, err := newest(migrations.FS)
	if err != nil {
		return err
	}
	var have int64
	err = l.pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&have)
	if err != nil && postgres.State(err) != "42P01" { // no such table: nothing was ever applied
		return classify(op, err)
	}
	if have < want {
		return fmt.Errorf("%w: version %d, needed %d: run `order-consumer migrate`", ErrSchema, have, want)
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
