package ledger

import (
	"context"
	"time"

	"hanjul/pkg/product"
)

// Products lists every product, sorted by id.
func (l *Ledger) Products(ctx context.Context) ([]ProductRow, error) { return nil, ErrSchema }

// Product reads one product, or ErrUnknownProduct.
func (l *Ledger) Product(ctx context.Context, p product.ID) (ProductRow, error) {
	return ProductRow{}, ErrSchema
}

// NextInc raises the line's incarnation and returns the row, with all that a restore needs (L2, L3). A repeat, also one inside
// after an unknown outcome, burns a number; that is harmless. ErrUnknownProduct; ErrLineEnd past 1023.
func (l *Ledger) NextInc(ctx context.Context, p product.ID) (ProductRow, error) {
	return ProductRow{}, ErrSchema
}

// PersistLine keeps how far the line has come (L4): the greatest front, and the active count of the latest at (the moment both were
// read, by the clock of Redis). A front of 0 (nobody was admitted) changes nothing. Safe to repeat and to reorder.
func (l *Ledger) PersistLine(ctx context.Context, p product.ID, front product.Place, active int, at time.Time) error {
	return ErrSchema
}
