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

// instant is how a time (UTC) is written into a statement that takes no parameters.
const instant = "2006-01-02 15:04:05+00"

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

// exists asks the catalogue itself: within a transaction that waited for a lock, to_regclass may answer from a cache that has not
// heard of what others made meanwhile.
const exists = `SELECT EXISTS (
SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox'::regclass AND c.relname = $1)`

func (o *Outbox) hasPartition(ctx context.Context, day time.Time) (bool, error) {
	var found bool
	if err := o.pool.QueryRow(ctx, exists, day.Format(dayName)).Scan(&found); err != nil {
		return false, fmt.Errorf("look for outbox partition %s: %w", day.Format(dayName), err)
	}
	return found, nil
}

// makePartition builds the table apart and attaches it: unlike CREATE TABLE … PARTITION OF, that need not shut out
// readers and writers of the other partitions.
func (o *Outbox) makePartition(ctx context.Context, day time.Time) error {
	name := day.Format(dayName)
	err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+partitionKey+`)`, partitionLock); err != nil {
			return err
		}
		var found bool // Another process may have been first.
		if err := tx.QueryRow(ctx, exists, name).Scan(&found); err != nil || found {
			return err
		}
		for _, statement := range partitionStatements(name, day, time.Now()) {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make outbox partition %s: %w", name, err)
	}
	return nil
}

// partitionStatements are in an order that cannot meet a relay or a judge halfway: the tables are locked, the whole before its
// part, before one of their rows is. The name and the times are made of digits only, since such statements take no parameters.
func partitionStatements(name string, day, now time.Time) []string {
	from, to := day.Format(instant), day.AddDate(0, 0, 1).Format(instant)
	lock := `LOCK TABLE ONLY outbox IN SHARE UPDATE EXCLUSIVE MODE`
	if day.Before(now.AddDate(0, 0, 2)) {
		// Rows may be on their way into the default partition. An insert that had chosen it before the new one was
		// attached would fail, so it must wait before it chooses.
		lock = `LOCK TABLE ONLY outbox IN ACCESS EXCLUSIVE MODE`
	}
	return []string{
		`SET LOCAL lock_timeout = '1s'`,
		// Events are written once and never changed; commands and dead letters, the few, are marked once.
		`CREATE TABLE ` + name + ` (LIKE outbox INCLUDING ALL)`,
		`ALTER TABLE ` + name + ` ADD CONSTRAINT day CHECK (created_at >= '` + from + `' AND created_at < '` + to + `')`,
		lock,
		`LOCK TABLE ONLY outbox_default IN ACCESS EXCLUSIVE MODE`,
		`WITH moved AS (DELETE FROM outbox_default WHERE created_at >= '` + from + `' AND created_at < '` + to + `' RETURNING *)
		 INSERT INTO ` + name + ` SELECT * FROM moved`,
		`ALTER TABLE outbox ATTACH PARTITION ` + name + ` FOR VALUES FROM ('` + from + `') TO ('` + to + `')`,
		`ALTER TABLE ` + name + ` DROP CONSTRAINT day`,
	}
}
