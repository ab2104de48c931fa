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
	// ErrCancelled says that an operator ended the replay for good.
	ErrCancelled = errors.New("the replay was cancelled")
	// ErrRunning says that another process runs the replay.
	ErrRunning = errors.New("the replay is running elsewhere")
)

// The bounds of a replay's rate, in events per second, from 1.
const (
	RateDefault = 500
	RateMax     = 100_000
)

// Wanted says which events of a product are to be published again. Zero values are open ends.
type Wanted struct {
	Product product.ID `json:"product"`
	FromSeq int64      `json:"from_seq,omitzero"`
	ToSeq   int64      `json:"to_seq,omitzero"`
	Since   time.Time  `json:"since,omitzero"` // of the events' own times, as Until, which is excluded; they are turned into a range of seq
	Until   time.Time  `json:"until,omitzero"`
	Types   []string   `json:"types,omitempty"`
	EventID string     `json:"event_id,omitempty"` // a UUID
}

// Replay is one replay and how far it has come.
type Replay struct {
	ID       string     `json:"id"`
	Product  product.ID `json:"product"`
	FromSeq  int64      `json:"from_seq"`
	ToSeq    int64      `json:"to_seq"`
	Types    []string   `json:"types,omitempty"`
	Topic    string     `json:"topic"`
	Rate     int        `json:"rate"` // events per second
	Operator string     `json:"operator"`
	Matched  int64      `json:"matched"` // events of the range and the types that are kept
	Missing  int64      `json:"missing"` // events of the range that are not kept any more
	NextSeq  int64      `json:"next_seq"`
	Sent     int64      `json:"sent"`
	Attempt  int        `json:"attempt"`           // runs so far
	State    string     `json:"state"`             // one of the states below
	Problem  string     `json:"problem,omitempty"` // why the last run ended early
	// Background says that any order-consumer may take it up; otherwise somebody runs it.
	Background bool      `json:"background"`
	StartedAt  time.Time `json:"started_at"` // when it was asked for
	UpdatedAt  time.Time `json:"updated_at"`
}

// The states of a replay. The last two are final.
const (
	StateWaiting   = "waiting" // for a process that takes it
	StateRunning   = "running" // or its process died
	StateStopped   = "stopped" // until somebody lets it go on
	StateCancelled = "cancelled"
	StateDone      = "done"
)

// PlanReplay turns what is wanted into a range of seq and counts it; nothing is written. Only what was published is replayed, up to the
// product's first row that was not, so that no event appears anywhere for the first time through a replay. A time becomes the least
// and the greatest seq of the rows that carry it, and everything between them: a row may commit later than its time says, but never
// out of the order of seq (F40). ErrNothing when nothing matches; its text says from which seq on events are still kept.
func (o *Outbox) PlanReplay(ctx context.Context, w Wanted) (Replay, error) {
	var r Replay
	err := pgx.BeginTxFunc(ctx, o.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		r, err = plan(ctx, tx, w)
		return err
	})
	if err != nil {
		return Replay{}, fmt.Errorf("plan replay of %s: %w", w.Product, err)
	}
	return r, nil
}

// plan may also run where others write meanwhile: what is published stays so, and the range ends where the first statement saw it end.
func plan(ctx context.Context, tx pgx.Tx, w Wanted) (Replay, error) {
	r := Replay{Product: w.Product, FromSeq: max(1, w.FromSeq), ToSeq: w.ToSeq, Types: w.Types}
	var oldest, published int64 // What was dropped counts as published: the books' own seq tells of it.
	err := tx.QueryRow(ctx, `
SELECT coalesce(o.oldest, o.newest + 1), coalesce(o.waits - 1, o.newest) FROM (SELECT
  (SELECT min(seq) FROM outbox WHERE product_id = $1 AND seq IS NOT NULL) AS oldest,
  (SELECT min(from_seq) FROM outbox_runs WHERE product_id = $1) AS waits,
  greatest((SELECT max(seq) FROM outbox WHERE product_id = $1 AND seq IS NOT NULL), (SELECT seq FROM stock WHERE product_id = $1), 0) AS newest) o`,
		string(w.Product)).Scan(&oldest, &published)
	if err != nil {
		return r, err
	}
	if r.ToSeq == 0 || r.ToSeq > published {
		r.ToSeq = published
	}
	err = r.narrow(ctx, tx, w)
	if err == nil {
		var kept int64
		err = tx.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE cardinality($4::text[]) = 0 OR type = ANY ($4))
FROM outbox WHERE product_id = $1 AND seq BETWEEN $2 AND $3`, string(w.Product), r.FromSeq, r.ToSeq, r.types()).Scan(&kept, &r.Matched)
		r.Missing = max(0, r.ToSeq-r.FromSeq+1-kept)
		if err == nil && r.Matched == 0 {
			err = ErrNothing
		}
	}
	if errors.Is(err, ErrNothing) && oldest > 1 {
		err = fmt.Errorf("%w; events before seq %d are no longer kept", err, oldest)
	}
	r.NextSeq = r.FromSeq
	return r, err
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

const replayColumns = `id, product_id, from_seq, to_seq, types, topic, rate, operator, matched, next_seq, sent, attempt, state,
missing, problem, background, started_at, updated_at`

func scanReplay(row pgx.CollectableRow) (Replay, error) {
	var r Replay
	var id string
	err := row.Scan(&r.ID, &id, &r.FromSeq, &r.ToSeq, &r.Types, &r.Topic, &r.Rate, &r.Operator, &r.Matched, &r.NextSeq, &r.Sent, &r.Attempt,
		&r.State, &r.Missing, &r.Problem, &r.Background, &r.StartedAt, &r.UpdatedAt)
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

// Unfinished lists the replays that are neither done nor cancelled, the newest first, at most 100.
func (o *Outbox) Unfinished(ctx context.Context) ([]Replay, error) {
	return o.replays(ctx, `WHERE state NOT IN ('done', 'cancelled') ORDER BY updated_at DESC LIMIT 100`)
}

// Replays lists a product's replays in every state, also those that were run by hand, the newest first, at most 100.
func (o *Outbox) Replays(ctx context.Context, p product.ID) ([]Replay, error) {
	return o.replays(ctx, `WHERE product_id = $1 ORDER BY started_at DESC, id LIMIT 100`, string(p))
}

func (o *Outbox) replays(ctx context.Context, which string, args ...any) ([]Replay, error) {
	rows, err := o.pool.Query(ctx, `SELECT `+replayColumns+` FROM outbox_replays `+which, args...)
	if err == nil {
		var found []Replay
		if found, err = pgx.CollectRows(rows, scanReplay); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("list replays: %w", err)
}
