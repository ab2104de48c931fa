package ledger

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
)

// auditRow is one row of the audit trail: who asked for what, as a repeat is compared with it.
type auditRow struct {
	Action
	name string
	body []byte
}

// stored finds the answer of an earlier run of the same request. ErrRequestReused where the request id stands for another one.
func (r auditRow) stored(ctx context.Context, tx pgx.Tx, answer any) (bool, error) {
	var same bool
	var encoded []byte
	err := tx.QueryRow(ctx, `
SELECT operator = $2 AND action = $3 AND product_id = $4 AND request = $5::jsonb, result FROM operator_actions WHERE request_id = $1`,
		r.RequestID, r.Operator, r.name, string(r.Product), r.body).Scan(&same, &encoded)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !same {
		return false, ErrRequestReused
	}
	return true, json.Unmarshal(encoded, answer)
}

// store writes the row with its answer; two runs at once meet on the request id, and the later one is redone.
func (r auditRow) store(ctx context.Context, tx pgx.Tx, answer any) error {
	encoded, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
INSERT INTO operator_actions (request_id, operator, action, product_id, request, result) VALUES ($1, $2, $3, $4, $5, $6)`,
		r.RequestID, r.Operator, r.name, string(r.Product), r.body, encoded)
	return err
}
