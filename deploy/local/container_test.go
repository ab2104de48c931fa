package local_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// These tests run where a Docker engine answers and has the images. They set
// the environment of the process and so run alone.

// containers asks for containers, and skips the test aloud where there can be none.
func containers(t *testing.T) {
	t.Helper()
	for _, name := range []string{"HANJUL_REDIS_ADDRS", "HANJUL_POSTGRES_URL", "HANJUL_KAFKA_BROKERS", "HANJUL_KAFKA"} {
		t.Setenv(name, "")
	}
	t.Setenv("HANJUL_SERVERS", "docker")
	localtest.NeedEngine(t, local.Check(t.Context()))
}

func TestRedisInAContainerForgetsOrKeeps(t *testing.T) {
	containers(t)
	for _, persist := range []bool{false, true} {
		server, err := local.StartRedis(t.Context(), local.RedisOptions{Persist: persist, Log: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		addr := server.Addr()
		client := redisClient(t, addr)
		set := func() {
			if err := client.Set(t.Context(), "{p}key", "kept", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		set()
		server.Kill()
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if server.Addr() != addr {
			t.Fatalf("address %s became %s", addr, server.Addr())
		}
		got, err := redisClient(t, addr).Get(t.Context(), "{p}key").Result()
		if kept := err == nil && got == "kept"; kept != persist {
			t.Fatalf("persist %v: got %q, %v", persist, got, err)
		}
		// A paused server ends all the same.
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := server.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = conn.Close() // the test has failed already
			t.Fatal("its port is open after its end")
		}
		if err := server.Restart(t.Context()); !errors.Is(err, local.ErrStopped) {
			t.Fatalf("restart after the end: %v", err)
		}
	}
}

// TestStateOfContainersSurvivesThem starts each server anew on the folder that
// another container has left, and a program must not begin beside it.
func TestStateOfContainersSurvivesThem(t *testing.T) {
	containers(t)
	dir := t.TempDir()
	options := local.ServersOptions{Dir: dir, Persist: true, Log: t.Output()}
	for round := range 2 {
		servers, err := local.StartServers(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		stop := func() {
			if err := servers.Stop(t.Context()); err != nil && !stopped {
				t.Error(err)
			}
			stopped = true
		}
		t.Cleanup(stop)
		client := redisClient(t, servers.RedisAddrs()[0])
		conn := connect(t, servers.PostgresURL())
		if round == 0 {
			if err := client.Set(t.Context(), "{p}key", "kept", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 7 AS n"); err != nil {
				t.Fatal(err)
			}
		} else {
			if got, err := client.Get(t.Context(), "{p}key").Result(); err != nil || got != "kept" {
				t.Fatalf("redis: got %q, %v", got, err)
			}
			var n int
			if err := conn.QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
				t.Fatalf("postgres: got %d, %v", n, err)
			}
			for _, line := range servers.Describe()[:2] {
				if !strings.Contains(line, "a container of ") {
					t.Errorf("described as %q", line)
				}
			}
		}
		stop()
	}
	t.Setenv("HANJUL_SERVERS", "programs")
	if _, err := local.StartRedis(t.Context(), local.RedisOptions{Dir: filepath.Join(dir, "redis"), Persist: true}); err == nil ||
		!strings.Contains(err.Error(), "HANJUL_SERVERS=docker") && !errors.Is(err, local.ErrMissing) {
		t.Fatalf("a program began beside a container's state: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "redis", "appendonly.aof"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HANJUL_SERVERS", "docker")
	if _, err := local.StartRedis(t.Context(), local.RedisOptions{Dir: filepath.Join(dir, "redis"), Persist: true}); err == nil ||
		!strings.Contains(err.Error(), "HANJUL_SERVERS=programs") {
		t.Fatalf("a container began beside a program's state: %v", err)
	}
}

func TestContainerOnATakenPort(t *testing.T) {
	containers(t)
	server, err := local.StartRedis(t.Context(), local.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if _, err := local.StartRedis(t.Context(), local.RedisOptions{Port: portOf(t, server.Addr())}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Fatalf("got %v", err)
	}
}

func TestAContainerThatIsNoServer(t *testing.T) {
	containers(t)
	// Postgres' own image knows no redis-server.
	t.Setenv("HANJUL_REDIS_IMAGE", image("HANJUL_POSTGRES_IMAGE", local.PostgresImage))
	if _, err := local.StartRedis(t.Context(), local.RedisOptions{}); err == nil || !strings.Contains(err.Error(), "redis as a container of postgres") {
		t.Fatalf("got %v", err)
	}
	t.Setenv("HANJUL_REDIS_IMAGE", "hanjul-no-such-image:1")
	if _, err := local.StartRedis(t.Context(), local.RedisOptions{}); !errors.Is(err, local.ErrMissing) || !strings.Contains(err.Error(), "hanjul-no-such-image:1") {
		t.Fatalf("got %v", err)
	}
}

func image(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
