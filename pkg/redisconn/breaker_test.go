package redisconn_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/redisconn"
)

// guarded is a Shared with breakers whose connections pass the gate and are counted.
type guarded struct {
	*redisconn.Shared
	*gate
	away     *atomic.Bool // the way to the server is cut
	dials    *atomic.Int64
	registry *prometheus.Registry
}

func guard(t *testing.T, server *local.Redis, c redisconn.BreakerConfig) guarded {
	t.Helper()
	g := guarded{
		gate: &gate{wrote: make(chan struct{}, 1000), open: make(chan struct{})},
		away: new(atomic.Bool), dials: new(atomic.Int64), registry: prometheus.NewRegistry(),
	}
	options := redisconn.ClientOptions(patient(redisconn.Config{Addrs: []string{server.Addr()}, Mode: redisconn.Mode(server.Mode())}))
	options.DialerRetries = 1
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		g.dials.Add(1)
		if g.away.Load() {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &severed{&gated{Conn: conn, gate: g.gate}, g.away}, err
	}
	g.Shared = redisconn.Share(redisconn.New(options))
	t.Cleanup(func() { _ = g.Close() })
	c.Registerer = g.registry
	if err := g.Guard(c); err != nil {
		t.Fatal(err)
	}
	return g
}

// severed is a connection that breaks at the first command after the way was cut.
type severed struct {
	net.Conn
	away *atomic.Bool
}

func (s *severed) Write(p []byte) (int, error) {
	if s.away.Load() {
		_ = s.Close()
		return 0, io.ErrClosedPipe
	}
	return s.Conn.Write(p)
}

// alone is a server of the test's own without cluster mode, which starts at once.
func alone(t *testing.T) *local.Redis {
	t.Helper()
	return localtest.RedisWith(t, local.RedisOptions{Standalone: true})
}

// run counts once for a key.
func (g guarded) run(ctx context.Context, key, word string) error {
	_, err := count().Run(ctx, g.Shared, []string{key}, word)
	return err
}

// metric is the value of a metric.
func (g guarded) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if m := family.GetMetric()[0]; family.GetName() == name {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await calls until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("not %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// A node that is away is not called: neither by scripts nor by other commands, nor for the map of its cluster. Signs of life and
// subscriptions reach it all the same.
func TestBreakerRefusesAtOnce(t *testing.T) {
	t.Parallel()
	g := guard(t, localtest.PrivateRedis(t), redisconn.BreakerConfig{OpenFor: time.Hour})
	ctx := t.Context()
	must(t, g.run(ctx, "{k}", "a"))
	g.away.Store(true)
	await(t, "refused", func() bool { return redisconn.Away(g.run(ctx, "{k}", "a")) != nil })
	if open, opened := g.metric(t, redisconn.MetricBreakersOpen), g.metric(t, redisconn.MetricBreakerOpened); open != 1 || opened != 1 {
		t.Fatalf("%v open, opened %v times", open, opened)
	}
	g.away.Store(false) // it would answer
	before, refused := g.dials.Load(), g.metric(t, redisconn.MetricBreakerRefused)
	for range 100 {
		away := redisconn.Away(g.run(ctx, "{k}", "a"))
		if away == nil || away.RetryAfter <= 0 || away.RetryAfter > 3*time.Hour {
			t.Fatal(away)
		}
	}
	pipe := g.Pipeline()
	first, second := pipe.Get(ctx, "{k}"), pipe.Get(ctx, "{k}2")
	_, err := pipe.Exec(ctx)
	for _, err := range []error{err, first.Err(), second.Err(), g.HGetAll(ctx, "{k}").Err()} {
		if redisconn.Away(err) == nil {
			t.Error(err)
		}
	}
	if n := g.dials.Load(); n != before {
		t.Errorf("%d connections were made", n-before)
	}
	if n := g.metric(t, redisconn.MetricBreakerRefused); n < refused+102 {
		t.Errorf("%v refused of more than 102", n-refused)
	}
	must(t, redisconn.Ping(redisconn.Unguarded(ctx), g.UniversalClient))
	listening, cancel := context.WithCancel(ctx)
	ended := redisconn.Listen(listening, g.Shared, "channel", cancel, func(string) {})
	if !errors.Is(ended, context.Canceled) {
		t.Fatal(ended)
	}
	if redisconn.Away(g.run(ctx, "{k}", "a")) == nil {
		t.Fatal("a sign of life ended the pause")
	}
}

// Once a node is tried again, one call tries, and until it was answered the others are refused; then all are served.
func TestBreakerTriesWithOneCall(t *testing.T) {
	t.Parallel()
	g := guard(t, alone(t), redisconn.BreakerConfig{OpenFor: time.Millisecond})
	ctx := t.Context()
	g.away.Store(true)
	await(t, "opened", func() bool { return g.run(ctx, "k", "a") != nil && g.metric(t, redisconn.MetricBreakersOpen) == 1 })
	g.hold.Store(true)
	g.away.Store(false)
	var tries sync.WaitGroup
	for range 50 { // all at once; whoever is not the one is refused or, being in the same pipeline, waits with it
		tries.Go(func() {
			await(t, "tried", func() bool {
				err := g.run(ctx, "k", "a")
				if err != nil && redisconn.Away(err) == nil {
					t.Error(err)
				}
				return err == nil
			})
		})
	}
	<-g.wrote
	for range 100 {
		if err := g.run(ctx, "k", "b"); redisconn.Away(err) == nil {
			t.Fatalf("while one tries another got %v", err)
		}
	}
	if n := len(g.wrote); n != 0 {
		t.Fatalf("%d pipelines more", n)
	}
	g.release()
	tries.Wait()
	await(t, "closed", func() bool { return g.metric(t, redisconn.MetricBreakersOpen) == 0 })
	must(t, g.run(ctx, "k", "c"))
	if n := g.metric(t, redisconn.MetricBreakerOpened); n != 1 {
		t.Fatalf("opened %v times in one outage", n)
	}
}

// A call that was sent and got no answer is not told that it was not sent, although the node was away by the time it was asked again.
func TestBreakerKeepsUnknownOutcomes(t *testing.T) {
	t.Parallel()
	g := guard(t, alone(t), redisconn.BreakerConfig{Failures: 1, OpenFor: time.Hour})
	must(t, g.run(t.Context(), "{k}", "a"))
	g.cut.Store(1)
	if err := g.run(t.Context(), "{k}", "a"); err == nil || redisconn.Away(err) != nil {
		t.Fatal(err)
	}
	if err := g.run(t.Context(), "{k}", "a"); redisconn.Away(err) == nil {
		t.Fatal(err)
	}
}

// A script's error, an empty key and a caller that goes are no fault of the node.
func TestBreakerCountsTheNodeOnly(t *testing.T) {
	t.Parallel()
	g := guard(t, alone(t), redisconn.BreakerConfig{Failures: 1, OpenFor: time.Hour})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		if err := g.run(t.Context(), "{k}", "bad"); err == nil || redisconn.Away(err) != nil {
			t.Fatal(err)
		}
		if err := g.run(ended, "{k}", "a"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := g.Get(ended, "{k}").Err(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := g.Get(t.Context(), "{nothing}").Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	must(t, g.run(t.Context(), "{k}", "a"))
	if n := g.metric(t, redisconn.MetricBreakerOpened); n != 0 {
		t.Fatalf("opened %v times", n)
	}
}

// A node that answers that it cannot serve is away as well, and is back when it can.
func TestBreakerOfANodeThatCannotServe(t *testing.T) {
	t.Parallel()
	server := alone(t)
	g := guard(t, server, redisconn.BreakerConfig{OpenFor: time.Millisecond})
	must(t, g.run(t.Context(), "k", "a"))
	direct := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = direct.Close() }()
	must(t, direct.ConfigSet(t.Context(), "replica-serve-stale-data", "no").Err())
	must(t, direct.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
	await(t, "opened", func() bool {
		return g.run(t.Context(), "k", "a") != nil && g.metric(t, redisconn.MetricBreakerOpened) > 0
	})
	must(t, direct.Do(t.Context(), "replicaof", "no", "one").Err())
	await(t, "served", func() bool {
		return g.run(t.Context(), "k", "a") == nil && g.metric(t, redisconn.MetricBreakersOpen) == 0
	})
}

// While one node is away the others are called as ever.
func TestBreakerIsTheNodesOwn(t *testing.T) {
	t.Parallel()
	one, other := alone(t), alone(t)
	shared := redisconn.Share(redis.NewClusterClient(&redis.ClusterOptions{
		MaxRedirects: -1, DialerRetries: 1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: one.Addr()}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: other.Addr()}}},
			}, nil
		},
	}))
	t.Cleanup(func() { _ = shared.Close() })
	must(t, shared.Guard(redisconn.BreakerConfig{OpenFor: time.Hour}))
	run := func(key string) error {
		_, err := count().Run(t.Context(), shared, []string{key}, "a")
		return err
	}
	const lower, upper = "bar", "foo" // slots 5061 and 12182
	must(t, run(lower))
	must(t, run(upper))
	one.Kill()
	await(t, "refused", func() bool { return redisconn.Away(run(lower)) != nil })
	for range 20 {
		must(t, run(upper))
		must(t, shared.Get(t.Context(), upper).Err())
	}
	if redisconn.Away(run(lower)) == nil {
		t.Fatal("the other node's answers ended the pause")
	}
}
