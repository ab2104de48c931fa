package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

// PutProduct makes a product (state not_open, stock 0, and stock's adjust on its way when stock is not nil) or changes the settings of
// one that exists (settings_v+1). State, Reason, OrdersHalted and QueueOn of the settings are ignored: Open, Pause, Resume, CloseSale, Halt, Unhalt, QueueOff and
// QueueOn own them, and a new product has its queue on. Errors:
// ErrStockExists when the product exists and stock is not nil, ErrClosed, ErrInvalid, ErrRequestReused.
func (l *Ledger) PutProduct(ctx context.Context, a Action, settings product.Settings, stock *Movement) (ActionResult, error) {
	settings.State, settings.Reason, settings.OrdersHalted, settings.QueueOn = product.NotOpen, "", false, true
	if err := settings.Validate(); err != nil {
		return ActionResult{}, fmt.Errorf("put %s: %w: %w", a.Product, ErrInvalid, err)
	}
	if stock != nil && stock.Delta < 1 {
		return ActionResult{}, fmt.Errorf("put %s: stock: expected a number above 0: %w", a.Product, ErrInvalid)
	}
	body := struct {
		Settings product.Settings `json:"settings"`
		Stock    int64            `json:"stock"`
	}{Settings: settings}
	if stock != nil {
		body.Stock = stock.Delta
	}
	return l.act(ctx, call{Action: a, name: "put", body: body, command: stock.command(), do: func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error) {
		switch {
		case row == nil:
			created, err := create(ctx, tx, a.Product, settings)
			return ActionResult{Product: created, Created: true}, err
		case row.Settings.State == product.Closed:
			return ActionResult{}, ErrClosed
		case stock != nil:
			return ActionResult{}, ErrStockExists
		}
		settings.State, settings.Reason = row.Settings.State, row.Settings.Reason
		settings.OrdersHalted, settings.QueueOn = row.Settings.OrdersHalted, row.Settings.QueueOn
		changed, err := change(ctx, tx, *row, settings)
		return ActionResult{Product: changed}, err
	}})
}

// Open opens a product that is not open yet, and sets opened_us at its first opening. An open one stays as it is. Errors:
// ErrUnknownProduct, ErrState (paused: resume it), ErrClosed, ErrRequestReused.
func (l *Ledger) Open(ctx context.Context, a Action) (ActionResult, error) {
	return l.move(ctx, a, "open", "", product.Open, product.NotOpen)
}

// Pause stops admission; reason is shown to people (at most 200 bytes). A paused product takes the new reason. Errors as Open.
func (l *Ledger) Pause(ctx context.Context, a Action, reason string) (ActionResult, error) {
	return l.move(ctx, a, "pause", reason, product.Paused, product.Open)
}

// Resume opens a paused product again and clears the reason. An open one stays as it is. Errors as Open.
func (l *Ledger) Resume(ctx context.Context, a Action) (ActionResult, error) {
	return l.move(ctx, a, "resume", "", product.Open, product.Paused)
}

// CloseSale ends the sale of a product for good: nobody joins or is admitted, and only passes that are out still order. The reason, at most
// 200 bytes, is shown to people. A closed product takes the new reason. Errors: ErrUnknownProduct, ErrState (never opened), ErrInvalid,
// ErrRequestReused.
func (l *Ledger) CloseSale(ctx context.Context, a Action, reason string) (ActionResult, error) {
	return l.move(ctx, a, "close", reason, product.Closed, product.Open, product.Paused)
}

// Halt lets no pass become an order until Unhalt; pass time stands still meanwhile. Orders that were bound go on, and so does the line,
// as far as its capacity lasts. In every state of a product. Errors: ErrUnknownProduct, ErrRequestReused.
func (l *Ledger) Halt(ctx context.Context, a Action) (ActionResult, error) {
	return l.alter(ctx, a, "halt", nil, func(s *product.Settings) error { s.OrdersHalted = true; return nil })
}

// Unhalt ends a halt. Errors as Halt.
func (l *Ledger) Unhalt(ctx context.Context, a Action) (ActionResult, error) {
	return l.alter(ctx, a, "unhalt", nil, func(s *product.Settings) error { s.OrdersHalted = false; return nil })
}

// QueueOff lets people order without a pass, each order under an Idempotency-Key of theirs; nobody joins or is admitted meanwhile, and the line
// stands as it is (F17). In every state of a product. Errors: ErrUnknownProduct, ErrRequestReused.
func (l *Ledger) QueueOff(ctx context.Context, a Action) (ActionResult, error) {
	return l.alter(ctx, a, "queue-off", nil, func(s *product.Settings) error { s.QueueOn = false; return nil })
}

// QueueOn lets the line go on where it stood; orders need a pass again. Errors as QueueOff.
func (l *Ledger) QueueOn(ctx context.Context, a Action) (ActionResult, error) {
	return l.alter(ctx, a, "queue-on", nil, func(s *product.Settings) error { s.QueueOn = true; return nil })
}

// move takes a product from some states to another; one that is there already keeps its version unless the reason differs.
func (l *Ledger) move(ctx context.Context, a Action, name, reason string, to product.State, from ...product.State) (ActionResult, error) {
	if len(reason) > 200 || !storable(reason) {
		return ActionResult{}, fmt.Errorf("%s %s: reason: expected at most 200 bytes of text: %w", name, a.Product, ErrInvalid)
	}
	body := struct {
		Reason string `json:"reason"`
	}{reason}
	return l.alter(ctx, a, name, body, func(s *product.Settings) error {
		switch {
		case s.State == to || slices.Contains(from, s.State):
			s.State, s.Reason = to, reason
			return nil
		case s.State == product.Closed:
			return ErrClosed
		default:
			return fmt.Errorf("it is %s: %w", s.State, ErrState)
		}
	})
}

// alter changes the settings of a product that exists; where nothing differs the version stays.
func (l *Ledger) alter(ctx context.Context, a Action, name string, body any, alter func(*product.Settings) error) (ActionResult, error) {
	return l.act(ctx, call{Action: a, name: name, body: body, do: func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error) {
		if row == nil {
			return ActionResult{}, ErrUnknownProduct
		}
		settings := row.Settings
		if err := alter(&settings); err != nil {
			return ActionResult{}, err
		}
		if settings == row.Settings {
			return ActionResult{Product: *row}, nil
		}
		changed, err := change(ctx, tx, *row, settings)
		return ActionResult{Product: changed}, err
	}})
}

// Restock queues a change of the total, up or down. Errors: ErrUnknownProduct, ErrInvalid, ErrRequestReused.
func (l *Ledger) Restock(ctx context.Context, a Action, m Movement) (ActionResult, error) {
	body := struct {
		Delta int64 `json:"delta"`
	}{m.Delta}
	return l.act(ctx, call{Action: a, name: "restock", body: body, command: m.command(), do: func(_ context.Context, _ pgx.Tx, row *ProductRow) (ActionResult, error) {
		if row == nil {
			return ActionResult{}, ErrUnknownProduct
		}
		return ActionResult{Product: *row}, nil
	}})
}

func create(ctx context.Context, tx pgx.Tx, p product.ID, settings product.Settings) (ProductRow, error) {
	encoded, err := json.Marshal(settings)
	if err != nil {
		return ProductRow{}, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO products (id, settings) VALUES ($1, $2)`, string(p), encoded); err != nil {
		return ProductRow{}, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO stock (product_id) VALUES ($1)`, string(p)); err != nil {
		return ProductRow{}, err
	}
	return read(ctx, tx, p)
}

// change writes new settings with the next version. The first opening is a constant of the product: every place counts from it.
func change(ctx context.Context, tx pgx.Tx, row ProductRow, settings product.Settings) (ProductRow, error) {
	encoded, err := json.Marshal(settings)
	if err != nil {
		return ProductRow{}, err
	}
	if _, err := tx.Exec(ctx, `
UPDATE products SET settings = $2, settings_v = settings_v + 1,
  opened_us = coalesce(opened_us, CASE WHEN $3 THEN floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint END)
WHERE id = $1`, string(row.ID), encoded, settings.State == product.Open); err != nil {
		return ProductRow{}, err
	}
	return read(ctx, tx, row.ID)
}

func read(ctx context.Context, tx pgx.Tx, p product.ID) (ProductRow, error) {
	rows, err := tx.Query(ctx, selectProduct+`WHERE p.id = $1`, string(p))
	return one(rows, err, scanProduct, ErrUnknownProduct)
}
