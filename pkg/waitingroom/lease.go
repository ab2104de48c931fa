package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

const (
	notifySetting = "notify-keyspace-events"
	expiredEvents = "__keyevent@0__:expired"
)

// Lease writes a key that expires with a pass, so that Redis tells schedulers of it where it is set up to (FollowLeases). It means nothing
// else: who holds a pass is in active. Safe to repeat; a key that is there stays as it is.
func (r *Room) Lease(ctx context.Context, p product.ID, u product.UserHash, expires time.Time) error {
	err := r.rdb.Do(ctx, "SET", r.keys.Lease(p, u), "1", "PXAT", expires.UnixMilli(), "NX").Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("lease: product %s: %w", p, err)
	}
	return nil
}

// FollowLeases listens for leases that expire, at every primary, and otherwise as Follow. Redis tells of them only where its
// notify-keyspace-events has E and x: what is missing is added with set, and an error without. Where Redis does not let us look, it is
// taken to be set.
func (r *Room) FollowLeases(ctx context.Context, set bool, begun func(), hint func(p product.ID)) error {
	if err := redisconn.EachPrimary(ctx, r.rdb, func(ctx context.Context, node redis.Cmdable) error { return notify(ctx, node, set) }); err != nil {
		return err
	}
	before := r.keys.Prefix + "{"
	err := redisconn.ListenEach(ctx, r.rdb, expiredEvents, begun, func(key string) {
		rest, ours := strings.CutPrefix(key, before)
		id, _, lease := strings.Cut(rest, "}:lease:")
		if p, err := product.ParseID(id); ours && lease && err == nil {
			hint(p)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("follow leases: %w", err)
}

// notify sees to it that a node tells of keys that expire.
func notify(ctx context.Context, node redis.Cmdable, set bool) error {
	values, err := node.ConfigGet(ctx, notifySetting).Result()
	if err != nil {
		return nil //nolint:nilerr // managed services refuse CONFIG; what they do not tell may still be set
	}
	flags := values[notifySetting]
	if strings.Contains(flags, "E") && strings.ContainsAny(flags, "xA") {
		return nil
	}
	if !set {
		return fmt.Errorf("follow leases: %s of redis is %q, expected E and x in it; set it there, or HANJUL_SCHEDULER_KEYSPACE_SET=on here", notifySetting, flags)
	}
	if err := node.ConfigSet(ctx, notifySetting, flags+"Ex").Err(); err != nil {
		return fmt.Errorf("follow leases: set %s: %w", notifySetting, err)
	}
	return nil
}
