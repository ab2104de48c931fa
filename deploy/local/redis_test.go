package local_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

func redisClient(t *testing.T, addr string) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return client
}

func TestRedisKeepsItsStateOverKillAndRestart(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	addr := server.Addr()
	client := redisClient(t, addr)
	if err := client.Set(t.Context(), "{p}key", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server.Addr() != addr {
		t.Fatalf("address %s became %s", addr, server.Addr())
	}
	got, err := redisClient(t, addr).Get(t.Context(), "{p}key").Result()
	if err != nil || got != "kept" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestRedisIsACluster(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	client := redisClient(t, fixture.Addrs[0])
	err := client.Eval(t.Context(), "return redis.call('mget', KEYS[1], KEYS[2])",
		[]string{fixture.Prefix + "{a}x", fixture.Prefix + "{b}y"}).Err()
	if err == nil || !strings.Contains(err.Error(), "slot") {
		t.Fatalf("two slots in one call: %v", err)
	}
}

func TestRedisPausedAnswersAfterResume(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- client.Ping(t.Context()).Err() }()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	default:
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

func TestRedisOnATakenPort(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	port := portOf(t, server.Addr())
	_, err := local.StartRedis(t.Context(), local.RedisOptions{Port: port})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got %v", err)
	}
}

// A server without cluster mode takes two slots in one call; a replica copies it and takes no writes.
func TestRedisStandaloneAndItsReplica(t *testing.T) {
	t.Parallel()
	server := localtest.RedisWith(t, local.RedisOptions{Standalone: true})
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.MSet(t.Context(), "{a}x", "1", "{b}y", "2").Err(); err != nil || server.Mode() != "standalone" {
		t.Fatal(server.Mode(), err)
	}
	copied := localtest.RedisWith(t, local.RedisOptions{ReplicaOf: server.Addr()})
	replica := redis.NewClient(&redis.Options{Addr: copied.Addr()})
	t.Cleanup(func() { _ = replica.Close() })
	if got, err := replica.Get(t.Context(), "{b}y").Result(); got != "2" {
		t.Fatal(got, err)
	}
	if err := replica.Set(t.Context(), "x", "1", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Fatalf("a replica took a write: %v", err)
	}
}
