package outbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// Replayer is the one process that runs a replay. Its token in the replay's row is the fence; a session lock keeps two from running the same
// replay at once. It ends with its connection. Not safe for concurrent use.
type Replayer struct {
	Replay
	conn  *pgx.Conn
	token string
}

// replayKey is the key of a replay's session lock, given its id.
const replayKey = `hashtextextended('hanjul replay ' || %s, ` + postgres.SchemaKey + `)`

// StartReplay writes down the plan and, in the same transaction, the operator's action, and returns who runs it. Topic, Rate and
// Operator must be set. From here on the partitions that it must read are kept.
func (o *Outbox) StartReplay(ctx context.Context, plan Replay) (*Replayer, error) {
	plan.ID, plan.Attempt, plan.State, plan.NextSeq = newReplayID(), 1, StateRunning, plan.FromSeq
	return o.replayer(ctx, plan.ID, func(ctx context.Context, tx pgx.Tx, token string) (Replay, error) {
		if err := keepPartitions(ctx, tx); err != nil {
			return Replay{}, err
		}
		r, err := plan.insert(ctx, tx, token)
		if err != nil {
			return Replay{}, err
		}
		return r, r.act(ctx, tx)
	})
}

// ResumeReplay goes on where the replay stopped, or where its process died, at the given rate. ErrRunning while another process runs
// it, ErrDone when nothing is left, ErrCancelled, ErrNoReplay when it is unknown.
func (o *Outbox) ResumeReplay(ctx context.Context, id, operator string, rate int) (*Replayer, error) {
	return o.replayer(ctx, id, func(ctx context.Context, tx pgx.Tx, token string) (Replay, error) {
		r, err := take(ctx, tx, `
UPDATE outbox_replays SET state = 'running', attempt = attempt + 1, runner = $2, problem = '', operator = $3, rate = $4, updated_at = now()
WHERE id = $1 AND state NOT IN ('done', 'cancelled') RETURNING `+replayColumns, id, token, operator, rate)
		if err != nil {
			return Replay{}, err
		}
		return r, r.act(ctx, tx)
	})
}

// ClaimReplay takes the oldest replay that was asked for in the background and that no process runs: one that waits, or whose process died. It
// does not wait: ErrNoReplay when there is none. Any number of processes may call it at once; each replay goes to one.
func (o *Outbox) ClaimReplay(ctx context.Context) (*Replayer, error) {
	// The lock decides; looking at the locks first saves a connection for each replay that runs elsewhere.
	rows, err := o.pool.Query(ctx, `
SELECT r.id FROM outbox_replays r WHERE r.background AND r.state IN ('waiting', 'running') AND NOT EXISTS (
  SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.objsubid = 1 AND l.granted AND (l.classid::bigint << 32) | l.objid::bigint = `+fmt.Sprintf(replayKey, "r.id")+`)
ORDER BY r.started_at, r.id LIMIT 10`)
	var ids []string
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("look for replays: %w", err)
	}
	for _, id := range ids {
		r, err := o.replayer(ctx, id, func(ctx context.Context, tx pgx.Tx, token string) (Replay, error) {
			return take(ctx, tx, `
UPDATE outbox_replays SET state = 'running', attempt = attempt + 1, runner = $2, problem = '', updated_at = now()
WHERE id = $1 AND background AND state IN ('waiting', 'running') RETURNING `+replayColumns, id, token)
		})
		if isTaken(err) {
			continue
		}
		return r, err
	}
	return nil, ErrNoReplay
}

// isTaken says that another was faster: it runs the replay, ended it, or stopped it.
func isTaken(err error) bool {
	return errors.Is(err, ErrRunning) || errors.Is(err, ErrDone) || errors.Is(err, ErrCancelled) || errors.Is(err, errStopped)
}

var errStopped = errors.New("the replay was stopped")

// take makes the replay of the given id this process's by the statement, and holds its plan against what is kept by now.
func take(ctx context.Context, tx pgx.Tx, statement, id string, args ...any) (Replay, error) {
	if err := keepPartitions(ctx, tx); err != nil {
		return Replay{}, err
	}
	rows, err := tx.Query(ctx, statement, append([]any{id}, args...)...)
	if err != nil {
		return Replay{}, err
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanReplay)
	if errors.Is(err, pgx.ErrNoRows) {
		return Replay{}, whyNot(ctx, tx, id)
	}
	if err != nil {
		return Replay{}, err
	}
	return r, r.recount(ctx, tx)
}

// whyNot says what keeps the replay from being run.
func whyNot(ctx context.Context, tx pgx.Tx, id string) error {
	var state string
	err := tx.QueryRow(ctx, `SELECT state FROM outbox_replays WHERE id = $1`, id).Scan(&state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNoReplay
	case err != nil:
		return err
	case state == StateDone:
		return ErrDone
	case state == StateCancelled:
		return ErrCancelled
	}
	return errStopped
}

// keepPartitions makes this transaction and one that drops partitions take turns: it sees our row, or it is done before we read.
func keepPartitions(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared(`+partitionKey+`)`, partitionLock)
	return err
}

func newReplayID() string { return strings.ToLower(rand.Text()[:12]) }

func (r Replay) insert(ctx context.Context, tx pgx.Tx, token string) (Replay, error) {
	rows, err := tx.Query(ctx, `
INSERT INTO outbox_replays (id, product_id, from_seq, to_seq, types, topic, rate, operator, matched, missing, next_seq, attempt, state, background, runner)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $3, $11, $12, $13, $14) RETURNING `+replayColumns,
		r.ID, string(r.Product), r.FromSeq, r.ToSeq, r.types(), r.Topic, r.Rate, r.Operator, r.Matched, r.Missing, r.Attempt, r.State, r.Background, token)
	if err != nil {
		return Replay{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanReplay)
}

// recount notes what was dropped since the events were counted: while it waited for longer than partitions are kept for it.
func (r *Replay) recount(ctx context.Context, tx pgx.Tx) error {
	var left int64
	err := tx.QueryRow(ctx, `
SELECT count(*) FROM outbox WHERE product_id = $1 AND seq BETWEEN $2 AND $3 AND (cardinality($4::text[]) = 0 OR type = ANY ($4))`,
		string(r.Product), r.NextSeq, r.ToSeq, r.types()).Scan(&left)
	gone := r.Matched - r.Sent - left
	if err != nil || gone <= 0 {
		return err
	}
	r.Matched, r.Missing = r.Matched-gone, r.Missing+gone
	_, err = tx.Exec(ctx, `UPDATE outbox_replays SET matched = $2, missing = $3 WHERE id = $1`, r.ID, r.Matched, r.Missing)
	return err
}

// act writes the audit trail's row of a run that a person began.
func (r Replay) act(ctx context.Context, tx pgx.Tx) error {
	request, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
INSERT INTO operator_actions (request_id, operator, action, product_id, request, result) VALUES ($1, $2, 'replay', $3, $4, $5)`,
		fmt.Sprintf("replay-%s-%d", r.ID, r.Attempt), r.Operator, string(r.Product), request, fmt.Sprintf(`{"matched": %d}`, r.Matched))
	return err
}

// begun is how a process becomes a replay's runner, in one transaction.
type begun func(ctx context.Context, tx pgx.Tx, token string) (Replay, error)

func (o *Outbox) replayer(ctx context.Context, id string, begin begun) (*Replayer, error) {
	conn, err := postgres.Connect(ctx, o.address, postgres.Session{Name: "hanjul-replay", ConnectTimeout: connectWithin, Params: map[string]string{
		"statement_timeout": "30000", "enable_seqscan": "off",
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3",
	}})
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", id, err)
	}
	r := &Replayer{conn: conn, token: rand.Text()}
	if err := r.begin(ctx, id, begin); err != nil {
		r.Close(ctx)
		return nil, fmt.Errorf("replay %s: %w", id, err)
	}
	return r, nil
}

func (r *Replayer) begin(ctx context.Context, id string, begin begun) error {
	var locked bool
	if err := r.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+fmt.Sprintf(replayKey, "$1")+`)`, id).Scan(&locked); err != nil {
		return err
	}
	if !locked {
		return ErrRunning
	}
	return pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) (err error) {
		r.Replay, err = begin(ctx, tx, r.token)
		return err
	})
}

// Check says whether the replay is still this process's to run: ErrCancelled, or ErrLost when another process has taken it over.
func (r *Replayer) Check(ctx context.Context) error {
	var state string
	err := r.conn.QueryRow(ctx, `SELECT state FROM outbox_replays WHERE id = $1 AND runner = $2`, r.ID, r.token).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrLost
	}
	return r.told("check", state, err)
}

// told turns what a statement said of the replay's state into an error.
func (r *Replayer) told(what, state string, err error) error {
	if err == nil && state == StateCancelled {
		r.State, err = state, ErrCancelled
	}
	if err != nil {
		return fmt.Errorf("%s replay %s: %w", what, r.ID, err)
	}
	return nil
}

// Next returns the replay's next events, at most limit, by seq; none at all means that everything was sent. Errors as Check's: after a cancel
// nothing more is to be sent.
func (r *Replayer) Next(ctx context.Context, limit int) ([]Row, error) {
	if err := r.Check(ctx); err != nil {
		return nil, err
	}
	rows, err := r.conn.Query(ctx, `
SELECT id::text, created_at, n, topic, product_id, seq, aggregatetype, aggregateid, type, payload, coalesce(traceparent, '')
FROM outbox WHERE product_id = $1 AND seq BETWEEN $2 AND $3 AND (cardinality($4::text[]) = 0 OR type = ANY ($4))
ORDER BY seq LIMIT $5`, string(r.Product), r.NextSeq, r.ToSeq, r.types(), limit)
	if err == nil {
		var found []Row
		if found, err = pgx.CollectRows(rows, scanRow); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("read events of replay %s: %w", r.ID, err)
}

func scanRow(row pgx.CollectableRow) (Row, error) {
	var r Row
	var id string
	err := row.Scan(&r.ID, &r.CreatedAt, &r.N, &r.Topic, &id, &r.Seq, &r.AggregateType, &r.AggregateID, &r.Type, &r.Payload, &r.Traceparent)
	r.Product = product.ID(id)
	return r, err
}

// Advance notes that the rows, the next ones, were acknowledged. ErrLost when another process has taken the replay over; ErrCancelled when
// it was cancelled meanwhile: what was sent is noted all the same.
func (r *Replayer) Advance(ctx context.Context, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	next, sent := rows[len(rows)-1].Seq+1, r.Sent+int64(len(rows))
	err := r.write(ctx, `next_seq = $3, sent = $4`, next, sent)
	if err == nil || errors.Is(err, ErrCancelled) {
		r.NextSeq, r.Sent = next, sent
	}
	return err
}

// End notes that the replay is done, or that it waits or is stopped, and why. One that was cancelled stays so: ErrCancelled. What was dropped under one
// that stood still for longer than partitions are kept for it counts as missing once it is done.
func (r *Replayer) End(ctx context.Context, state, why string) error {
	err := r.write(ctx, `state = CASE WHEN state = 'running' THEN $3 ELSE state END, problem = $4,
missing = missing + CASE WHEN $3 = 'done' THEN greatest(0, matched - sent) ELSE 0 END, matched = CASE WHEN $3 = 'done' THEN sent ELSE matched END`,
		state, text(why))
	if err != nil {
		return err
	}
	if r.State, r.Problem = state, text(why); state == StateDone {
		r.Missing, r.Matched = r.Missing+max(0, r.Matched-r.Sent), r.Sent
	}
	return nil
}

// text bounds what is kept of an error, and takes out what the database cannot hold.
func text(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "")
	}
	return s
}

// write changes the row where it is still ours. A cancelled replay is nobody else's, so its runner may tell how far it came.
func (r *Replayer) write(ctx context.Context, set string, args ...any) error {
	var state string
	err := r.conn.QueryRow(ctx, `
UPDATE outbox_replays SET `+set+`, updated_at = now() WHERE id = $1 AND runner = $2 AND state IN ('running', 'cancelled') RETURNING state`,
		append([]any{r.ID, r.token}, args...)...).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrLost
	}
	return r.told("note", state, err)
}

// Close ends the session. A replay that was not ended can be resumed by anybody. It may be repeated.
func (r *Replayer) Close(ctx context.Context) { _ = r.conn.Close(ctx) }
