package ledger

import (
	"context"

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

// PutProduct makes a product (state not_open, stock 0, and stock's adjust on its way when stock is not nil) or changes the settings of
// one that exists (settings_v+1). State and Reason of the settings are ignored: Open, Pause and Resume own them. Errors:
// ErrStockExists when the product exists and stock is not nil, ErrClosed, ErrInvalid, ErrRequestReused.
func (l *Ledger) PutProduct(ctx context.Context, a Action, settings product.Settings, stock *Movement) (ActionResult, error) {
	return ActionResult{}, ErrSchema
}

// Open opens a product that is not open yet, and sets opened_us at its first opening. An open one stays as it is. Errors:
// ErrUnknownProduct, ErrState (paused: resume it), ErrClosed, ErrRequestReused.
func (l *Ledger) Open(ctx context.Context, a Action) (ActionResult, error) {
	return ActionResult{}, ErrSchema
}

// Pause stops admission; reason is shown to people (at most 200 bytes). A paused product takes the new reason. Errors as Open.
func (l *Ledger) Pause(ctx context.Context, a Action, reason string) (ActionResult, error) {
	return ActionResult{}, ErrSchema
}

// Resume opens a paused product again and clears the reason. An open one stays as it is. Errors as Open.
func (l *Ledger) Resume(ctx context.Context, a Action) (ActionResult, error) {
	return ActionResult{}, ErrSchema
}

// Restock queues a change of the total, up or down. Errors: ErrUnknownProduct, ErrInvalid, ErrRequestReused.
func (l *Ledger) Restock(ctx context.Context, a Action, m Movement) (ActionResult, error) {
	return ActionResult{}, ErrSchema
}
