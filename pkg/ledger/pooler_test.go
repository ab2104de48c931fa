package ledger_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// A pooler without a direct address beside it does not pass by waiting, so the service that meets it ends.
func TestCheckSchemaRefusesAPoolerAlone(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	l := ledgertest.OpenAt(t, localtest.PgBouncer(t, local.PgBouncerOptions{Server: url}).URL(url))
	if err := l.CheckSchema(t.Context()); !errors.Is(err, postgres.ErrPooled) || errors.Is(err, ledger.ErrTransient) {
		t.Fatal(err)
	}
	a := ledger.Action{RequestID: "one", Operator: "test", Product: "p"}
	if _, err := l.PutProduct(t.Context(), a, product.DefaultSettings(), nil); !errors.Is(err, postgres.ErrPooled) || errors.Is(err, ledger.ErrTransient) {
		t.Fatal(err)
	}
}

// Behind a pooler that gives each transaction another session, several products are judged at once, operators act, and books are read.
func TestJudgeThroughAPooler(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	a := postgres.At(localtest.PgBouncer(t, local.PgBouncerOptions{Server: url}).URL(url))
	a.Direct, a.Schema = config.NewSecret(url), "pooled"
	if _, err := ledger.Migrate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	l := ledgertest.OpenAddress(t, a)
	if err := l.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	const stock, orders = 5, 8
	var judging sync.WaitGroup
	for n := range 4 {
		p := product.ID(fmt.Sprintf("p%d", n))
		ledgertest.Product(t, l, p, stock)
		judging.Go(func() {
			for place1 := range orders {
				judge(t, l, batch(place(t, p, fmt.Sprintf("u%d", place1), int64(place1+1), 1)))
			}
		})
	}
	judging.Wait()
	products, err := l.Products(t.Context())
	if err != nil || len(products) != 4 {
		t.Fatal(len(products), err)
	}
	for n := range 4 {
		p := product.ID(fmt.Sprintf("p%d", n))
		rows := 0
		err := l.Snapshot(t.Context(), p, func(s *ledger.Snapshot) error {
			row, err := s.Product()
			if err != nil || row.Sold != stock {
				return errors.Join(err, fmt.Errorf("%d sold", row.Sold))
			}
			return s.EachOrder(func(ledger.OrderRow) error { rows++; return nil })
		})
		if err != nil || rows != orders {
			t.Errorf("%s: %d rows, %v", p, rows, err)
		}
	}
	if _, err := l.Product(t.Context(), "nothing"); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Error(err)
	}
}
