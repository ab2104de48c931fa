package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

// banLongest bounds a ban: longer than any sale, and far from the end of time.
const banLongest = 10 * 366 * 24 * time.Hour

// Eviction puts a user out of a product's line, and keeps them out. Exactly one of Until and For is set.
type Eviction struct {
	User   product.UserID
	Hash   product.UserHash // of User
	Until  time.Time        // to the millisecond
	For    time.Duration    // from now, by the clock of the ledger; at least 1 ms
	Reason string           // for the audit trail; at most 200 bytes
}

// Ban is one change of who may not be in a line.
type Ban struct {
	User  product.UserHash
	Until time.Time // in the past: lifted, or over
	V     int64     // the number of the change; rises over all changes of the product
}

// Evict writes down that a user may not be in the line until a time, which the scheduler then sees to in Redis (U10); a later eviction of the same
// user replaces the time, whether it is sooner or later. ActionResult.BannedUntil tells it. Errors: ErrUnknownProduct, ErrInvalid, ErrRequestReused.
func (l *Ledger) Evict(ctx context.Context, a Action, e Eviction) (ActionResult, error) {
	if err := e.validate(); err != nil {
		return ActionResult{}, fmt.Errorf("evict from %s: %w: %w", a.Product, ErrInvalid, err)
	}
	body := struct {
		User   product.UserID `json:"user"`
		Until  *time.Time     `json:"until,omitempty"`
		ForMS  int64          `json:"for_ms,omitempty"`
		Reason string         `json:"reason,omitempty"`
	}{User: e.User, ForMS: e.For.Milliseconds(), Reason: e.Reason}
	if !e.Until.IsZero() {
		until := e.Until.UTC()
		body.Until = &until
	}
	return l.act(ctx, call{Action: a, name: "evict", body: body, do: func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error) {
		if row == nil {
			return ActionResult{}, ErrUnknownProduct
		}
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
			return ActionResult{}, err
		}
		until := e.Until
		if until.IsZero() {
			until = now.Add(e.For)
		}
		if until = until.Truncate(time.Millisecond).UTC(); !until.After(now) || until.Sub(now) > banLongest {
			return ActionResult{}, fmt.Errorf("until: expected a time to come, at most ten years from now: %w", ErrInvalid)
		}
		changed, err := ban(ctx, tx, a.Product, e.Hash, e.User, until)
		return ActionResult{Product: changed, BannedUntil: until}, err
	}})
}

// Unban lets an evicted user join again, at the end of the line. One who is not banned stays so, and nothing changes. Errors: ErrUnknownProduct,
// ErrInvalid, ErrRequestReused.
func (l *Ledger) Unban(ctx context.Context, a Action, user product.UserID, hash product.UserHash) (ActionResult, error) {
	e := Eviction{User: user, Hash: hash, For: time.Millisecond}
	if err := e.validate(); err != nil {
		return ActionResult{}, fmt.Errorf("unban from %s: %w: %w", a.Product, ErrInvalid, err)
	}
	body := struct {
		User product.UserID `json:"user"`
	}{user}
	return l.act(ctx, call{Action: a, name: "unban", body: body, do: func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error) {
		if row == nil {
			return ActionResult{}, ErrUnknownProduct
		}
		var banned bool
		if err := tx.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM bans WHERE product_id = $1 AND user_hash = $2 AND until > clock_timestamp())`,
			string(a.Product), string(hash)).Scan(&banned); err != nil || !banned {
			return ActionResult{Product: *row}, err
		}
		changed, err := ban(ctx, tx, a.Product, hash, user, time.UnixMilli(0))
		return ActionResult{Product: changed}, err
	}})
}

// ban writes the newest word about a user under the product's next number, which is the time where that is higher: after the ledger was put back to
// an earlier moment, lines have numbers that it does not know, and must not take its next changes for old ones. The caller holds the product's row.
func ban(ctx context.Context, tx pgx.Tx, p product.ID, hash product.UserHash, user product.UserID, until time.Time) (ProductRow, error) {
	if _, err := tx.Exec(ctx, `
WITH next AS (UPDATE products SET bans_v = greatest(bans_v + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) WHERE id = $1 RETURNING bans_v)
INSERT INTO bans (product_id, user_hash, user_id, until, v) SELECT $1, $2, $3, $4, bans_v FROM next
ON CONFLICT (product_id, user_hash) DO UPDATE SET user_id = excluded.user_id, until = excluded.until, v = excluded.v`,
		string(p), string(hash), string(user), until); err != nil {
		return ProductRow{}, err
	}
	return read(ctx, tx, p)
}

func (e Eviction) validate() error {
	if _, err := product.ParseUserID(string(e.User)); err != nil {
		return err
	}
	if _, err := product.ParseUserHash(string(e.Hash)); err != nil {
		return err
	}
	if e.Until.IsZero() == (e.For == 0) || e.For < 0 || e.For > 0 && e.For < time.Millisecond {
		return fmt.Errorf("until: expected a time, or a duration of at least 1 ms: %w", ErrInvalid)
	}
	if len(e.Reason) > 200 || !storable(e.Reason) {
		return fmt.Errorf("reason: expected at most 200 bytes of text: %w", ErrInvalid)
	}
	return nil
}

// RevokePasses makes every pass that was handed out until now worthless (pass_epoch+1), by settings of the next version. Errors: ErrUnknownProduct,
// ErrInvalid, ErrRequestReused.
func (l *Ledger) RevokePasses(ctx context.Context, a Action, reason string) (ActionResult, error) {
	if len(reason) > 200 || !storable(reason) {
		return ActionResult{}, fmt.Errorf("revoke passes of %s: reason: expected at most 200 bytes of text: %w", a.Product, ErrInvalid)
	}
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	return l.act(ctx, call{Action: a, name: "revoke-passes", body: body, do: func(ctx context.Context, tx pgx.Tx, row *ProductRow) (ActionResult, error) {
		if row == nil {
			return ActionResult{}, ErrUnknownProduct
		}
		if _, err := tx.Exec(ctx, `UPDATE products SET pass_epoch = pass_epoch + 1, settings_v = settings_v + 1 WHERE id = $1`, string(a.Product)); err != nil {
			return ActionResult{}, err
		}
		changed, err := read(ctx, tx, a.Product)
		return ActionResult{Product: changed}, err
	}})
}

// Bans lists the changes above a number in the order of theirs, at most limit, and how far a line is that has them all: up to the last of
// them, or to the product's own number where no more follow. With running set those that are over are left out: a line that begins anew lacks
// nothing by them. A user's older changes are gone. ErrUnknownProduct.
func (l *Ledger) Bans(ctx context.Context, p product.ID, above int64, running bool, limit int) (bans []Ban, upTo int64, err error) {
	op := "list bans of " + string(p)
	// One statement, so that a change which is not in the list has a number above upTo.
	rows, err := l.pool.Query(ctx, `
SELECT p.bans_v, coalesce(b.user_hash, ''), coalesce(b.until, 'epoch'), coalesce(b.v, 0)
FROM products p LEFT JOIN LATERAL (
  SELECT user_hash, until, v FROM bans WHERE product_id = p.id AND v > $2 AND (NOT $3 OR until > now()) ORDER BY v LIMIT $4
) b ON true WHERE p.id = $1 ORDER BY b.v`, string(p), above, running, limit)
	if err != nil {
		return nil, 0, classify(op, err)
	}
	found := false
	bans, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Ban, err error) {
		found = true
		err = row.Scan(&upTo, &b.User, &b.Until, &b.V)
		return b, err
	})
	switch {
	case err != nil:
		return nil, 0, classify(op, err)
	case !found:
		return nil, 0, fmt.Errorf("%s: %w", op, ErrUnknownProduct)
	case bans[0].V == 0: // none
		return nil, upTo, nil
	case len(bans) == limit:
		upTo = bans[len(bans)-1].V
	}
	return bans, upTo, nil
}
