// Package postgres is the plumbing between our packages that own SQL (ledger, outbox) and the driver: it opens a pool with
// every limit stated, runs a transaction with bounded retries, and says which errors pass by waiting. It owns the begin, the retry and
// the commit of every transaction; it knows no table and no business word.
package postgres

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is what a pool is opened with. Zero values take the defaults given here.
type Config struct {
	Name             string            // application_name, as pg_stat_activity shows it; default "hanjul"
	MaxConns         int               // most connections, default 4; each user of the database has its own pool, so that none starves another
	StatementTimeout time.Duration     // longest statement, waiting for a lock included; default 10 s
	IdleInTx         time.Duration     // a transaction whose process stands still this long is ended, which frees its locks; default 20 s
	ConnectTimeout   time.Duration     // default 3 s
	Params           map[string]string // further settings of every session
}

// Open makes a pool for the address (a URL or a DSN). It does not connect: an error is a fault of the address, never an
// absent server. The limits travel as start-up parameters, which a pooler in between must let pass. The address may carry pgx's own settings, for example default_query_exec_mode=exec behind a pooler that
// cannot keep prepared statements.
func Open(ctx context.Context, url string, c Config) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
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
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	return pool, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func or[T comparable](v, standard T) T {
	var zero T
	if v == zero {
		return standard
	}
	return v
}
