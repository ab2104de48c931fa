package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Dropped is what became of the partitions that are over their time.
type Dropped struct {
	Names []string          // dropped
	Kept  map[string]string // name → why not
}

// DropPartitions drops the partitions of days that ended before the time, whole: never one with an unpublished row, never one that
// a replay has still to read, never the default partition. It may be repeated and may run in several processes at once. For each the whole
// table is locked for a moment; what is not free within a second is left for the next call, with an error.
func (o *Outbox) DropPartitions(ctx context.Context, before time.Time) (Dropped, error) {
	result := Dropped{Kept: map[string]string{}}
	rows, err := o.pool.Query(ctx, `
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'outbox'::regclass AND c.relname ~ '^outbox_[0-9]{8}$' ORDER BY 1`)
	if err != nil {
		return result, fmt.Errorf("list outbox partitions: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return result, fmt.Errorf("list outbox partitions: %w", err)
	}
	for _, name := range names {
		day, err := time.Parse(dayName, name)
		if err != nil || day.AddDate(0, 0, 1).After(before) { // No day of ours, or not over its time.
			continue
		}
		why, gone, err := o.dropPartition(ctx, day)
		switch {
		case err != nil:
			return result, fmt.Errorf("drop outbox partition %s: %w", name, err)
		case gone:
			result.Names = append(result.Names, name)
		case why != "":
			result.Kept[name] = why
		}
	}
	return result, nil
}

// dropPartition asks before it locks, so that a partition which must stay costs nobody a wait, and the function of migration 7 asks again behind
// the lock.
func (o *Outbox) dropPartition(ctx context.Context, day time.Time) (why string, gone bool, err error) {
	if err := o.pool.QueryRow(ctx, `SELECT outbox_keeps_partition($1::date)`, day).Scan(&why); err != nil || why != "" {
		return why, false, err
	}
	err = pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+partitionKey+`)`, partitionLock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		var kept *string // nil: another process was first
		err := tx.QueryRow(ctx, `SELECT outbox_drop_partition($1::date)`, day).Scan(&kept)
		if kept != nil {
			why, gone = *kept, *kept == ""
		}
		return err
	})
	return why, err == nil && gone, err
}
