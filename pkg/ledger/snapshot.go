package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

// Snapshot is one moment of one product's books. It lives inside the function given to Ledger.Snapshot; one Each runs at a time.
type Snapshot struct {
	ctx     context.Context
	tx      pgx.Tx
	product product.ID
}

// Snapshot calls fn with one REPEATABLE READ, read-only moment of the product's books. It is not retried: fn may have been fed partly.
func (l *Ledger) Snapshot(ctx context.Context, p product.ID, fn func(*Snapshot) error) error {
	return ErrSchema
}

// Product is the product's row with its stock, or ErrUnknownProduct.
func (s *Snapshot) Product() (ProductRow, error) { return ProductRow{}, ErrSchema }

// EachOrder gives every order of the product, by order id. An error of fn ends it and is returned; so with the others.
func (s *Snapshot) EachOrder(fn func(OrderRow) error) error { return ErrSchema }

// EachOutbox gives every outbox row of the product: events by seq, then the others by n.
func (s *Snapshot) EachOutbox(fn func(OutboxRow) error) error { return ErrSchema }

// EachCommand gives every judged command of the product, by id.
func (s *Snapshot) EachCommand(fn func(CommandRow) error) error { return ErrSchema }

// EachLetter gives the dead letters of the product, and those that name no product, by partition and offset.
func (s *Snapshot) EachLetter(fn func(LetterRow) error) error { return ErrSchema }

// Progress is the judged next offset per partition of the topic, in the same moment.
func (s *Snapshot) Progress(topic string) (map[int]int64, error) { return nil, ErrSchema }
