package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/postgres"
)

// authority writes a certificate, which nothing is signed with, and returns its path.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plan := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, &plan, &plan, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ways are the two in which a pool is opened: sessions of its own, and sessions that change with each transaction.
func ways(url string) map[string]postgres.Address {
	direct := postgres.At(url)
	pooled := postgres.At(url)
	pooled.Direct = config.NewSecret(url + "&application_name=another")
	return map[string]postgres.Address{"direct": direct, "pooled": pooled}
}

// Every statement has the schema and the limits of its pool, whichever way it is run.
func TestPoolHoldsItsLimits(t *testing.T) {
	t.Parallel()
	const question = `SELECT current_setting('statement_timeout') || ' ' || current_setting('idle_in_transaction_session_timeout') || ' ' ||
current_setting('enable_seqscan') || ' ' || current_setting('search_path')`
	const want = "1500ms 7s off apart"
	for name, a := range ways(localtest.Postgres(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a.Schema = "apart"
			pool, err := postgres.Open(t.Context(), a, postgres.Config{
				MaxConns: 2, StatementTimeout: 1500 * time.Millisecond, IdleInTx: 7 * time.Second, Params: map[string]string{"enable_seqscan": "off"},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			check := func(way, found string, err error) {
				t.Helper()
				if err != nil || found != want {
					t.Errorf("%s: %q, %v", way, found, err)
				}
			}
			var found string
			err = pool.QueryRow(t.Context(), question).Scan(&found)
			check("QueryRow", found, err)
			rows, err := pool.Query(t.Context(), question)
			if err != nil {
				t.Fatal(err)
			}
			found, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
			check("Query", found, err)
			for _, o := range []pgx.TxOptions{{}, {IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, {IsoLevel: pgx.Serializable, DeferrableMode: pgx.Deferrable}} {
				var isolation string
				err = pgx.BeginTxFunc(t.Context(), pool, o, func(tx pgx.Tx) error {
					return tx.QueryRow(t.Context(), question+", current_setting('transaction_isolation')").Scan(&found, &isolation)
				})
				check("a transaction", found, err)
				if o.IsoLevel != "" && isolation != string(o.IsoLevel) {
					t.Errorf("isolation %s, want %s", isolation, o.IsoLevel)
				}
			}
			if _, err := pool.Exec(t.Context(), `SELECT pg_sleep(30)`); postgres.State(err) != "57014" {
				t.Errorf("a long statement: %v", err)
			}
		})
	}
}

// A pool gives each connection back, and answers as the driver does, whichever way it is opened.
func TestPoolAnswers(t *testing.T) {
	t.Parallel()
	for name, a := range ways(localtest.Postgres(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, err := postgres.Open(t.Context(), a, postgres.Config{MaxConns: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			exec(t, pool, `CREATE TABLE `+name+` (id int PRIMARY KEY)`)
			var n int
			if err := pool.QueryRow(t.Context(), `SELECT id FROM `+name).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
				t.Errorf("no row: %v", err)
			}
			if err := pool.QueryRow(t.Context(), `INSERT INTO `+name+` VALUES ($1) RETURNING id`, 7).Scan(&n); err != nil || n != 7 {
				t.Errorf("a row: %d, %v", n, err)
			}
			var text []int
			if err := pool.QueryRow(t.Context(), `SELECT id FROM `+name).Scan(&text); err == nil {
				t.Error("a number was read as a list")
			}
			if done, err := pool.Exec(t.Context(), `UPDATE `+name+` SET id = id + 1`); err != nil || done.RowsAffected() != 1 {
				t.Error(done, err)
			}
			if _, err := pool.Exec(t.Context(), `INSERT INTO `+name+` VALUES (8)`); postgres.State(err) != "23505" {
				t.Errorf("a second 8: %v", err)
			}
			if err := pool.QueryRow(t.Context(), `SELECT 1/0`).Scan(&n); postgres.State(err) != "22012" {
				t.Errorf("a division by 0: %v", err)
			}
			rows, err := pool.Query(t.Context(), `SELECT generate_series(1, 100000)`)
			if err != nil {
				t.Fatal(err)
			}
			rows.Next()
			rows.Close()
			rows.Close()
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM `+name).Scan(&n); err != nil || n != 1 {
				t.Error(n, err)
			}
		})
	}
}
