package localtest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the body of a package's TestMain: it runs the tests, ends the shared
// servers, fails when a goroutine was left behind, and exits.
func Main(m *testing.M) {
	code := m.Run()
	servers.redis.stop()
	servers.redisCluster.stop()
	servers.postgres.stop()
	servers.kafka.stop()
	if code == 0 {
		if err := goleak.Find(ignored()...); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines left behind: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// ignored lists the goroutines that are no leak of ours, each with its reason.
func ignored() []goleak.Option {
	return []goleak.Option{
		// An HTTP connection kept alive for its next request ends by its own
		// idle limit; http.DefaultTransport belongs to nobody.
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		// A pool whose Redis is away looks for it once a second, and ends at the
		// look after its Close.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
	}
}
