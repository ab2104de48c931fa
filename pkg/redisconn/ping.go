package redisconn

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Ping returns nil when every master answers. Safe to repeat and for concurrent use.
func Ping(ctx context.Context, rdb redis.UniversalClient) error {
	ping := func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() }
	var err error
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, ping)
	case *redis.Client:
		err = ping(ctx, c)
	default:
		err = rdb.Ping(ctx).Err()
	}
	if err != nil {
		return fmt.Errorf("ask redis for a sign of life: %w", err)
	}
	return nil
}
