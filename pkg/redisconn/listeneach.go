package redisconn

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// errMoved says that the primaries are others than those listened to.
var errMoved = errors.New("the primaries of the cluster have changed")

// ListenEach is Listen at every primary of a cluster, for channels that each node speaks on by itself, such as those of keyspace
// notifications; elsewhere it is Listen. It ends when the listening at one of them ends, and when the primaries have changed: whoever
// calls it again listens to those that there are then. begun is called when all of them are listened to.
func ListenEach(ctx context.Context, rdb redis.UniversalClient, channel string, begun func(), heard func(payload string)) error {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return Listen(ctx, rdb, channel, begun, heard)
	}
	nodes, err := primaries(ctx, cluster)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	var mu sync.Mutex // one call of begun and heard at a time
	standing := map[string]bool{}
	for addr, node := range nodes {
		group.Go(func() {
			cancel(Listen(ctx, node, channel, func() {
				mu.Lock()
				defer mu.Unlock()
				if standing[addr] = true; len(standing) == len(nodes) {
					begun()
				}
			}, func(payload string) {
				mu.Lock()
				defer mu.Unlock()
				heard(payload)
			}))
		})
	}
	ticker := time.NewTicker(mapEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		now, err := primaries(ctx, cluster)
		if err == nil && !slices.Equal(slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(nodes))) {
			return errMoved
		}
	}
}

// primaries are the nodes that serve slots, by address.
func primaries(ctx context.Context, cluster *redis.ClusterClient) (map[string]*redis.Client, error) {
	var mu sync.Mutex
	nodes := map[string]*redis.Client{}
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes[node.Options().Addr] = node
		return nil
	})
	return nodes, err
}

// EachPrimary calls do for every primary of a cluster, at the same time, or for the one server there is, and returns the first error.
func EachPrimary(ctx context.Context, rdb redis.UniversalClient, do func(ctx context.Context, node redis.Cmdable) error) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, rdb)
}
