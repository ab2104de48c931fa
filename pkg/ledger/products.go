package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

const selectProduct = `SELECT ` + productColumns + ` FROM products p LEFT JOIN stock s ON s.product_id = p.id `

// Products lists every product, sorted by id.
func (l *Ledger) Products(ctx context.Context) ([]ProductRow, error) {
	rows, err := l.pool.Query(ctx, selectProduct+`ORDER BY p.id`)
	if err != nil {
		return nil, classify("list products", err)
	}
	all, err := pgx.CollectRows(rows, scanProduct)
	return all, classify("list products", err)
}

// ProductsAfter lists the products whose ids come behind after, sorted, at most limit.
func (l *Ledger) ProductsAfter(ctx context.Context, after product.ID, limit int) ([]ProductRow, error) {
	rows, err := l.pool.Query(ctx, selectProduct+`WHERE p.id > $1 ORDER BY p.id LIMIT $2`, string(after), limit)
	if err != nil {
		return nil, classify("list products", err)
	}
	page, err := pgx.CollectRows(rows, scanProduct)
	return page, classify("list products", err)
}

// Product reads one product, or ErrUnknownProduct.
func (l *Ledger) Product(ctx context.Context, p product.ID) (ProductRow, error) {
	rows, err := l.pool.Query(ctx, selectProduct+`WHERE p.id = $1`, string(p))
	row, err := one(rows, err, scanProduct, ErrUnknownProduct)
	return row, classify("read product "+string(p), err)
}

// NextInc raises the line's incarnation and returns the row, with all that a restore needs (L2, L3). A repeat, also one inside
// after an unknown outcome, burns a number; that is harmless. ErrUnknownProduct; ErrLineEnd past 1023.
func (l *Ledger) NextInc(ctx context.Context, p product.ID) (ProductRow, error) {
	var row ProductRow
	err := postgres.Transact(ctx, l.pool, "raise the incarnation of "+string(p), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, selectProduct+`WHERE p.id = $1 FOR UPDATE OF p`, string(p))
		if row, err = one(rows, err, scanProduct, ErrUnknownProduct); err != nil {
			return err
		}
		if row.LineInc >= product.IncMax {
			return ErrLineEnd
		}
		row.LineInc++
		_, err = tx.Exec(ctx, `UPDATE products SET line_inc = $2 WHERE id = $1`, string(p), row.LineInc)
		return err
	})
	if err != nil {
		return ProductRow{}, err
	}
	return row, nil
}

// PersistLine keeps how far the line has come (L4): the greatest front, and the active count of the latest at (the moment both were
// read, by the clock of Redis). A front of 0 says that nobody was admitted until then. Safe to repeat and to reorder.
func (l *Ledger) PersistLine(ctx context.Context, p product.ID, front product.Place, active int, at time.Time) error {
	op := "persist the line of " + string(p)
	done, err := l.pool.Exec(ctx, `
UPDATE products SET front = greatest(front, $2),
  active_n = CASE WHEN front_at IS NULL OR front_at < $4 THEN $3 ELSE active_n END,
  front_at = greatest(front_at, $4)
WHERE id = $1`, string(p), int64(front), active, at)
	if err != nil {
		return classify(op, err)
	}
	if done.RowsAffected() == 0 {
		return fmt.Errorf("%s: %w", op, ErrUnknownProduct)
	}
	return nil
}
