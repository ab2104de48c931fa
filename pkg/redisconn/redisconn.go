// Package redisconn makes the Redis clients that the owners of keys are handed, and runs their scripts. It knows how the
// wire behaves (time limits, retries, script caches) and no business word; it owns no key. Before it in the flow are the
// services' app.go, after it the packages waitingroom, stock and orderstatus.
package redisconn

import (
	"crypto/tls"
	"errors"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config is what a service chooses of its connections. Zero values mean the defaults named at each field.
type Config struct {
	Addrs      []string // host:port of any nodes of the cluster; at least one
	Username   string
	Password   string
	TLS        *tls.Config
	Standalone bool          // the server is one node without cluster mode; default: a cluster, also of one node
	Timeout    time.Duration // of one read or write; default 400 ms: a request must be answered before its caller gives up
	PoolSize   int           // connections per node; default 16 per processor
	ClientName string
}

// Validate tells every fault at once.
func (c Config) Validate() error {
	var faults []error
	if len(c.Addrs) == 0 {
		faults = append(faults, errors.New("redis addresses: expected at least one host:port"))
	}
	if c.Standalone && len(c.Addrs) > 1 {
		faults = append(faults, errors.New("redis addresses: expected one for a server without cluster mode"))
	}
	if c.Timeout < 0 || c.PoolSize < 0 {
		faults = append(faults, errors.New("redis timeout and pool size: expected 0 or more"))
	}
	return errors.Join(faults...)
}

// ClientOptions are the options of a client for scripts that may run twice: an answer that was lost is asked for again, twice
// at most, so that a broken connection or a redirect does not reach the user. Admissions must not use it, see OnceOptions.
func ClientOptions(c Config) *redis.UniversalOptions {
	timeout, pool := c.Timeout, c.PoolSize
	if timeout == 0 {
		timeout = 400 * time.Millisecond
	}
	if pool == 0 {
		pool = 16 * runtime.GOMAXPROCS(0)
	}
	return &redis.UniversalOptions{
		Addrs: c.Addrs, Username: c.Username, Password: c.Password, TLSConfig: c.TLS, ClientName: c.ClientName,
		IsClusterMode:         !c.Standalone,
		ContextTimeoutEnabled: true, // a request's deadline bounds the wait for the socket too
		ReadTimeout:           timeout, WriteTimeout: timeout, DialTimeout: 2 * time.Second,
		PoolSize: pool, PoolTimeout: timeout,
		MaxRetries: 2, MaxRedirects: 3, MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 50 * time.Millisecond,
	}
}

// OnceOptions are the options of a client that sends a command at most once. Admissions use it: a repeat would admit
// another batch, within rate and capacity, that nobody asked for. A cluster client repeats by its redirects as well as by
// its retries, hence both are off; after a redirect the error is returned and the next call knows the new node.
func OnceOptions(c Config) *redis.UniversalOptions {
	o := ClientOptions(c)
	o.MaxRetries, o.MaxRedirects = -1, -1
	o.PoolSize = max(2, runtime.GOMAXPROCS(0))
	return o
}

// New makes a client. It does not connect; the first command or Ready does. The caller closes it.
func New(o *redis.UniversalOptions) redis.UniversalClient { return redis.NewUniversalClient(o) }
