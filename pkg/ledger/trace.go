package ledger

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/order"
	"hanjul/pkg/postgres"
)

// OrderTrace is what the ledger knows of one order id; each part may be missing.
type OrderTrace struct {
	Order  *OrderRow
	Letter *LetterRow  // the dead letter of its place
	Events []OutboxRow // what was told of it, by seq
}

// TraceOrder reads it, in one moment.
func (l *Ledger) TraceOrder(ctx context.Context, id order.ID) (OrderTrace, error) {
	var trace OrderTrace
	err := postgres.Transact(ctx, l.pool, "trace order "+string(id), func(ctx context.Context, tx pgx.Tx) error {
		trace = OrderTrace{}
		rows, err := tx.Query(ctx, `SELECT `+orderColumns+` FROM orders WHERE order_id = $1::text::uuid`, string(id))
		switch row, err := one(rows, err, scanOrder, errAbsent); {
		case err == nil:
			trace.Order = &row
		case !errors.Is(err, errAbsent):
			return err
		}
		rows, err = tx.Query(ctx, `SELECT `+letterColumns+` FROM dead_letters WHERE order_id = $1::text::uuid`, string(id))
		switch row, err := one(rows, err, scanLetter, errAbsent); {
		case err == nil:
			trace.Letter = &row
		case !errors.Is(err, errAbsent):
			return err
		}
		rows, err = tx.Query(ctx, `SELECT `+outboxColumns+` FROM outbox WHERE id = ANY ($1::text[]::uuid[]) ORDER BY outbox.seq`,
			[]string{order.OrderEventID(id, 1), order.OrderEventID(id, 2)})
		if err != nil {
			return err
		}
		trace.Events, err = pgx.CollectRows(rows, scanOutbox)
		return err
	})
	return trace, err
}
