package local_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// TestRedisClusterReplacesAPrimary kills the primary of a key, finds what it had passed on with its successor, and has it back as an
// empty replica; then the successor is killed, so that the one that came back serves again.
func TestRedisClusterReplacesAPrimary(t *testing.T) {
	t.Parallel()
	cluster := localtest.RedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ClusterStateReloadInterval: 100 * time.Millisecond})
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const key = "{p}kept"
	var was *local.RedisNode
	for round := range 2 {
		value := fmt.Sprint(round)
		if err := client.Set(ctx, key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		// Its replica has it, or it would be lost with its primary, as it may.
		primary, err := cluster.Primary(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		alone := redis.NewClient(&redis.Options{Addr: primary.Addr()})
		if acked, err := alone.Wait(ctx, 1, time.Minute).Result(); err != nil || acked != 1 {
			t.Fatalf("%d replicas have it: %v", acked, err)
		}
		_ = alone.Close()
		dead, successor, err := cluster.KillPrimary(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if dead != primary || successor == dead || was != nil && successor != was {
			t.Fatalf("round %d: %s was killed, %s serves", round, dead.Addr(), successor.Addr())
		}
		was = dead
		got, err := client.Get(ctx, key).Result()
		for err != nil && !errors.Is(err, redis.Nil) && ctx.Err() == nil { // until the client knows
			got, err = client.Get(ctx, key).Result()
		}
		if err != nil || got != value {
			t.Fatalf("round %d: got %q, %v", round, got, err)
		}
		if err := cluster.Restart(ctx, dead); err != nil {
			t.Fatal(err)
		}
		if again, err := cluster.Primary(ctx, key); err != nil || again != successor {
			t.Fatalf("round %d: the successor serves no longer: %v", round, err)
		}
	}
}
