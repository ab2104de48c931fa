// Package postgres is the plumbing between our packages that own SQL (ledger, outbox) and the driver: it reads where the database is, opens
// pools with every limit stated, and connections whose session holds locks, runs a transaction with bounded retries, and says which errors
// pass by waiting. It owns the begin, the retry and the commit of every transaction; it knows no table and no business word.
package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is what a pool is opened with. Zero values take the defaults given here.
type Config struct {
	Name             string            // application_name, as pg_stat_activity shows it; default "hanjul"
	MaxConns         int               // most connections, default 4; each user of the database has its own pool, so that none starves another
	StatementTimeout time.Duration     // longest statement, waiting for a lock included; default 10 s
	IdleInTx         time.Duration     // a transaction whose process stands still this long is ended, which frees its locks; default 20 s
	ConnectTimeout   time.Duration     // default 3 s
	Params           map[string]string // further settings
}

// Pool is a pool of connections in which every statement has the limits and the schema that it was opened with. Safe for concurrent use.
type Pool struct {
	pool    *pgxpool.Pool
	address Address
	local   string // statements that set them for one transaction; "" where each session has them from its start
}

// Open makes a pool for the address. It does not connect: an error is a fault of the address, never an absent server. Where the address
// leads to the server itself, schema and limits are start-up parameters of each session. Where it leads through a pooler,
// which refuses or drops those and gives each transaction another session, they are set at the begin of each transaction, a statement alone
// is one too, and nothing is prepared by name.
func Open(ctx context.Context, a Address, c Config) (*Pool, error) {
	pc, err := a.parse(a.URL)
	if err != nil {
		return nil, fmt.Errorf("open postgres: POSTGRES_URL: %w", err)
	}
	pc.MaxConns = int32(or(c.MaxConns, 4))
	pc.MinConns = 0
	pc.MaxConnLifetime = 30 * time.Minute
	pc.MaxConnLifetimeJitter = 5 * time.Minute
	pc.MaxConnIdleTime = 5 * time.Minute
	pc.HealthCheckPeriod = 30 * time.Second
	pc.ConnConfig.ConnectTimeout = or(c.ConnectTimeout, 3*time.Second)
	params := pc.ConnConfig.RuntimeParams
	params["application_name"] = or(c.Name, "hanjul")
	params["statement_timeout"] = milliseconds(or(c.StatementTimeout, 10*time.Second))
	params["idle_in_transaction_session_timeout"] = milliseconds(or(c.IdleInTx, 20*time.Second))
	maps.Copy(params, c.Params)
	if a.Schema != "" {
		params["search_path"] = a.Schema
	}
	p := &Pool{address: a}
	if a.pooled() {
		p.local = localize(params)
		if pc.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
	} else {
		pc.AfterConnect = a.CheckSession
	}
	if p.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	return p, nil
}

// localize takes the parameters that no pooler carries out of the start-up and makes statements of them. set_config would do the same with
// parameters, but at the cost of a round trip.
func localize(params map[string]string) string {
	// These a pooler carries from session to session. What stands in options is the server's command line; nothing but the start-up can carry it.
	stay := []string{"application_name", "client_encoding", "datestyle", "timezone", "standard_conforming_strings", "options"}
	var local strings.Builder
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(stay, strings.ToLower(name)) {
			continue
		}
		value := "'" + strings.ReplaceAll(params[name], "'", "''") + "'"
		if name == "search_path" { // a list of names
			value = params[name]
		}
		fmt.Fprintf(&local, "; SET LOCAL %s = %s", name, value)
		delete(params, name)
	}
	return local.String()
}

// Begin starts a transaction with the server's default isolation.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx starts a transaction. Its connection goes back with its end.
func (p *Pool) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	if p.local != "" {
		// In one message, so that it costs nothing.
		words := []string{"BEGIN"}
		if o.IsoLevel != "" {
			words = append(words, "ISOLATION LEVEL", string(o.IsoLevel))
		}
		o.BeginQuery = strings.Join(append(words, string(o.AccessMode), string(o.DeferrableMode)), " ") + p.local
	}
	tx, err := p.pool.BeginTx(ctx, o)
	return tx, p.address.Explain(err)
}

// Query runs a statement that answers rows. Close them, or read them to their end; only then is their Err complete.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if p.local == "" {
		rows, err := p.pool.Query(ctx, sql, args...)
		return rows, p.address.Explain(err)
	}
	tx, err := p.Begin(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // nothing was done
		return nil, err
	}
	return &txRows{Rows: rows, ctx: ctx, tx: tx}, nil
}

// QueryRow runs a statement that answers one row.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return &oneRow{rows: rows, err: err}
}

// Exec runs a statement that answers none.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (done pgconn.CommandTag, err error) {
	if p.local == "" {
		done, err = p.pool.Exec(ctx, sql, args...)
		return done, p.address.Explain(err)
	}
	err = pgx.BeginFunc(ctx, p, func(tx pgx.Tx) (err error) {
		done, err = tx.Exec(ctx, sql, args...)
		return err
	})
	return done, err
}

// Ping says whether the server answers.
func (p *Pool) Ping(ctx context.Context) error { return p.address.Explain(p.pool.Ping(ctx)) }

// Address is what the pool was opened with.
func (p *Pool) Address() Address { return p.address }

// Stat counts the connections.
func (p *Pool) Stat() *pgxpool.Stat { return p.pool.Stat() }

// Close ends every connection; it waits for those in use.
func (p *Pool) Close() { p.pool.Close() }

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func or[T comparable](v, standard T) T {
	var zero T
	if v == zero {
		return standard
	}
	return v
}
