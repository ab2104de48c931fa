package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/postgres"
)

// partitionLock lets one process at a time change partitions, "hanjul-p" in ASCII.
const (
	partitionLock = int64(0x68616e6a756c2d70)
	partitionKey  = `$1::bigint # ` + postgres.SchemaKey
)

// dayName is how the partition of a day (UTC) is called.
const dayName = "outbox_20060102"

// MakePartitions makes a partition for the day of from and each of the days after it, days in all (UTC), and returns how many
// were not there. Rows of such a day that lie in the default partition move to the new one. It may be repeated and may run in
// several processes at once. A day whose locks are not free within a second is left for the next call, with an error: inserts
// must not queue up behind us. So call it days ahead; for today and tomorrow the whole table is locked for that moment.
func (o *Outbox) MakePartitions(ctx context.Context, from time.Time, days int) (int, error) {
	day := from.UTC().Truncate(24 * time.Hour)
	made := 0
	for range days {
		found, err := o.hasPartition(ctx, day)
		if err != nil {
			return made, err
		}
		if !found {
			if err := o.makePartition(ctx, day); err != nil {
				return made, err
			}
			made++
		}
		day = day.AddDate(0, 0, 1)
	}
	return made, nil
}

const exists = `SELECT EXISTS (
SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox'::regclass AND c.relname = $1)`

func (o *Outbox) hasPartition(ctx context.Context, day time.Time) (bool, error) {
	var found bool
	if err := o.pool.QueryRow(ctx, exists, day.Format(dayName)).Scan(&found); err != nil {
		return false, fmt.Errorf("look for outbox partition %s: %w", day.Format(dayName), err)
	}
	return found, nil
}

// makePartition lets the function of migration 7 do it, which acts as the schema's owner.
func (o *Outbox) makePartition(ctx context.Context, day time.Time) error {
	err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+partitionKey+`)`, partitionLock); err != nil {
			return err
		}
		// In a statement of its own: it sees what was made while we waited.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT outbox_make_partition($1::date)`, day)
		return err
	})
	if err != nil {
		return fmt.Errorf("make outbox partition %s: %w", day.Format(dayName), err)
	}
	return nil
}
