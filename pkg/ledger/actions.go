package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/order"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// Action is who asks for a change, and under which id. RequestID (1–128 bytes; the request's Idempotency-Key) is unique over all
// actions: a repeat of the same call by the same operator gives the stored result, anything else under it ErrRequestReused.
type Action struct {
	RequestID string
	Operator  string
	Product   product.ID
}

// Movement is a change of stock that leaves as a command: Command is the encoded, signed adjust whose command_id is the action's
// RequestID, whose product is the action's and whose delta is Delta. The ledger keeps it for the relay to send; the verdict shows in
// Command(ctx, RequestID) later.
type Movement struct {
	Delta       int64
	Command     []byte
	Traceparent string
}

// ActionResult is what an action came to.
type ActionResult struct {
	Product   ProductRow `json:"product"`
	Created   bool       `json:"created"`              // PutProduct made it
	CommandID string     `json:"command_id,omitempty"` // the adjust that was queued, or ""
	Repeat    bool       `json:"-"`                    // the answer is the stored one
}

// call is one action on its way: its name and body as they are compared with a repeat, and what it does under the product's lock. row is nil
// where the product does not exist.
type call struct {
	Action
	name     string
	body     any
	movement *Movement
	do       func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error)
}

// act runs the call in one transaction with its operator_actions row and the outbox row of its command (F21).
func (l *Ledger) act(ctx context.Context, c call) (ActionResult, error) {
	op := fmt.Sprintf("%s %s, request %s", c.name, c.Product, c.RequestID)
	if err := c.validate(); err != nil {
		return ActionResult{}, fmt.Errorf("%s: %w", op, err)
	}
	body, err := json.Marshal(c.body)
	if err != nil {
		return ActionResult{}, fmt.Errorf("%s: %w", op, err)
	}
	var result ActionResult
	err = postgres.Transact(ctx, l.pool, op, func(ctx context.Context, tx pgx.Tx) error {
		stored, found, err := c.stored(ctx, tx, body)
		if err != nil || found {
			result = stored
			return err
		}
		rows, err := tx.Query(ctx, selectProduct+`WHERE p.id = $1 FOR UPDATE OF p`, string(c.Product))
		row, err := one(rows, err, scanProduct, ErrUnknownProduct)
		switch {
		case errors.Is(err, ErrUnknownProduct):
			result, err = c.do(ctx, tx, nil)
		case err == nil:
			result, err = c.do(ctx, tx, &row)
		}
		if err != nil {
			return err
		}
		if c.movement != nil {
			result.CommandID = c.RequestID
			if err := l.queueCommand(ctx, tx, c.Action, *c.movement); err != nil {
				return err
			}
		}
		answer, err := json.Marshal(result)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
INSERT INTO operator_actions (request_id, operator, action, product_id, request, result) VALUES ($1, $2, $3, $4, $5, $6)`,
			c.RequestID, c.Operator, c.name, string(c.Product), body, answer)
		return err
	})
	if err != nil {
		return ActionResult{}, err
	}
	return result, nil
}

// stored finds the answer of an earlier run of the same request.
func (c call) stored(ctx context.Context, tx pgx.Tx, body []byte) (ActionResult, bool, error) {
	var same bool
	var answer []byte
	err := tx.QueryRow(ctx, `
SELECT operator = $2 AND action = $3 AND product_id = $4 AND request = $5::jsonb, result FROM operator_actions WHERE request_id = $1`,
		c.RequestID, c.Operator, c.name, string(c.Product), body).Scan(&same, &answer)
	if errors.Is(err, pgx.ErrNoRows) {
		return ActionResult{}, false, nil
	}
	if err != nil {
		return ActionResult{}, false, err
	}
	if !same {
		return ActionResult{}, false, ErrRequestReused
	}
	result := ActionResult{Repeat: true}
	return result, true, json.Unmarshal(answer, &result)
}

// queueCommand keeps the command for the relay. Its outbox id is derived from the request, as its command id is.
func (l *Ledger) queueCommand(ctx context.Context, tx pgx.Tx, a Action, m Movement) error {
	_, err := tx.Exec(ctx, `
INSERT INTO outbox (id, topic, product_id, aggregatetype, aggregateid, type, payload, traceparent)
VALUES ($1::text::uuid, $2, $3, 'product', $3, $4, $5, $6)`,
		order.OutboxCommandID(a.RequestID), l.topics.Orders, string(a.Product), string(order.TypeCommand), string(m.Command),
		text(printable(m.Traceparent)))
	return err
}

// validate also holds the command against the action: a command under another id or delta would be judged as something nobody asked for.
func (c call) validate() error {
	if _, err := product.ParseID(string(c.Product)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(c.RequestID) < 1 || len(c.RequestID) > 128 || !storable(c.RequestID) {
		return fmt.Errorf("request id: expected 1-128 characters: %w", ErrInvalid)
	}
	if c.Operator == "" || !storable(c.Operator) {
		return fmt.Errorf("operator: expected a name: %w", ErrInvalid)
	}
	if c.movement == nil {
		return nil
	}
	cmd, err := order.DecodeCommand(c.movement.Command)
	if err != nil {
		return fmt.Errorf("command: %w: %w", ErrInvalid, err)
	}
	if cmd.Kind != order.KindAdjust || cmd.ID != c.RequestID || cmd.Product != c.Product || cmd.Delta != c.movement.Delta {
		return fmt.Errorf("command: expected an adjust of %s by %d under the request id: %w", c.Product, c.movement.Delta, ErrInvalid)
	}
	return nil
}
