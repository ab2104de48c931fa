package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/postgres"
	"hanjul/pkg/postgres/postgrestest"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func open(t *testing.T, url string, c postgres.Config) *postgres.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.At(url), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func exec(t *testing.T, pool *postgres.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestPoolStatesItsLimits(t *testing.T) {
	t.Parallel()
	pool := open(t, localtest.Postgres(t), postgres.Config{Name: "limits", MaxConns: 3, StatementTimeout: 1500 * time.Millisecond})
	var name, statement, idle string
	err := pool.QueryRow(t.Context(), `SELECT current_setting('application_name'), current_setting('statement_timeout'),
current_setting('idle_in_transaction_session_timeout')`).Scan(&name, &statement, &idle)
	if err != nil || name != "limits" || statement != "1500ms" || idle != "20s" {
		t.Fatal(name, statement, idle, err)
	}
	if n := pool.Stat().MaxConns(); n != 3 {
		t.Fatal(n)
	}
}

// P5: the outcome of a commit whose answer was lost is unknown; the work is done again and finds itself done.
func TestTransactRedoesAnUnknownCommit(t *testing.T) {
	t.Parallel()
	for _, cut := range []postgrestest.Cut{postgrestest.Before, postgrestest.After} {
		t.Run(string(cut), func(t *testing.T) {
			t.Parallel()
			url := localtest.Postgres(t)
			direct := open(t, url, postgres.Config{})
			exec(t, direct, `CREATE TABLE done (id int PRIMARY KEY)`)
			proxy := postgrestest.NewProxy(t, url, cut, 1)
			var seen []bool
			err := postgres.Transact(t.Context(), open(t, proxy.URL, postgres.Config{}), "test", func(ctx context.Context, tx pgx.Tx) error {
				var there bool
				if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM done WHERE id = 1)`).Scan(&there); err != nil {
					return err
				}
				seen = append(seen, there)
				_, err := tx.Exec(ctx, `INSERT INTO done VALUES (1) ON CONFLICT DO NOTHING`)
				return err
			})
			if err != nil || proxy.Cuts() != 1 || len(seen) != 2 || seen[1] != (cut == postgrestest.After) {
				t.Fatalf("%v, %d cuts, second run found the first: %v", err, proxy.Cuts(), seen)
			}
		})
	}
}

// P6: two transactions that lock in opposite order both end, one of them after a retry.
func TestTransactRetriesADeadlock(t *testing.T) {
	t.Parallel()
	pool := open(t, localtest.Postgres(t), postgres.Config{})
	exec(t, pool, `CREATE TABLE lamp (id int PRIMARY KEY, n int)`)
	exec(t, pool, `INSERT INTO lamp VALUES (1, 0), (2, 0)`)
	var met, running sync.WaitGroup
	met.Add(2)
	for _, ids := range [][2]int{{1, 2}, {2, 1}} {
		running.Go(func() {
			var once sync.Once
			err := postgres.Transact(t.Context(), pool, "test", func(ctx context.Context, tx pgx.Tx) error {
				for _, id := range ids {
					if _, err := tx.Exec(ctx, `UPDATE lamp SET n = n + 1 WHERE id = $1`, id); err != nil {
						return err
					}
					once.Do(func() { met.Done(); met.Wait() })
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	var sum int
	if err := pool.QueryRow(t.Context(), `SELECT sum(n) FROM lamp`).Scan(&sum); err != nil || sum != 4 {
		t.Fatal(sum, err)
	}
}

// A unique key that another transaction took meanwhile is met by reading again.
func TestTransactReadsAgainAfterAUniqueViolation(t *testing.T) {
	t.Parallel()
	pool := open(t, localtest.Postgres(t), postgres.Config{})
	exec(t, pool, `CREATE TABLE done (id int PRIMARY KEY)`)
	runs := 0
	err := postgres.Transact(t.Context(), pool, "test", func(ctx context.Context, tx pgx.Tx) error {
		runs++
		var there bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM done)`).Scan(&there); err != nil || there {
			return err
		}
		exec(t, pool, `INSERT INTO done VALUES (1)`) // the other transaction
		_, err := tx.Exec(ctx, `INSERT INTO done VALUES (1)`)
		return err
	})
	if err != nil || runs != 2 {
		t.Fatal(runs, err)
	}
}

func TestTransactGivesUpWhereWaitingDoesNotHelp(t *testing.T) {
	t.Parallel()
	pool := open(t, localtest.Postgres(t), postgres.Config{})
	mine := errors.New("mine")
	runs := 0
	err := postgres.Transact(t.Context(), pool, "test", func(context.Context, pgx.Tx) error { runs++; return mine })
	if !errors.Is(err, mine) || errors.Is(err, postgres.ErrTransient) || runs != 1 {
		t.Fatal(runs, err)
	}
	err = postgres.Transact(t.Context(), pool, "test", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT 1/0`)
		return err
	})
	if postgres.State(err) != "22012" || errors.Is(err, postgres.ErrTransient) {
		t.Fatal(err)
	}
}

func TestTransactCallsAnAbsentServerTransient(t *testing.T) {
	t.Parallel()
	pool := open(t, "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable", postgres.Config{})
	err := postgres.Transact(t.Context(), pool, "test", func(context.Context, pgx.Tx) error { return nil })
	if !errors.Is(err, postgres.ErrTransient) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = postgres.Transact(ctx, pool, "test", func(context.Context, pgx.Tx) error { return nil })
	if !errors.Is(err, context.Canceled) || errors.Is(err, postgres.ErrTransient) {
		t.Fatal(err)
	}
}

func TestTransient(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"40001": true, "40P01": true, "55P03": true, "57014": true, "57P01": true, "08006": true, "53300": true, "58030": true, "25006": true,
		"23505": false, "23514": false, "22021": false, "42P01": false, "28P01": false, "25P02": false,
	} {
		if got := postgres.Transient(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if postgres.Transient(nil) || postgres.Transient(context.Canceled) || postgres.Transient(errors.New("other")) {
		t.Error("not the server's")
	}
}

// P2: a statement that a connection keeps prepared fails once when its table gets another shape; the work is done again and succeeds.
func TestTransactMeetsAChangedTable(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	pool, other := open(t, url, postgres.Config{MaxConns: 1}), open(t, url, postgres.Config{})
	exec(t, other, `CREATE TABLE lamp (id int PRIMARY KEY)`)
	exec(t, other, `INSERT INTO lamp VALUES (1)`)
	runs := 0
	columns := func() (n int) {
		t.Helper()
		runs = 0
		err := postgres.Transact(t.Context(), pool, "test", func(ctx context.Context, tx pgx.Tx) error {
			runs++
			rows, err := tx.Query(ctx, `SELECT * FROM lamp`)
			if err != nil {
				return err
			}
			n = len(rows.FieldDescriptions())
			_, err = pgx.CollectRows(rows, pgx.RowToMap)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := columns(); n != 1 || runs != 1 {
		t.Fatal(n, runs)
	}
	exec(t, other, `ALTER TABLE lamp ADD COLUMN colour text`)
	if n := columns(); n != 2 || runs != 2 {
		t.Fatalf("%d columns after %d runs, want 2 after a failed one and its repeat", n, runs)
	}
}

// P7: whatever way the work ends, its connection is given back: the pool has only one, and every case takes it.
func TestTransactGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	pool := open(t, localtest.Postgres(t), postgres.Config{MaxConns: 1})
	mine := errors.New("mine")
	unread := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Query(ctx, `SELECT generate_series(1, 100000)`) //nolint:sqlclosecheck // that is the fault
		return err
	}
	for name, work := range map[string]func(context.Context, context.CancelFunc, pgx.Tx) error{
		"an error": func(context.Context, context.CancelFunc, pgx.Tx) error { return mine },
		"a statement refused": func(ctx context.Context, _ context.CancelFunc, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		},
		"rows left open": func(ctx context.Context, _ context.CancelFunc, tx pgx.Tx) error { return unread(ctx, tx) },
		"an error, rows open": func(ctx context.Context, _ context.CancelFunc, tx pgx.Tx) error {
			return errors.Join(mine, unread(ctx, tx))
		},
		"a context that ended": func(ctx context.Context, end context.CancelFunc, tx pgx.Tx) error {
			end()
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		},
		"all well": func(ctx context.Context, _ context.CancelFunc, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		_ = postgres.Transact(ctx, pool, name, func(ctx context.Context, tx pgx.Tx) error { return work(ctx, cancel, tx) })
		cancel()
		patient, end := context.WithTimeout(t.Context(), time.Minute)
		if err := pool.Ping(patient); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		end()
	}
}
