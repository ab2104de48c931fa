package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// ErrRequestReused says that the request id belongs to another call.
var ErrRequestReused = errors.New("request id was used for another call")

// Action is who asks for a change, and under which id. RequestID (1–128 printable ASCII characters; the request's Idempotency-Key) is unique
// over all actions of the audit trail, the ledger's too: a repeat of the same call by the same operator gives the stored result, anything else
// under it ErrRequestReused.
type Action struct {
	RequestID string
	Operator  string
	Product   product.ID
}

// Asked is the replay as an action left it.
type Asked struct {
	Replay
	Repeat bool `json:"-"` // the answer is the stored one
}

// AskReplay writes down a replay that some order-consumer will run in the background, and the operator's action, in one transaction. The events are
// counted in it, and from its end on the partitions that the replay must read are kept. w's product is the action's; rate is in events
// per second, 1 to RateMax. Safe to repeat and to call at once: one request id makes one replay. ErrNothing, ErrRequestReused; ErrTransient
// of package postgres when waiting helps.
func (o *Outbox) AskReplay(ctx context.Context, a Action, w Wanted, topic string, rate int) (Asked, error) {
	w.Product = a.Product
	body := struct {
		Wanted
		Topic string `json:"topic"`
		Rate  int    `json:"rate"`
	}{w, topic, rate}
	return o.act(ctx, a, "replay", body, func(ctx context.Context, tx pgx.Tx) (Replay, error) {
		if err := keepPartitions(ctx, tx); err != nil {
			return Replay{}, err
		}
		r, err := plan(ctx, tx, w)
		if err != nil {
			return Replay{}, err
		}
		r.ID, r.State, r.Background = newReplayID(), StateWaiting, true
		r.Topic, r.Rate, r.Operator = topic, rate, a.Operator
		return r.insert(ctx, tx, "") // No process has an empty token.
	})
}

// CancelReplay ends the replay for good, whoever runs it: at most the batch in hand is still sent. One that was cancelled before stays as it is.
// ErrNoReplay (unknown, or another product's), ErrDone, ErrRequestReused.
func (o *Outbox) CancelReplay(ctx context.Context, a Action, id string) (Asked, error) {
	return o.move(ctx, a, "replay cancel", id, func(r Replay) (string, error) {
		switch r.State {
		case StateDone:
			return "", ErrDone
		case StateCancelled:
			return "", nil
		}
		return `state = 'cancelled'`, nil
	})
}

// ContinueReplay lets a stopped replay go on in the background, also one that was begun by hand; one by hand that runs, once its process died. One
// that waits stays as it is. ErrNoReplay (unknown, or another product's), ErrDone, ErrCancelled, ErrRequestReused.
func (o *Outbox) ContinueReplay(ctx context.Context, a Action, id string) (Asked, error) {
	return o.move(ctx, a, "replay resume", id, func(r Replay) (string, error) {
		switch r.State {
		case StateDone:
			return "", ErrDone
		case StateCancelled:
			return "", ErrCancelled
		case StateStopped:
			return `state = 'waiting', background = true`, nil
		}
		return `background = true`, nil
	})
}

// move changes the state of a product's replay as next says.
func (o *Outbox) move(ctx context.Context, a Action, name, id string, next func(Replay) (set string, err error)) (Asked, error) {
	body := struct {
		Replay string `json:"replay"`
	}{id}
	return o.act(ctx, a, name, body, func(ctx context.Context, tx pgx.Tx) (Replay, error) {
		rows, err := tx.Query(ctx, `SELECT `+replayColumns+` FROM outbox_replays WHERE id = $1 AND product_id = $2 FOR UPDATE`, id, string(a.Product))
		if err != nil {
			return Replay{}, err
		}
		r, err := pgx.CollectExactlyOneRow(rows, scanReplay)
		if errors.Is(err, pgx.ErrNoRows) {
			err = ErrNoReplay
		}
		if err != nil {
			return Replay{}, err
		}
		set, err := next(r)
		if err != nil || set == "" {
			return r, err
		}
		if rows, err = tx.Query(ctx, `UPDATE outbox_replays SET `+set+`, updated_at = now() WHERE id = $1 RETURNING `+replayColumns, id); err != nil {
			return Replay{}, err
		}
		return pgx.CollectExactlyOneRow(rows, scanReplay)
	})
}

// act runs do in one transaction with its row in the audit trail. Two of the same request at once meet on the request id, and the later
// one is redone and finds the answer; so is one whose commit is in doubt.
func (o *Outbox) act(ctx context.Context, a Action, name string, body any, do func(context.Context, pgx.Tx) (Replay, error)) (Asked, error) {
	op := fmt.Sprintf("%s of %s, request %s", name, a.Product, a.RequestID)
	request, err := json.Marshal(body)
	if err != nil {
		return Asked{}, fmt.Errorf("%s: %w", op, err)
	}
	var asked Asked
	err = postgres.Transact(ctx, o.pool, op, func(ctx context.Context, tx pgx.Tx) error {
		var same bool
		var stored []byte
		err := tx.QueryRow(ctx, `
SELECT operator = $2 AND action = $3 AND product_id = $4 AND request = $5::jsonb, result FROM operator_actions WHERE request_id = $1`,
			a.RequestID, a.Operator, name, string(a.Product), request).Scan(&same, &stored)
		switch {
		case err == nil && !same:
			return ErrRequestReused
		case err == nil:
			asked = Asked{Repeat: true}
			return json.Unmarshal(stored, &asked.Replay)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		r, err := do(ctx, tx)
		if err != nil {
			return err
		}
		asked = Asked{Replay: r}
		result, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
INSERT INTO operator_actions (request_id, operator, action, product_id, request, result) VALUES ($1, $2, $3, $4, $5, $6)`,
			a.RequestID, a.Operator, name, string(a.Product), request, result)
		return err
	})
	if err != nil {
		return Asked{}, err
	}
	return asked, nil
}
