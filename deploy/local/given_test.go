package local_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// These tests set the environment of the process and so run alone.

func TestStackOnGivenServers(t *testing.T) {
	localtest.Need(t, local.Check(t.Context()))
	address := localtest.Postgres(t)
	t.Setenv("HANJUL_REDIS_ADDRS", strings.Join(localtest.Redis(t).Addrs, ","))
	t.Setenv("HANJUL_POSTGRES_URL", address)
	t.Setenv("HANJUL_KAFKA_BROKERS", strings.Join(localtest.Kafka(t), ","))
	stack, err := local.StartStack(t.Context(), local.StackOptions{BinDir: binaries(t), PerService: 1, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if stack.Redis() != nil || stack.Postgres() != nil || stack.Kafka() != nil {
		t.Error("a server was started although its address was given")
	}
	for _, line := range stack.Servers().Describe() {
		if !strings.HasSuffix(line, "given)") {
			t.Errorf("described as %q", line)
		}
	}
	// Others use these servers too, so no name may be the usual one.
	for name, usual := range map[string]string{
		"HANJUL_KEY_PREFIX": "hanjul:", "HANJUL_TOPIC_ORDERS": "orders", "HANJUL_TOPIC_EVENTS": "order-events",
		"HANJUL_TOPIC_DEAD_LETTERS": "orders.dead-letters", "HANJUL_GROUP": "order-consumer", "HANJUL_POSTGRES_URL": address,
	} {
		if got := stack.Setting(name); got == "" || got == usual {
			t.Errorf("%s is %q", name, got)
		}
	}
	made := stack.Setting("HANJUL_POSTGRES_URL")
	connect(t, made)
	if err := stack.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), made); err == nil {
		_ = conn.Close(t.Context()) // the test has failed already
		t.Error("the database is still there")
	}
}

func TestAnOldRedisIsRefused(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'Redis server v=6.2.14 sha=00000000:0 malloc=libc bits=64 build=0'\n"
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("HANJUL_REDIS_ADDRS", "")
	t.Setenv("HANJUL_SERVERS", "programs")
	t.Setenv("HANJUL_REDIS_SERVER", "")
	if _, err := local.StartRedis(t.Context(), local.RedisOptions{}); !errors.Is(err, local.ErrTooOld) || !strings.Contains(err.Error(), "6.2.14") {
		t.Fatalf("start: %v", err)
	}
	if err := local.Ensure(t.Context(), io.Discard); !errors.Is(err, local.ErrTooOld) {
		t.Fatalf("set-up: %v", err)
	}
}
