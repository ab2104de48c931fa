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
	"github.com/redis/go-redis/v9/maintnotifications"

	"hanjul/pkg/config"
)

// Mode says how the Redis at the addresses is run.
type Mode string

// The modes. The zero Mode is Cluster.
const (
	Cluster    Mode = "cluster"    // the addresses are any nodes of a cluster, also of one node
	Standalone Mode = "standalone" // the address is the one server
	Sentinel   Mode = "sentinel"   // the addresses are Sentinels, which know the master
)

// Config is how Redis is reached, as Read takes it from the settings, and what a service adds for itself. Zero values mean the defaults
// named at each field.
type Config struct {
	Addrs    []string // host:port; at least one
	Mode     Mode
	Master   string // the Sentinels' name of the master; in mode Sentinel only
	Username string
	Password config.Secret
	// How the Sentinels are logged in to; in mode Sentinel only.
	SentinelUsername string
	SentinelPassword config.Secret
	TLS              *tls.Config // nil: not encrypted

	Timeout    time.Duration // of one read or write; default 400 ms: a request must be answered before its caller gives up
	PoolSize   int           // connections per node; default 16 per processor
	ClientName string
}

// Validate tells every fault at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, errors.New(text))
		}
	}
	fault(len(c.Addrs) == 0, "redis addresses: expected at least one host:port")
	fault(c.Mode == Standalone && len(c.Addrs) > 1, "redis addresses: expected one for a server without cluster mode")
	fault((c.Mode == Sentinel) != (c.Master != ""), "redis master: expected the Sentinels' name of it in mode sentinel, and none in another")
	fault(c.Mode != "" && c.Mode != Cluster && c.Mode != Standalone && c.Mode != Sentinel, "redis mode: expected cluster, standalone or sentinel")
	fault(c.Timeout < 0 || c.PoolSize < 0, "redis timeout and pool size: expected 0 or more")
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
		Addrs: c.Addrs, MasterName: c.Master, ClientName: c.ClientName, TLSConfig: c.TLS,
		Username: c.Username, Password: c.Password.Reveal(),
		SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword.Reveal(),
		IsClusterMode: c.Mode == "" || c.Mode == Cluster,
		// A user with the least rights may do neither: ask to be told of maintenance, and name the library, which 7.0 does not know.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, DisableIdentity: true,

		ContextTimeoutEnabled: true, // a request's deadline bounds the wait for the socket too
		ReadTimeout:           timeout, WriteTimeout: timeout, DialTimeout: 2 * time.Second,
		PoolSize: pool, PoolTimeout: timeout,
		MaxRetries: 2, MaxRedirects: 3, MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 50 * time.Millisecond,
	}
}

// OnceOptions are the options of a client that sends a command at most once, in every mode. Admissions use it: a repeat would admit
// another batch, within rate and capacity, that nobody asked for. A cluster client repeats by its redirects as well as by
// its retries, hence both are off; after a redirect the error is returned and the next call knows the new node. A client that follows
// Sentinels returns the error of the master that was lost, and the next call goes to the new one.
func OnceOptions(c Config) *redis.UniversalOptions {
	o := ClientOptions(c)
	o.MaxRetries, o.MaxRedirects = -1, -1
	o.PoolSize = max(2, runtime.GOMAXPROCS(0))
	return o
}

// mapEvery is the longest that a cluster client believes what it knows of who serves which slot. A redirect makes it look at once, but a
// primary that died redirects nobody: by default the client would call there for a minute after its replica was promoted. A look is
// one command a second and process, to any node, beside the commands in hand.
const mapEvery = time.Second

// New makes a client. It does not connect; the first command or Ready does. The caller closes it.
func New(o *redis.UniversalOptions) redis.UniversalClient {
	if !o.IsClusterMode {
		return redis.NewUniversalClient(o)
	}
	cluster := o.Cluster()
	cluster.ClusterStateReloadInterval = mapEvery
	return redis.NewClusterClient(cluster)
}
