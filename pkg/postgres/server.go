package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// oldest is the oldest major version of the server that this is tested with.
const oldest = 15

var (
	// ErrVersion says that the server is too old.
	ErrVersion = errors.New("postgres is too old")
	// ErrReadOnly says that nothing can be written at the address. It is wrapped together with ErrTransient, for a standby that
	// takes over can be written to.
	ErrReadOnly = errors.New("postgres is read-only")
)

// Server is what a connection leads to.
type Server struct {
	Version  int    // as server_version_num tells it: 150004 is 15.4
	Encoding string // of the database
	Schema   string // the first of the search path that exists, "" without one
	Standby  bool
	ReadOnly bool // a transaction is read-only unless it says otherwise
	// Cluster and Database, an oid, tell two databases apart, wherever they are.
	Cluster, Database string
	Name              string // of the database
}

// Look asks where a connection leads.
func Look(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (s Server, err error) {
	err = db.QueryRow(ctx, `
SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), coalesce(current_schema()::text, ''), pg_is_in_recovery(),
  current_setting('default_transaction_read_only')::bool, (SELECT system_identifier::text FROM pg_control_system()),
  (SELECT oid::text FROM pg_database WHERE datname = current_database()), current_database()::text`).
		Scan(&s.Version, &s.Encoding, &s.Schema, &s.Standby, &s.ReadOnly, &s.Cluster, &s.Database, &s.Name)
	return s, err
}

// String names the place.
func (s Server) String() string {
	return fmt.Sprintf("database %s of cluster %s, schema %q", s.Name, s.Cluster, s.Schema)
}

// Check refuses a server that is too old (ErrVersion) or cannot be written to (ErrReadOnly); the text names the remedy.
func (s Server) Check() error {
	switch {
	case s.Version < oldest*10_000:
		return fmt.Errorf("%w: version %d.%d, needed %d or newer", ErrVersion, s.Version/10_000, s.Version%10_000, oldest)
	case s.Standby:
		return fmt.Errorf("%w: %w: it is a hot standby: expected the address of the primary, or those of all servers with target_session_attrs=read-write",
			ErrTransient, ErrReadOnly)
	case s.ReadOnly:
		return fmt.Errorf("%w: %w: default_transaction_read_only is on for this role or database: expected off", ErrTransient, ErrReadOnly)
	}
	return nil
}
