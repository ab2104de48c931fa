package outbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// MaxShards bounds the number of shards: each that is held is a lock of the server's.
const MaxShards = 256

// The first key of the advisory locks, in ASCII. "hjrp": a process is there, shared, its number of shards is the second key. "hjrs": a
// shard is owned, its number is the second key. They are as wide as a database, so the schema's number is mixed in.
const (
	presentLock = int32(0x686a7270)
	shardLock   = int32(0x686a7273)

	firstKey = `$1::int # ` + postgres.SchemaKey
)

// Shard is the shard of a product, from 0 to shards-1. shardOfLane is the same in SQL.
func Shard(p product.ID, shards int) int {
	sum := sha256.Sum256([]byte(p))
	return (int(sum[0])<<8 | int(sum[1])) % shards
}

// shardOfLane is Shard in the SQL of pick.
const shardOfLane = `(get_byte(sha256(convert_to(lane.product_id, 'UTF8')), 0) * 256
  + get_byte(sha256(convert_to(lane.product_id, 'UTF8')), 1)) % $7::int`

// ours are the advisory locks of this database with two keys.
const ours = `
WITH ours AS (SELECT classid, objid::int, pid FROM pg_locks
  WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND objsubid = 2 AND granted)`

// present lists the sessions that share the outbox: their number of shards, whether they are this one, and how many shards this one holds.
const present = ours + `
SELECT objid, pid = pg_backend_pid(), (SELECT count(*) FROM ours WHERE classid = ($2::int # ` + postgres.SchemaKey + `)::oid AND pid = pg_backend_pid())
FROM ours WHERE classid = (` + firstKey + `)::oid
ORDER BY pid`

// appear shows this session to the others. It looks after it has shown itself: of two that come at once with different numbers of
// shards at least one sees the other and goes.
func (w *Owner) appear(ctx context.Context) error {
	if _, err := w.conn.Exec(ctx, `SELECT pg_advisory_lock_shared(`+firstKey+`, $2)`, presentLock, w.shards); err != nil {
		return err
	}
	_, _, err := w.live(ctx, true)
	return err
}

// live counts the sessions that share the outbox, and says which of them, from 0, this one is: ErrLost when it is not among them, or its
// session does not hold what it believes to hold. With strict, another number of shards among them is ErrShards; one that shows itself
// later sees us and goes.
func (w *Owner) live(ctx context.Context, strict bool) (n, rank int, err error) {
	rows, err := w.conn.Query(ctx, present, presentLock, shardLock)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	mine := false
	for rows.Next() {
		var shards, held int
		var self bool
		if err := rows.Scan(&shards, &self, &held); err != nil {
			return 0, 0, err
		}
		mine = mine || self && held == len(w.held)
		if shards != w.shards {
			if strict {
				return 0, 0, fmt.Errorf("%d shards here, %d elsewhere: %w", w.shards, shards, ErrShards)
			}
			continue
		}
		if self {
			rank = n
		}
		n++
	}
	if err := rows.Err(); err != nil {
		return 0, 0, err
	}
	if !mine {
		return 0, 0, ErrLost
	}
	return n, rank, nil
}

// Balance looks at who shares the outbox, takes free shards up to this owner's fair share (the numbers differ by one at most, and
// everybody computes the same), and returns those that it holds beyond it: let what is on its way of them land, then GiveBack. Call it
// every second or so; what a dead process held is free once the server has ended its session.
func (w *Owner) Balance(ctx context.Context) (surplus []int, err error) {
	live, rank, err := w.live(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("share outbox: %w", err)
	}
	share := w.shards / live
	if rank < w.shards%live {
		share++
	}
	if len(w.held) > share {
		return slices.Clone(w.held[share:]), nil
	}
	// Begin where the others do not.
	first := rank * w.shards / live
	for i := 0; i < w.shards && len(w.held) < share; i++ {
		shard := (first + i) % w.shards
		if slices.Contains(w.held, shard) {
			continue
		}
		var locked bool
		if err := w.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+firstKey+`, $2)`, shardLock, shard).Scan(&locked); err != nil {
			return nil, fmt.Errorf("take shard %d of the outbox: %w", shard, err)
		}
		if locked {
			w.held = append(w.held, shard)
			slices.Sort(w.held)
		}
	}
	return nil, nil
}

// GiveBack lets another process have the shard. Nothing of it may be on its way.
func (w *Owner) GiveBack(ctx context.Context, shard int) error {
	at := slices.Index(w.held, shard)
	if at < 0 {
		return nil
	}
	w.held = slices.Delete(w.held, at, at+1)
	if _, err := w.conn.Exec(ctx, `SELECT pg_advisory_unlock(`+firstKey+`, $2)`, shardLock, shard); err != nil {
		return fmt.Errorf("give back shard %d of the outbox: %w", shard, err)
	}
	return nil
}
