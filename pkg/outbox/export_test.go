package outbox

import "context"

// Forget gives up a shard's lock behind the owner's back.
func Forget(ctx context.Context, w *Owner, shard int) error {
	_, err := w.conn.Exec(ctx, `SELECT pg_advisory_unlock(`+firstKey+`, $2)`, shardLock, shard)
	return err
}
