package ledger

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const orderColumns = `order_id::text, product_id, coalesce(user_id, ''), user_hash, coalesce(place, 0), coalesce(quantity, 0), status,
coalesce(reason, ''), version, coalesce(idem_key, ''), digest, coalesce(duplicate_of::text, ''), seq, judged_at`

func scanOrder(row pgx.CollectableRow) (OrderRow, error) {
	var r OrderRow
	err := row.Scan(&r.OrderID, &r.Product, &r.UserID, &r.User, &r.Place, &r.Quantity, &r.State,
		&r.Reason, &r.Version, &r.IdemKey, &r.Digest, &r.DuplicateOf, &r.Seq, &r.JudgedAt)
	return r, err
}

const commandColumns = `command_id, product_id, kind, result, coalesce(seq, 0), judged_at`

func scanCommand(row pgx.CollectableRow) (CommandRow, error) {
	var r CommandRow
	err := row.Scan(&r.CommandID, &r.Product, &r.Kind, &r.Result, &r.Seq, &r.JudgedAt)
	return r, err
}

const letterColumns = `id, topic, partition, "offset", coalesce(product_id, ''), coalesce(order_id::text, ''), coalesce(command_id, ''),
reason, state, recorded_at, parked_at`

func scanLetter(row pgx.CollectableRow) (LetterRow, error) {
	var r LetterRow
	err := row.Scan(r.columns()...)
	return r, err
}

func (r *LetterRow) columns() []any {
	return []any{
		&r.ID, &r.Topic, &r.Partition, &r.Offset, &r.Product, &r.OrderID, &r.CommandID, &r.Reason, &r.State, &r.RecordedAt, &r.ParkedAt,
	}
}

const outboxColumns = `id::text, n, topic, product_id, coalesce(seq, 0), type, aggregateid, payload, coalesce(traceparent, ''),
coalesce(left_after, 0), created_at,
CASE WHEN seq IS NULL THEN published_at IS NOT NULL
ELSE seq < coalesce((SELECT min(from_seq) FROM outbox_runs r WHERE r.product_id = outbox.product_id), seq + 1) END`

func scanOutbox(row pgx.CollectableRow) (OutboxRow, error) {
	var r OutboxRow
	var payload string
	err := row.Scan(&r.ID, &r.N, &r.Topic, &r.Product, &r.Seq, &r.Type, &r.Subject, &payload, &r.Traceparent,
		&r.LeftAfter, &r.CreatedAt, &r.Published)
	r.Payload = []byte(payload)
	return r, err
}

const productColumns = `p.id, p.settings, p.settings_v, p.line_inc, coalesce(p.opened_us, 0), p.front, p.active_n, p.front_at, p.pass_epoch, p.bans_v,
coalesce(s.total, 0), coalesce(s.sold, 0), coalesce(s.seq, 0)`

// scanProduct reads a product; a setting that is younger than its row takes its default (product.Settings.UnmarshalJSON).
func scanProduct(row pgx.CollectableRow) (r ProductRow, err error) {
	var frontAt *time.Time
	err = row.Scan(&r.ID, &r.Settings, &r.SettingsV, &r.LineInc, &r.OpenedUS, &r.Front, &r.ActiveN, &frontAt, &r.PassEpoch, &r.BansV,
		&r.Total, &r.Sold, &r.Seq)
	if frontAt != nil {
		r.FrontAt = *frontAt
	}
	return r, err
}

// one is the single row of a query, or missing.
func one[T any](rows pgx.Rows, err error, scan pgx.RowToFunc[T], missing error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, missing
	}
	return row, err
}
