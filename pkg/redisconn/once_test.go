package redisconn_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/redisconn"
)

// deaf is a connection that hands a command over and dies before its answer arrives.
type deaf struct {
	net.Conn
	lose *atomic.Bool
	sent *atomic.Int64
	mine atomic.Bool // the command went over this connection
}

func (d *deaf) Write(p []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(p), []byte("incr")) {
		d.sent.Add(1)
		d.mine.Store(true)
	}
	return d.Conn.Write(p)
}

func (d *deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if err == nil && d.mine.Load() && d.lose.Load() {
		_ = d.Close()
		return 0, io.EOF
	}
	return n, err
}

// In every mode a command whose answer is lost is sent once by a client of OnceOptions, and the caller gets the error; a client of
// ClientOptions sends it again.
func TestACommandIsSentAtMostOnce(t *testing.T) {
	t.Parallel()
	sentinels := localtest.RedisSentinels(t)
	on := func(options local.RedisOptions) redisconn.Config {
		server := localtest.RedisWith(t, options)
		return redisconn.Config{Addrs: []string{server.Addr()}, Mode: redisconn.Mode(server.Mode())}
	}
	for _, c := range []redisconn.Config{
		on(local.RedisOptions{}), on(local.RedisOptions{Standalone: true}),
		{Addrs: sentinels.Addrs(), Mode: redisconn.Sentinel, Master: sentinels.Master()},
	} {
		for name, options := range map[string]*redis.UniversalOptions{"once": redisconn.OnceOptions(patient(c)), "repeats": redisconn.ClientOptions(patient(c))} {
			t.Run(string(c.Mode)+" "+name, func(t *testing.T) {
				t.Parallel()
				var lose atomic.Bool
				var sent atomic.Int64
				options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, addr)
					if err == nil && strings.HasPrefix(addr, "127.0.0.1:") {
						conn = &deaf{Conn: conn, lose: &lose, sent: &sent}
					}
					return conn, err
				}
				rdb := redisconn.New(options)
				defer func() { _ = rdb.Close() }()
				if err := rdb.Set(t.Context(), name, 0, 0).Err(); err != nil {
					t.Fatal(err)
				}
				lose.Store(true)
				err := rdb.Incr(t.Context(), name).Err()
				lose.Store(false)
				counted, countErr := rdb.Get(t.Context(), name).Int64()
				if countErr != nil || err == nil {
					t.Fatalf("incr: %v, get: %v", err, countErr)
				}
				if name == "once" && (sent.Load() != 1 || counted != 1) {
					t.Fatalf("sent %d times, done %d times, expected once", sent.Load(), counted)
				}
				if name == "repeats" && sent.Load() < 2 {
					t.Fatal("it was not sent again, so this test shows nothing of the other")
				}
			})
		}
	}
}
