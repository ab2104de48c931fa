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

// Why a partition over its time stays.
const (
	keptUnpublished = "unpublished rows"
	keptReplay      = "a replay reads it"
)

// keeps says why the partition of the given name must stay. It never reads the partition whole. A replay that runs, and for a day after its
// last sign of life one that waits, was stopped or died, keeps what it still has to read.
const keeps = `
SELECT CASE
  WHEN EXISTS (SELECT FROM outbox_runs WHERE created_at >= '%[2]s' AND created_at < '%[3]s')
    OR EXISTS (SELECT FROM %[1]s WHERE published_at IS NULL AND seq IS NULL) THEN '` + keptUnpublished + `'
  WHEN EXISTS (SELECT FROM outbox_replays r WHERE r.state NOT IN ('done', 'cancelled') AND r.updated_at > now() - interval '1 day'
    AND EXISTS (SELECT FROM %[1]s o WHERE o.product_id = r.product_id AND o.seq BETWEEN r.next_seq AND r.to_seq)) THEN '` + keptReplay + `'
  ELSE '' END`

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
		why, gone, err := o.dropPartition(ctx, name, day)
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

// dropPartition asks before it locks, so that a partition which must stay costs nobody a wait, and again behind the lock.
func (o *Outbox) dropPartition(ctx context.Context, name string, day time.Time) (why string, gone bool, err error) {
	question := fmt.Sprintf(keeps, name, day.Format(instant), day.AddDate(0, 0, 1).Format(instant))
	if err := o.pool.QueryRow(ctx, question).Scan(&why); err != nil || why != "" {
		return why, false, err
	}
	err = pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+partitionKey+`)`, partitionLock); err != nil {
			return err
		}
		var found bool // Another process may have been first.
		if err := tx.QueryRow(ctx, exists, name).Scan(&found); err != nil || !found {
			return err
		}
		for _, statement := range []string{`SET LOCAL lock_timeout = '1s'`, `LOCK TABLE ONLY outbox IN ACCESS EXCLUSIVE MODE`, `LOCK TABLE ` + name + ` IN ACCESS EXCLUSIVE MODE`} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		if err := tx.QueryRow(ctx, question).Scan(&why); err != nil || why != "" {
			return err
		}
		_, err := tx.Exec(ctx, `DROP TABLE `+name)
		gone = err == nil
		return err
	})
	return why, gone && err == nil, err
}
