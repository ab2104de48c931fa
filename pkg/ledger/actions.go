package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	// IfVersion is the settings_v that the product must have, else ErrVersion; 0 asks for none. Of two operators who read the same
	// settings, only one changes them (F19).
	IfVersion int64
}

// Movement is a change of stock that leaves as a command: Command is the encoded, signed adjust whose command_id is the action's
// RequestID, whose product is the action's and whose delta is Delta. The ledger keeps it for the relay to send; the verdict shows in
// Command(ctx, RequestID) later.
type Movement struct {
	Delta       int64
	Command     []byte
	Traceparent string
}

// command is a signed command that an action leaves as, and what it must say: one under another id, or about something else, would be
// judged as something that nobody asked for.
type command struct {
	encoded     []byte
	traceparent string
	expected    string // in words
	is          func(order.Command) bool
}

func (m *Movement) command() *command {
	if m == nil {
		return nil
	}
	return &command{m.Command, m.Traceparent, fmt.Sprintf("an adjust by %d", m.Delta), func(c order.Command) bool {
		return c.Kind == order.KindAdjust && c.Delta == m.Delta
	}}
}

// ActionResult is what an action came to.
type ActionResult struct {
	Product   ProductRow `json:"product"`
	Created   bool       `json:"created"`              // PutProduct made it
	CommandID string     `json:"command_id,omitempty"` // the command that was queued, or ""
	// BannedUntil is the end of the ban that Evict wrote; zero otherwise.
	BannedUntil time.Time `json:"banned_until,omitzero"`
	Repeat      bool      `json:"-"` // the answer is the stored one
}

// call is one action on its way: its name and body as they are compared with a repeat, and what it does under the product's lock. row is nil
// where the product does not exist.
type call struct {
	Action
	name    string
	body    any
	command *command
	do      func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error)
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
		var stored ActionResult
		if found, err := c.audit(body).stored(ctx, tx, &stored); err != nil || found {
			result, result.Repeat = stored, found
			return err
		}
		rows, err := tx.Query(ctx, selectProduct+`WHERE p.id = $1 FOR UPDATE OF p`, string(c.Product))
		row, err := one(rows, err, scanProduct, ErrUnknownProduct)
		switch {
		case errors.Is(err, ErrUnknownProduct):
			result, err = c.do(ctx, tx, nil)
		case err == nil && c.IfVersion != 0 && c.IfVersion != row.SettingsV:
			err = fmt.Errorf("they have version %d, expected %d: %w", row.SettingsV, c.IfVersion, ErrVersion)
		case err == nil:
			result, err = c.do(ctx, tx, &row)
		}
		if err != nil {
			return err
		}
		if c.command != nil {
			result.CommandID = c.RequestID
			if err := l.queueCommand(ctx, tx, c.Action, c.command.encoded, c.command.traceparent); err != nil {
				return err
			}
		}
		return c.audit(body).store(ctx, tx, result)
	})
	if err != nil {
		return ActionResult{}, err
	}
	return result, nil
}

// queueCommand keeps the command for the relay. Its outbox id is derived from the request, as its command id is.
func (l *Ledger) queueCommand(ctx context.Context, tx pgx.Tx, a Action, encoded []byte, traceparent string) error {
	_, err := tx.Exec(ctx, `
INSERT INTO outbox (id, topic, product_id, aggregatetype, aggregateid, type, payload, traceparent)
VALUES ($1::text::uuid, $2, $3, 'product', $3, $4, $5, $6)`,
		order.OutboxCommandID(a.RequestID), l.topics.Orders, string(a.Product), string(order.TypeCommand), string(encoded),
		text(printable(traceparent)))
	return err
}

func (c call) audit(body []byte) auditRow {
	return auditRow{c.Action, c.name, body}
}

// validate also holds the command against the action.
func (c call) validate() error {
	if _, err := product.ParseID(string(c.Product)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.Action.validate(); err != nil || c.command == nil {
		return err
	}
	return c.command.validate(c.Action)
}

func (a Action) validate() error {
	if len(a.RequestID) < 1 || len(a.RequestID) > 128 || !storable(a.RequestID) {
		return fmt.Errorf("request id: expected 1-128 characters: %w", ErrInvalid)
	}
	if a.Operator == "" || !storable(a.Operator) {
		return fmt.Errorf("operator: expected a name: %w", ErrInvalid)
	}
	return nil
}

func (c *command) validate(a Action) error {
	cmd, err := order.DecodeCommand(c.encoded)
	if err != nil {
		return fmt.Errorf("command: %w: %w", ErrInvalid, err)
	}
	if cmd.ID != a.RequestID || cmd.Product != a.Product || !c.is(cmd) {
		return fmt.Errorf("command: expected %s of %s under the request id: %w", c.expected, a.Product, ErrInvalid)
	}
	return nil
}
