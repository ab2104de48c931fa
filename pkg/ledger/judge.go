package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/postgres"
)

// Judge decides a batch in one transaction (JOINT 2.4): it locks the stock rows of the batch's products in one order, reads what
// is known, decides in log order, and writes orders, commands, dead letters, outbox rows, stock and the consumer's progress. Safe to
// repeat with the same batch, with any part of it, or by two consumers at once: what is known keeps its verdict and changes nothing. An
// unknown outcome of the commit is redone inside; what outlives the retries wraps ErrTransient, and the caller redoes the whole
// batch. When an error is returned nothing of the batch is written, or all of it is (unknown commit); a repeat tells which.
func (l *Ledger) Judge(ctx context.Context, b Batch) (Result, error) {
	op := fmt.Sprintf("judge %s/%d to %d", b.Topic, b.Partition, b.NextOffset)
	if b.Topic == "" || b.Partition < 0 || b.NextOffset < 0 {
		return Result{}, fmt.Errorf("%s: topic, partition, next offset: %w", op, ErrInvalid)
	}
	var result Result
	err := postgres.Transact(ctx, l.pool, op, func(ctx context.Context, tx pgx.Tx) error {
		s, err := readBooks(ctx, tx, b)
		if err != nil {
			return err
		}
		d := decide(b, s)
		result = d.result
		return l.write(ctx, tx, b, s, d)
	})
	if err != nil {
		return Result{}, err
	}
	return result, nil
}
