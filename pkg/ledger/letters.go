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

// LetterQuery narrows a list of dead letters.
type LetterQuery struct {
	Product product.ID // "" for all, and for those that name none
	State   string     // LetterParked, LetterRedriven, LetterDropped, or "" for all
	After   int64      // only letters with a higher id
	Limit   int        // above 0
}

// Letters lists dead letters by id, one page at a time: go on behind the last one's id until a page is shorter than the limit.
func (l *Ledger) Letters(ctx context.Context, q LetterQuery) ([]LetterRow, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+letterColumns+` FROM dead_letters
WHERE id > $1 AND ($2 = '' OR state = $2) AND ($3 = '' OR product_id = $3) ORDER BY dead_letters.id LIMIT $4`,
		q.After, q.State, string(q.Product), q.Limit)
	if err != nil {
		return nil, classify("list dead letters", err)
	}
	page, err := pgx.CollectRows(rows, scanLetter)
	return page, classify("list dead letters", err)
}

// Letter is one dead letter with its record and the verdict that its id has by now, if any.
type Letter struct {
	LetterRow
	Key, Payload []byte
	Order        *OrderRow   // the verdict of a place
	Command      *CommandRow // that of another command
}

// Verified says that the record was genuine, so that it is known under its id.
func (l Letter) Verified() bool { return l.OrderID != "" || l.CommandID != "" }

func (l Letter) judged() bool { return l.Order != nil || l.Command != nil }

// Letter reads one dead letter, or ErrUnknownLetter.
func (l *Ledger) Letter(ctx context.Context, id int64) (Letter, error) {
	op := fmt.Sprintf("read dead letter %d", id)
	var letter Letter
	err := postgres.Transact(ctx, l.pool, op, func(ctx context.Context, tx pgx.Tx) (err error) {
		letter, err = readLetter(ctx, tx, id, "")
		return err
	})
	return letter, err
}

func readLetter(ctx context.Context, tx pgx.Tx, id int64, lock string) (Letter, error) {
	rows, err := tx.Query(ctx, `SELECT `+letterColumns+`, record_key, payload FROM dead_letters WHERE id = $1 `+lock, id)
	letter, err := one(rows, err, func(row pgx.CollectableRow) (Letter, error) {
		var found Letter
		err := row.Scan(append(found.columns(), &found.Key, &found.Payload)...)
		return found, err
	}, ErrUnknownLetter)
	if err != nil {
		return letter, err
	}
	switch {
	case letter.OrderID != "":
		rows, err := tx.Query(ctx, `SELECT `+orderColumns+` FROM orders WHERE order_id = $1::text::uuid`, string(letter.OrderID))
		row, err := one(rows, err, scanOrder, errAbsent)
		if err == nil {
			letter.Order = &row
		}
		return letter, unless(err, errAbsent)
	case letter.CommandID != "":
		rows, err := tx.Query(ctx, `SELECT `+commandColumns+` FROM commands WHERE command_id = $1`, letter.CommandID)
		row, err := one(rows, err, scanCommand, errAbsent)
		if err == nil {
			letter.Command = &row
		}
		return letter, unless(err, errAbsent)
	}
	return letter, nil
}

var errAbsent = errors.New("absent")

func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// LetterAction is who asks for a dead letter's way out, and under which id. A repeat of the same call by the same operator gives the
// stored result, anything else under its RequestID ErrRequestReused.
type LetterAction struct {
	RequestID string
	Operator  string
	Letter    int64
}

// LetterResult is what became of the letter.
type LetterResult struct {
	Letter    int64      `json:"letter"`
	Product   product.ID `json:"product,omitempty"`
	State     string     `json:"state"`
	Queued    bool       `json:"queued"`               // something is on its way to the judge
	CommandID string     `json:"command_id,omitempty"` // the drop that was queued
	Repeat    bool       `json:"-"`                    // the answer is the stored one
}

// Redrive sends a parked command again, its bytes as they were, to be judged when it arrives; it counts as sent when it was sent first.
// One that fails again is parked again. Errors: ErrUnknownLetter, ErrUnverified, ErrJudged (what has a verdict keeps it), ErrLetterState (redriven
// or dropped already), ErrInvalid (its bytes are no text), ErrRequestReused.
func (l *Ledger) Redrive(ctx context.Context, a LetterAction) (LetterResult, error) {
	return l.letterAction(ctx, a, "dead-letters redrive", func(ctx context.Context, tx pgx.Tx, letter Letter) (LetterResult, error) {
		switch {
		case !letter.Verified():
			return LetterResult{}, ErrUnverified
		case letter.judged():
			return LetterResult{}, fmt.Errorf("%s: %w", letter.verdict(), ErrJudged)
		case letter.State != LetterParked:
			return LetterResult{}, fmt.Errorf("it is %s: %w", letter.State, ErrLetterState)
		case !storable(string(letter.Payload)):
			return LetterResult{}, fmt.Errorf("payload: expected UTF-8: %w", ErrInvalid)
		}
		err := l.queueCommand(ctx, tx, a.action(letter), letter.Payload, "")
		return LetterResult{State: LetterRedriven, Queued: true}, err
	})
}

// Drop gives a letter up. A parked order gets its verdict, rejected (failed), from the judge: drop is the encoded, signed command for it,
// whose command_id is the RequestID; it frees the hold and tells the user. Any other letter is marked and nothing else: it never
// verified, or is no order, or has its verdict by now. Errors: ErrUnknownLetter, ErrLetterState (dropped already, or redriven), ErrUnknownProduct (an
// order of a product without stock cannot be judged), ErrInvalid (drop is not what the letter needs), ErrRequestReused.
func (l *Ledger) Drop(ctx context.Context, a LetterAction, drop []byte) (LetterResult, error) {
	return l.letterAction(ctx, a, "dead-letters drop", func(ctx context.Context, tx pgx.Tx, letter Letter) (LetterResult, error) {
		switch {
		case letter.State != LetterParked:
			return LetterResult{}, fmt.Errorf("it is %s: %w", letter.State, ErrLetterState)
		case letter.OrderID == "" || letter.judged():
			return LetterResult{State: LetterDropped}, nil
		}
		var stocked bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM stock WHERE product_id = $1)`, string(letter.Product)).Scan(&stocked); err != nil {
			return LetterResult{}, err
		}
		if !stocked {
			return LetterResult{}, fmt.Errorf("%s: %w", letter.Product, ErrUnknownProduct)
		}
		cmd := command{drop, "", "a drop of " + string(letter.OrderID), func(c order.Command) bool {
			return c.Kind == order.KindDrop && c.OrderID == letter.OrderID
		}}
		if err := cmd.validate(a.action(letter)); err != nil {
			return LetterResult{}, err
		}
		err := l.queueCommand(ctx, tx, a.action(letter), drop, "")
		return LetterResult{State: LetterDropped, Queued: true, CommandID: a.RequestID}, err
	})
}

// letterAction runs one way out in one transaction with its row in the audit trail and the outbox row of what it sends (F21). It locks
// the letter and never a stock row, which the judge locks first.
func (l *Ledger) letterAction(
	ctx context.Context, a LetterAction, name string, do func(context.Context, pgx.Tx, Letter) (LetterResult, error),
) (LetterResult, error) {
	op := fmt.Sprintf("%s %d, request %s", name, a.Letter, a.RequestID)
	if err := (Action{RequestID: a.RequestID, Operator: a.Operator}).validate(); err != nil {
		return LetterResult{}, fmt.Errorf("%s: %w", op, err)
	}
	body, err := json.Marshal(struct {
		Letter int64 `json:"letter"`
	}{a.Letter})
	if err != nil {
		return LetterResult{}, fmt.Errorf("%s: %w", op, err)
	}
	var result LetterResult
	err = postgres.Transact(ctx, l.pool, op, func(ctx context.Context, tx pgx.Tx) error {
		letter, err := readLetter(ctx, tx, a.Letter, "FOR UPDATE")
		if err != nil {
			return err
		}
		row := auditRow{a.action(letter), name, body}
		var stored LetterResult
		if found, err := row.stored(ctx, tx, &stored); err != nil || found {
			result, result.Repeat = stored, found
			return err
		}
		if result, err = do(ctx, tx, letter); err != nil {
			return err
		}
		result.Letter, result.Product = letter.ID, letter.Product
		if _, err := tx.Exec(ctx, `UPDATE dead_letters SET state = $2 WHERE id = $1`, letter.ID, result.State); err != nil {
			return err
		}
		return row.store(ctx, tx, result)
	})
	if err != nil {
		return LetterResult{}, err
	}
	return result, nil
}

// action is the letter's as the audit trail has it; a letter that names no product stands under "?", which no product is called.
func (a LetterAction) action(letter Letter) Action {
	p := letter.Product
	if p == "" {
		p = "?"
	}
	return Action{RequestID: a.RequestID, Operator: a.Operator, Product: p}
}

func (l Letter) verdict() string {
	if l.Order != nil {
		return fmt.Sprintf("order %s is %s", l.OrderID, l.Order.State)
	}
	return fmt.Sprintf("command %s is %s", l.CommandID, l.Command.Result)
}
