package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// txRows are the rows of a statement with a transaction of its own, which ends with them.
type txRows struct {
	pgx.Rows
	ctx  context.Context //nolint:containedctx // it is the statement's, and ends with it
	tx   pgx.Tx
	over bool
	err  error
}

func (r *txRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close commits, or rolls back after an error. It may be repeated.
func (r *txRows) Close() {
	r.Rows.Close()
	if r.over {
		return
	}
	r.over = true
	if r.err = r.Rows.Err(); r.err != nil {
		_ = r.tx.Rollback(context.WithoutCancel(r.ctx)) // there is an error already
		return
	}
	r.err = r.tx.Commit(r.ctx)
}

func (r *txRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err()
}

// oneRow is the first of rows.
type oneRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads it; pgx.ErrNoRows without one.
func (r *oneRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	found := r.rows.Next()
	if found {
		if err := r.rows.Scan(dest...); err != nil {
			return err
		}
	}
	r.rows.Close()
	if err := r.rows.Err(); err != nil || found {
		return err
	}
	return pgx.ErrNoRows
}
