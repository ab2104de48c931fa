package outbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

// Replayer is the one process that runs a replay. Its token in the replay's row is the fence; a session lock keeps two from resuming the same
// replay at once. It ends with its connection. Not safe for concurrent use.
type Replayer struct {
	Replay
	conn  *pgx.Conn
	token string
}

// StartReplay writes down the plan and, in the same transaction, the operator's action, and returns who runs it. Topic, Rate and
// Operator must be set. From here on the partitions that it must read are kept.
func (o *Outbox) StartReplay(ctx context.Context, plan Replay) (*Replayer, error) {
	plan.ID, plan.Attempt, plan.State, plan.NextSeq = strings.ToLower(rand.Text()[:12]), 1, StateRunning, plan.FromSeq
	return o.replayer(ctx, plan.ID, func(tx pgx.Tx, token string) (Replay, error) {
		// Beside one that drops partitions: it sees our row, or it is done before we read.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared($1)`, partitionLock); err != nil {
			return Replay{}, err
		}
		_, err := tx.Exec(ctx, `
INSERT INTO outbox_replays (id, product_id, from_seq, to_seq, types, topic, rate, operator, matched, next_seq, runner)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $3, $10)`,
			plan.ID, string(plan.Product), plan.FromSeq, plan.ToSeq, plan.types(), plan.Topic, plan.Rate, plan.Operator, plan.Matched, token)
		return plan, err
	})
}

// ResumeReplay goes on where the replay stopped, or where its process died, at the given rate. ErrRunning while another process runs
// it, ErrDone when nothing is left, ErrNoReplay when it is unknown.
func (o *Outbox) ResumeReplay(ctx context.Context, id, operator string, rate int) (*Replayer, error) {
	return o.replayer(ctx, id, func(tx pgx.Tx, token string) (Replay, error) {
		rows, err := tx.Query(ctx, `
UPDATE outbox_replays SET state = 'running', attempt = attempt + 1, runner = $2, operator = $3, rate = $4, updated_at = now()
WHERE id = $1 AND state <> 'done' RETURNING `+replayColumns, id, token, operator, rate)
		if err != nil {
			return Replay{}, err
		}
		r, err := pgx.CollectExactlyOneRow(rows, scanReplay)
		if errors.Is(err, pgx.ErrNoRows) {
			var known bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox_replays WHERE id = $1)`, id).Scan(&known); err != nil {
				return Replay{}, err
			}
			if !known {
				return Replay{}, ErrNoReplay
			}
			return Replay{}, ErrDone
		}
		return r, err
	})
}

func (o *Outbox) replayer(ctx context.Context, id string, begin func(tx pgx.Tx, token string) (Replay, error)) (*Replayer, error) {
	config, err := pgx.ParseConfig(o.url)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", id, err)
	}
	config.ConnectTimeout = connectWithin
	for name, value := range map[string]string{
		"application_name": "hanjul-replay", "statement_timeout": "30000", "enable_seqscan": "off",
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
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

func (r *Replayer) begin(ctx context.Context, id string, begin func(tx pgx.Tx, token string) (Replay, error)) error {
	var locked bool
	if err := r.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended('hanjul replay ' || $1, 0))`, id).Scan(&locked); err != nil {
		return err
	}
	if !locked {
		return ErrRunning
	}
	return pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) (err error) {
		if r.Replay, err = begin(tx, r.token); err != nil {
			return err
		}
		request, err := json.Marshal(r.Replay)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
INSERT INTO operator_actions (request_id, operator, action, product_id, request, result) VALUES ($1, $2, 'replay', $3, $4, $5)`,
			fmt.Sprintf("replay-%s-%d", r.ID, r.Attempt), r.Operator, string(r.Product), request, fmt.Sprintf(`{"matched": %d}`, r.Matched))
		return err
	})
}

// Next returns the replay's next events, at most limit, by seq; none at all means that everything was sent.
func (r *Replayer) Next(ctx context.Context, limit int) ([]Row, error) {
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

// Advance notes that the rows, the next ones, were acknowledged. ErrLost when another process has taken the replay over.
func (r *Replayer) Advance(ctx context.Context, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	next, sent := rows[len(rows)-1].Seq+1, r.Sent+int64(len(rows))
	if err := r.write(ctx, `next_seq = $3, sent = $4`, next, sent); err != nil {
		return err
	}
	r.NextSeq, r.Sent = next, sent
	return nil
}

// End notes that the replay is done, or stopped.
func (r *Replayer) End(ctx context.Context, state string) error {
	if err := r.write(ctx, `state = $3`, state); err != nil {
		return err
	}
	r.State = state
	return nil
}

func (r *Replayer) write(ctx context.Context, set string, args ...any) error {
	tag, err := r.conn.Exec(ctx, `UPDATE outbox_replays SET `+set+`, updated_at = now() WHERE id = $1 AND runner = $2 AND state = 'running'`,
		append([]any{r.ID, r.token}, args...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrLost
	}
	if err != nil {
		return fmt.Errorf("note replay %s: %w", r.ID, err)
	}
	return nil
}

// Close ends the session. A replay that was not ended can be resumed by anybody. It may be repeated.
func (r *Replayer) Close(ctx context.Context) { _ = r.conn.Close(ctx) }
