package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

var (
	// ErrNothing says that no published event matches.
	ErrNothing = errors.New("no published event matches")
	// ErrNoReplay says that no replay has that id.
	ErrNoReplay = errors.New("no such replay")
	// ErrDone says that the replay has sent everything.
	ErrDone = errors.New("the replay is done")
	// ErrRunning says that another process runs the replay.
	ErrRunning = errors.New("the replay is running elsewhere")
)

// Wanted says which events of a product are to be published again. Zero values are open ends.
type Wanted struct {
	Product        product.ID
	FromSeq, ToSeq int64
	Since, Until   time.Time // of the events' own times, the end excluded; they are turned into a range of seq
	Types          []string
	EventID        string // a UUID
}

// Replay is one replay and how far it has come.
type Replay struct {
	ID        string     `json:"id"`
	Product   product.ID `json:"product"`
	FromSeq   int64      `json:"from_seq"`
	ToSeq     int64      `json:"to_seq"`
	Types     []string   `json:"types,omitempty"`
	Topic     string     `json:"topic"`
	Rate      int        `json:"rate"` // events per second
	Operator  string     `json:"operator"`
	Matched   int64      `json:"matched"` // events of the range and the types that are kept
	Missing   int64      `json:"missing"` // seqs of the range that are not kept any more; known from PlanReplay only
	NextSeq   int64      `json:"next_seq"`
	Sent      int64      `json:"sent"`
	Attempt   int        `json:"attempt"`
	State     string     `json:"state"` // running, stopped, done
	StartedAt time.Time  `json:"started_at"`
	UpdatedAt time.Time  `json:"updated_at"`
}

// The states of a replay.
const (
	StateRunning = "running"
	StateStopped = "stopped"
	StateDone    = "done"
)

// PlanReplay turns what is wanted into a range of seq and counts it; nothing is written. Only what was published is replayed, up to the
// product's first row that was not, so that no event appears anywhere for the first time through a replay. A time becomes the least
// and the greatest seq of the rows that carry it, and everything between them: a row may commit later than its time says, but never
// out of the order of seq (F40). ErrNothing when nothing matches.
func (o *Outbox) PlanReplay(ctx context.Context, w Wanted) (Replay, error) {
	plan := Replay{Product: w.Product, FromSeq: max(1, w.FromSeq), ToSeq: w.ToSeq, Types: w.Types}
	err := pgx.BeginTxFunc(ctx, o.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var published int64
		err := tx.QueryRow(ctx, `
SELECT coalesce((SELECT min(from_seq) - 1 FROM outbox_runs WHERE product_id = $1),
                (SELECT max(seq) FROM outbox WHERE product_id = $1 AND seq IS NOT NULL), 0)`, string(w.Product)).Scan(&published)
		if err != nil {
			return err
		}
		if plan.ToSeq == 0 || plan.ToSeq > published {
			plan.ToSeq = published
		}
		if err := plan.narrow(ctx, tx, w); err != nil {
			return err
		}
		var kept int64
		err = tx.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE cardinality($4::text[]) = 0 OR type = ANY ($4))
FROM outbox WHERE product_id = $1 AND seq BETWEEN $2 AND $3`, string(w.Product), plan.FromSeq, plan.ToSeq, plan.types()).Scan(&kept, &plan.Matched)
		plan.Missing = max(0, plan.ToSeq-plan.FromSeq+1-kept)
		return err
	})
	if err == nil && plan.Matched == 0 {
		err = ErrNothing
	}
	if err != nil {
		return Replay{}, fmt.Errorf("plan replay of %s: %w", w.Product, err)
	}
	plan.NextSeq = plan.FromSeq
	return plan, nil
}

// narrow makes the range smaller where an event or times are named.
func (r *Replay) narrow(ctx context.Context, tx pgx.Tx, w Wanted) error {
	within := func(where string, args ...any) error {
		var least, greatest *int64
		err := tx.QueryRow(ctx, `SELECT min(seq), max(seq) FROM outbox WHERE product_id = $1 AND seq IS NOT NULL AND `+where,
			append([]any{string(w.Product)}, args...)...).Scan(&least, &greatest)
		switch {
		case err != nil:
			return err
		case least == nil:
			return ErrNothing
		}
		r.FromSeq, r.ToSeq = max(r.FromSeq, *least), min(r.ToSeq, *greatest)
		return nil
	}
	if w.EventID != "" {
		if err := within(`id = $2::text::uuid`, w.EventID); err != nil {
			return err
		}
	}
	if w.Since.IsZero() && w.Until.IsZero() {
		return nil
	}
	until := w.Until
	if until.IsZero() {
		until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return within(`created_at >= $2 AND created_at < $3`, w.Since, until)
}

func (r Replay) types() []string {
	if r.Types == nil {
		return []string{}
	}
	return r.Types
}

const replayColumns = `id, product_id, from_seq, to_seq, types, topic, rate, operator, matched, next_seq, sent, attempt, state, started_at, updated_at`

func scanReplay(row pgx.CollectableRow) (Replay, error) {
	var r Replay
	var id string
	err := row.Scan(&r.ID, &id, &r.FromSeq, &r.ToSeq, &r.Types, &r.Topic, &r.Rate, &r.Operator, &r.Matched, &r.NextSeq, &r.Sent, &r.Attempt,
		&r.State, &r.StartedAt, &r.UpdatedAt)
	r.Product = product.ID(id)
	return r, err
}

// Replay looks one up; ErrNoReplay when it is unknown.
func (o *Outbox) Replay(ctx context.Context, id string) (Replay, error) {
	rows, err := o.pool.Query(ctx, `SELECT `+replayColumns+` FROM outbox_replays WHERE id = $1`, id)
	if err == nil {
		var r Replay
		if r, err = pgx.CollectExactlyOneRow(rows, scanReplay); err == nil {
			return r, nil
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoReplay
	}
	return Replay{}, fmt.Errorf("look up replay %s: %w", id, err)
}

// Unfinished lists the replays that run or were stopped, the newest first, at most 100.
func (o *Outbox) Unfinished(ctx context.Context) ([]Replay, error) {
	rows, err := o.pool.Query(ctx, `SELECT `+replayColumns+` FROM outbox_replays WHERE state <> 'done' ORDER BY updated_at DESC LIMIT 100`)
	if err == nil {
		var found []Replay
		if found, err = pgx.CollectRows(rows, scanReplay); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("list replays: %w", err)
}
