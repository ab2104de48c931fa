package ledger

import (
	"context"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// OrdersByID reads the rows of those ids; ids without a row are missing from the answer.
func (l *Ledger) OrdersByID(ctx context.Context, ids []order.ID) (map[order.ID]OrderRow, error) {
	return nil, ErrSchema
}

// OrdersJudgedSince reads one page of all products' orders whose last change is behind the cursor, oldest first. Begin with
// Cursor{At: since}; go on with the last row's Cursor until a page is shorter than limit. Rows that commit late, with an earlier time,
// may be missed by a cursor that has passed them: choose since with a margin (10 min).
func (l *Ledger) OrdersJudgedSince(ctx context.Context, after Cursor, limit int) ([]OrderRow, error) {
	return nil, ErrSchema
}

// Parked says which of the orders are parked: pending until an operator redrives or drops them, never to be voided.
func (l *Ledger) Parked(ctx context.Context, ids []order.ID) (map[order.ID]bool, error) {
	return nil, ErrSchema
}

// Command reads a judged command by id; false while it was not judged.
func (l *Ledger) Command(ctx context.Context, id string) (CommandRow, bool, error) {
	return CommandRow{}, false, ErrSchema
}

// StockOf reads a product's stock, or ErrUnknownProduct.
func (l *Ledger) StockOf(ctx context.Context, p product.ID) (Stock, error) { return Stock{}, ErrSchema }

// Progress is the next offset per partition of the topic that the ledger has judged up to. A consumer starts from the lower of this
// and Kafka's (F34).
func (l *Ledger) Progress(ctx context.Context, topic string) (map[int]int64, error) {
	return nil, ErrSchema
}
