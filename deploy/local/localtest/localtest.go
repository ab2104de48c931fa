// Package localtest gives the tests of every module their servers: a Redis in
// one-node cluster mode (or a Redis Cluster, HANJUL_REDIS=cluster), a Postgres, a
// Kafka broker.
//
// It owns the servers a test process shares, and their names: a fresh key
// prefix, database or topic per test, so that tests run in parallel and nothing
// is ever flushed. A server is the one the environment names (HANJUL_REDIS_ADDRS,
// HANJUL_POSTGRES_URL, HANJUL_KAFKA_BROKERS), else one started on first use and
// ended by Main. A server that cannot be had makes its tests skip aloud, or fail
// where HANJUL_REQUIRE_SERVICES=1. It is never linked into anything shipped.
package localtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"hanjul/deploy/local"
)

// startLimit bounds the start of one server, a busy machine included.
const startLimit = 2 * time.Minute

// servers are what one test process shares. This is the one variable of the
// package: a test binary has no place of its own to keep them.
var servers struct {
	redis        shared[*local.Redis]
	redisCluster shared[*local.RedisCluster]
	postgres     shared[*local.Postgres]
	kafka        shared[*local.Kafka]
}

// shared is a server started on first use.
type shared[S interface{ Stop(context.Context) error }] struct {
	mu     sync.Mutex
	tried  bool
	server S
	err    error
}

func (s *shared[S]) get(start func(context.Context) (S, error)) (S, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		s.tried = true
		s.server, s.err = start(ctx)
	}
	return s.server, s.err
}

func (s *shared[S]) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried && s.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		_ = s.server.Stop(ctx) // it is gone either way
	}
	s.tried = false
}

// RedisFixture is a Redis and the start of every key this test may use.
type RedisFixture struct {
	// Addrs are the nodes, host:port.
	Addrs []string
	// Mode is "cluster", or "standalone" where HANJUL_REDIS asks for it.
	Mode string
	// Prefix is fresh for the test; keys that do not start with it belong to others.
	Prefix string
}

// Redis gives the shared Redis with a fresh key prefix.
func Redis(t testing.TB) RedisFixture {
	t.Helper()
	given := local.GivenByEnvironment()
	fixture := RedisFixture{Addrs: given.Redis, Mode: given.RedisMode(), Prefix: "t" + random() + ":"}
	if len(fixture.Addrs) == 0 && given.RedisKind == "cluster" {
		// Nobody kills a node of what all tests share, so a busy machine gets Redis's own patience.
		cluster, err := servers.redisCluster.get(func(ctx context.Context) (*local.RedisCluster, error) {
			return local.StartRedisCluster(ctx, local.RedisClusterOptions{NodeTimeout: 15 * time.Second})
		})
		Need(t, err)
		fixture.Addrs = cluster.Addrs()
	}
	if len(fixture.Addrs) == 0 {
		server, err := servers.redis.get(func(ctx context.Context) (*local.Redis, error) {
			return local.StartRedis(ctx, local.RedisOptions{Standalone: fixture.Mode == "standalone"})
		})
		Need(t, err)
		fixture.Addrs = []string{server.Addr()}
	}
	logOnFailure(t, "redis %s, keys start with %s", strings.Join(fixture.Addrs, ","), fixture.Prefix)
	return fixture
}

// RedisCluster gives a Redis Cluster of the test's own, whose primaries may be killed.
func RedisCluster(t testing.TB) *local.RedisCluster {
	t.Helper()
	// Tests say who serves when: a busy machine must not look like a dead node.
	cluster, err := local.StartRedisCluster(t.Context(), local.RedisClusterOptions{NodeTimeout: 5 * time.Second, Log: t.Output()})
	Need(t, err)
	t.Cleanup(func() { stop(t, cluster) })
	return cluster
}

// PrivateRedis gives a Redis of the test's own, which may be flushed, killed,
// paused and restarted. It keeps what it was told over a restart.
func PrivateRedis(t testing.TB) *local.Redis {
	t.Helper()
	return RedisWith(t, local.RedisOptions{Persist: true, Standalone: local.GivenByEnvironment().RedisMode() == "standalone"})
}

// RedisWith is PrivateRedis with options of the test's own.
func RedisWith(t testing.TB, options local.RedisOptions) *local.Redis {
	t.Helper()
	server, err := local.StartRedis(t.Context(), options)
	Need(t, err)
	t.Cleanup(func() { stop(t, server) })
	return server
}

// PgBouncer gives a pooler of the test's own.
func PgBouncer(t testing.TB, options local.PgBouncerOptions) *local.PgBouncer {
	t.Helper()
	options.Log = t.Output()
	pooler, err := local.StartPgBouncer(t.Context(), options)
	Need(t, err)
	t.Cleanup(func() { stop(t, pooler) })
	return pooler
}

// RedisSentinels gives a master, its replica and three Sentinels of the test's own; the master may be killed.
func RedisSentinels(t testing.TB) *local.RedisSentinels {
	t.Helper()
	sentinels, err := local.StartRedisSentinels(t.Context(), t.Output())
	Need(t, err)
	t.Cleanup(func() { stop(t, sentinels) })
	return sentinels
}

// Authority gives a certificate authority of the test's own.
func Authority(t testing.TB) *local.Authority {
	t.Helper()
	authority, err := local.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// PrivatePostgres gives a Postgres of the test's own, which may be killed and restarted.
func PrivatePostgres(t testing.TB) *local.Postgres {
	t.Helper()
	server, err := local.StartPostgres(t.Context(), local.PostgresOptions{})
	Need(t, err)
	t.Cleanup(func() { stop(t, server) })
	return server
}

// Kafka gives the shared brokers, host:port. Use topics and groups named by Topic.
func Kafka(t testing.TB) []string {
	t.Helper()
	if given := local.GivenByEnvironment().Kafka; len(given) > 0 {
		return given
	}
	server, err := servers.kafka.get(func(ctx context.Context) (*local.Kafka, error) {
		return local.StartKafka(ctx, local.KafkaOptions{})
	})
	Need(t, err)
	return server.Addrs()
}

// KafkaCluster gives a broker of the test's own inside the process, for fault
// injection. Options add to or override those of local.StartKafka: one broker,
// no topic made on first use, short group sessions accepted.
func KafkaCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	server, err := local.StartKafka(t.Context(), local.KafkaOptions{}, opts...)
	Need(t, err)
	t.Cleanup(func() { stop(t, server) })
	return server.Cluster()
}

// Jars gives the folder of Apache Kafka's jars. Where HANJUL_KAFKA=jars does not
// ask for them the test is skipped by Skip.
func Jars(t testing.TB) string {
	t.Helper()
	if !local.GivenByEnvironment().Jars {
		Skip(t, "needs Apache Kafka from jars, which is run where HANJUL_KAFKA=jars")
	}
	data, err := local.DataHome()
	if err != nil {
		t.Fatal(err)
	}
	jars, err := local.FetchKafka(t.Context(), local.KafkaHome(data))
	Need(t, err)
	return jars
}

// KafkaNode gives an Apache Kafka node of the test's own, which may be killed and
// restarted: a container where HANJUL_KAFKA=docker, else from jars. The test is
// skipped where Jars skips it.
func KafkaNode(t testing.TB) local.KafkaNode {
	t.Helper()
	var server local.KafkaNode
	var err error
	if local.GivenByEnvironment().Docker {
		server, err = local.StartKafkaContainer(t.Context(), local.KafkaContainerOptions{Log: t.Output()})
		Need(t, err)
	} else {
		server, err = local.StartKafkaJars(t.Context(), local.KafkaJarsOptions{Jars: Jars(t), Log: t.Output()})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, server) })
	return server
}

// Topic gives a topic or group name that nobody else uses; it starts with prefix.
func Topic(t testing.TB, prefix string) string {
	t.Helper()
	name := prefix + "-" + random()
	logOnFailure(t, "kafka name %s", name)
	return name
}

// Dir gives a temporary folder that other users may pass through, which
// t.TempDir is not: as root Postgres runs as another user, and would put its
// data elsewhere, where it stays.
func Dir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Need returns when err is nil. When the machine lacks a server (it is not here
// or too old) the test is skipped by Skip, or fails where
// HANJUL_REQUIRE_SERVICES=1. Any other error fails the test: a server that is
// here and does not work is a fault.
func Need(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	lacking := errors.Is(err, local.ErrMissing) || errors.Is(err, local.ErrTooOld)
	if !lacking || os.Getenv("HANJUL_REQUIRE_SERVICES") == "1" {
		t.Fatalf("a server that must be here: %v", err)
	}
	Skip(t, err.Error())
}

// NeedEngine is Need for what only a Docker engine with its images gives: it
// skips also where HANJUL_REQUIRE_SERVICES=1, which is about servers of any kind.
func NeedEngine(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, local.ErrMissing) {
		Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Skip skips the test aloud: the reason also goes to the file that
// HANJUL_SKIP_LOG names, where set, so that whoever ran the suite is told.
// It is for what a machine may lack; HANJUL_REQUIRE_SERVICES does not change it.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if path := os.Getenv("HANJUL_SKIP_LOG"); path != "" {
		if err := appendLine(path, fmt.Sprintf("%s: %s", t.Name(), strings.ReplaceAll(reason, "\n", " "))); err != nil {
			t.Errorf("record the skip: %v", err)
		}
	}
	t.Skip(reason)
}

// appendLine adds one line in a single write, so that processes do not mix theirs.
func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(line + "\n"); err != nil {
		_ = file.Close() // the write's error says more
		return err
	}
	return file.Close()
}

func stop(t testing.TB, server interface{ Stop(context.Context) error }) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func logOnFailure(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf(format, args...)
		}
	})
}

// random gives 16 hexadecimal digits.
func random() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
