package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrPooled says that a pooler stands where a session is needed. It does not pass by waiting.
var ErrPooled = errors.New("a connection pooler stands in between, which keeps neither locks nor settings")

// SchemaKey is SQL for a number, int4, that tells the schemas of one database apart, for the keys of advisory locks: those are as wide as the
// database, in which another schema is another installation. It is 0 for public, and NULL, so that no lock is taken, where the search
// path names no schema that exists.
const SchemaKey = `(CASE current_schema() WHEN 'public' THEN 0 ELSE hashtext(current_schema()) END)`

// Session is what a connection for session locks is opened with.
type Session struct {
	Name           string            // application_name
	ConnectTimeout time.Duration     // default 3 s
	Params         map[string]string // settings of the session
}

// SessionConfig is the driver's configuration of a connection to the server itself: for drivers of others, such as database/sql. Whoever
// opens one asks CheckSession.
func (a Address) SessionConfig(s Session) (*pgx.ConnConfig, error) {
	pc, err := a.parse(a.session())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.sessionName(), err)
	}
	c := pc.ConnConfig
	c.ConnectTimeout = or(s.ConnectTimeout, 3*time.Second)
	c.RuntimeParams["application_name"] = or(s.Name, "hanjul")
	maps.Copy(c.RuntimeParams, s.Params)
	if a.Schema != "" {
		c.RuntimeParams["search_path"] = a.Schema
	}
	return c, nil
}

// Connect opens a connection to the server itself, whose session lives as long as it: locks may be held in it. ErrPooled when a pooler stands
// in between. It is the caller's to close.
func Connect(ctx context.Context, a Address, s Session) (*pgx.Conn, error) {
	c, err := a.SessionConfig(s)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, a.Explain(err)
	}
	if err := a.CheckSession(ctx, conn); err != nil {
		_ = conn.Close(ctx) // there is a better error already
		return nil, err
	}
	return conn, nil
}

// CheckSession refuses a connection through a pooler with ErrPooled. A pooler hands out server processes later and to several clients, so it
// must tell each client a number of its own to cancel by, where a server tells that of the process at work.
func (a Address) CheckSession(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return a.Explain(err)
	}
	if pid != conn.PgConn().PID() {
		return a.refusal()
	}
	return nil
}

// Explain names the remedy where an error comes from a pooler that stands at the wrong place; every other one it returns as it is.
func (a Address) Explain(err error) error {
	if unsupported(err) && !errors.Is(err, ErrPooled) {
		return fmt.Errorf("%w: %w", a.refusal(), err)
	}
	return err
}

func (a Address) refusal() error {
	if a.Direct.IsZero() {
		return fmt.Errorf("POSTGRES_URL: %w: set POSTGRES_DIRECT_URL too, to the server itself", ErrPooled)
	}
	return fmt.Errorf("POSTGRES_DIRECT_URL: %w: expected the address of the server itself", ErrPooled)
}

func (a Address) sessionName() string {
	if a.Direct.IsZero() {
		return "POSTGRES_URL"
	}
	return "POSTGRES_DIRECT_URL"
}

// unsupported knows a pooler's refusal of settings at the start of a connection.
func unsupported(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refusal.Code == "08P01" && strings.Contains(refusal.Message, "unsupported startup parameter")
}
