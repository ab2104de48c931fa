package redisconn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/redisconn"
)

// A client of each kind finds the promoted replica by itself, also while nothing redirects it: a primary that died says nothing (hazard R17).
func TestClientsFindThePromotedReplica(t *testing.T) {
	t.Parallel()
	cluster := localtest.RedisCluster(t)
	config := redisconn.Config{Addrs: cluster.Addrs()}
	clients := map[string]redis.UniversalClient{
		"repeats": redisconn.New(redisconn.ClientOptions(config)), "once": redisconn.New(redisconn.OnceOptions(config)),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the library's own interval is twice that
	defer cancel()
	for name, rdb := range clients {
		t.Cleanup(func() { _ = rdb.Close() })
		if err := rdb.Get(ctx, "{p}x").Err(); !errors.Is(err, redis.Nil) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, _, err := cluster.KillPrimary(ctx, "{p}x"); err != nil {
		t.Fatal(err)
	}
	for name, rdb := range clients {
		err := rdb.Set(ctx, "{p}x", name, 0).Err()
		for err != nil && ctx.Err() == nil {
			err = rdb.Set(ctx, "{p}x", name, 0).Err()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
