// Package ledgertest gives tests a ledger on a fresh, migrated database of their own, and short ways to put a product into it. It
// never mocks: the database is a real Postgres.
package ledgertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/migrations"
	"hanjul/pkg/ledger"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// URL is the address of a fresh, migrated database, dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return localtest.PostgresTemplate(t, "ledger "+schema(t), func(url string) error {
		_, err := ledger.Migrate(context.Background(), postgres.At(url))
		return err
	})
}

// Open gives a ledger on a fresh, migrated database; it is closed when the test ends, and must have given back every connection by then.
func Open(t testing.TB) *ledger.Ledger {
	t.Helper()
	return OpenAt(t, URL(t))
}

// OpenAt gives another ledger, with a pool of its own, on an address from URL.
func OpenAt(t testing.TB, url string) *ledger.Ledger {
	t.Helper()
	return OpenAddress(t, postgres.At(url))
}

// OpenAddress is OpenAt with all that an address may say.
func OpenAddress(t testing.TB, a postgres.Address) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), a, ledger.Config{Pool: postgres.Config{Name: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := unreturned(l); n != 0 {
			t.Errorf("%d connections were not given back", n)
			return // Close would wait for them for ever
		}
		l.Close()
	})
	return l
}

// unreturned counts the connections that are still out after a while: the driver ends a broken one in the background.
func unreturned(l *ledger.Ledger) int32 {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if l.Pool().Stat().AcquiredConns() == 0 {
			return 0
		}
		<-tick.C
	}
	return l.Pool().Stat().AcquiredConns()
}

// Product makes a product with that many units on its shelf, as if its first adjust had been judged, and no event. Settings may be
// changed by the functions; its state stays not_open.
func Product(t testing.TB, l *ledger.Ledger, p product.ID, stock int64, change ...func(*product.Settings)) {
	t.Helper()
	settings := product.DefaultSettings()
	for _, f := range change {
		f(&settings)
	}
	a := ledger.Action{RequestID: "make " + string(p), Operator: "test", Product: p}
	if _, err := l.PutProduct(t.Context(), a, settings, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Pool().Exec(t.Context(), `UPDATE stock SET total = $2 WHERE product_id = $1`, string(p), stock); err != nil {
		t.Fatal(err)
	}
}

// schema is a hash over the migrations, so that a changed one is never met by a template of before.
func schema(t testing.TB) string {
	t.Helper()
	sum := sha256.New()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
