package redisconn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/redisconn"
)

// Sentinels know the master, and clients of both kinds follow when it is killed and its replica is promoted. What a server of the settings'
// own is asked, and says wrong, is told too.
func TestClientsFollowSentinels(t *testing.T) {
	t.Parallel()
	sentinels := localtest.RedisSentinels(t)
	addrs := "HANJUL_REDIS_ADDRS=" + strings.Join(sentinels.Addrs(), ",")
	read := func(environ ...string) redisconn.Config {
		s := config.NewSource(append(environ, addrs), "API")
		c := redisconn.Read(s)
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	if _, err := ask(t, read("HANJUL_REDIS_MODE=sentinel", "HANJUL_REDIS_MASTER=another")); !errors.Is(err, redisconn.ErrUnfit) || !strings.Contains(err.Error(), "REDIS_MASTER: the Sentinels know no master of this name") {
		t.Errorf("an unknown master: %v", err)
	}
	of := "HANJUL_REDIS_ADDRS=" + sentinels.Addrs()[0]
	s := config.NewSource([]string{of, "HANJUL_REDIS_MODE=standalone"}, "API")
	if _, err := ask(t, redisconn.Read(s)); !errors.Is(err, redisconn.ErrUnfit) || !strings.Contains(err.Error(), "REDIS_ADDRS: a Sentinel answers") {
		t.Errorf("a Sentinel as the server: %v", err)
	}

	c := read("HANJUL_REDIS_MODE=sentinel", "HANJUL_REDIS_MASTER="+sentinels.Master())
	clients := map[string]redis.UniversalClient{
		"repeats": redisconn.New(redisconn.ClientOptions(c)), "once": redisconn.New(redisconn.OnceOptions(c)),
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, rdb := range clients {
		t.Cleanup(func() { _ = rdb.Close() })
		until(ctx, t, name, func() error {
			_, err := redisconn.Ready(ctx, rdb, c.Mode)
			return err
		})
	}
	follower := clients["repeats"].Subscribe(ctx, "hints")
	defer func() { _ = follower.Close() }()
	if _, err := follower.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	dead, err := sentinels.KillMaster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, rdb := range clients {
		until(ctx, t, name+" after "+dead.Addr()+" died", func() error { return rdb.Set(ctx, name, "1", 0).Err() })
		until(ctx, t, name, func() error {
			_, err := redisconn.Ready(ctx, rdb, c.Mode)
			return err
		})
	}
	until(ctx, t, "a subscription of the new master", func() error {
		again := clients["repeats"].Subscribe(ctx, "hints")
		defer func() { _ = again.Close() }()
		_, err := again.Receive(ctx)
		return err
	})
}

// until tries until there is no error, or ctx is over.
func until(ctx context.Context, t *testing.T, what string, try func() error) {
	t.Helper()
	err := try()
	for err != nil && ctx.Err() == nil {
		err = try()
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
