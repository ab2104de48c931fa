package redisconn_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/redisconn"
)

// patient is a configuration under which a busy machine does not look like an outage.
func patient(c redisconn.Config) redisconn.Config {
	c.Timeout = 20 * time.Second
	return c
}

// ask makes a client as the services do and asks for readiness; hooks change what the client is told.
func ask(t *testing.T, c redisconn.Config, hooks ...redis.Hook) (redisconn.Report, error) {
	t.Helper()
	rdb := redisconn.New(redisconn.ClientOptions(patient(c)))
	defer func() { _ = rdb.Close() }()
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	return redisconn.Ready(t.Context(), rdb, c.Mode)
}

// admin is a client of one server that may do everything.
func admin(t *testing.T, server *local.Redis) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func on(server *local.Redis) redisconn.Config {
	return redisconn.Config{Addrs: []string{server.Addr()}, Mode: redisconn.Mode(server.Mode())}
}

func TestReady(t *testing.T) {
	t.Parallel()
	for _, standalone := range []bool{false, true} {
		t.Run(fmt.Sprint("Standalone=", standalone), func(t *testing.T) {
			t.Parallel()
			server := localtest.RedisWith(t, local.RedisOptions{Dir: t.TempDir(), Persist: true, Standalone: standalone})
			report, err := ask(t, on(server))
			if err != nil || len(report.Versions) != 1 || report.Versions[0] != server.Version() || len(report.Warnings) != 0 {
				t.Fatalf("ready: %+v, %v, expected %s", report, err, server.Version())
			}
			for name, value := range map[string]string{"maxmemory-policy": "allkeys-lru", "appendonly": "no"} {
				if err := admin(t, server).ConfigSet(t.Context(), name, value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if report, err = ask(t, on(server)); err != nil || len(report.Warnings) != 2 {
				t.Fatalf("ready with eviction and without a file: %+v, %v", report, err)
			}
		})
	}
	t.Run("NobodyIsThere", func(t *testing.T) {
		t.Parallel()
		for _, mode := range []redisconn.Mode{redisconn.Cluster, redisconn.Standalone, redisconn.Sentinel} {
			c := redisconn.Config{Addrs: []string{"127.0.0.1:1"}, Mode: mode}
			if mode == redisconn.Sentinel {
				c.Master = "m"
			}
			if _, err := ask(t, c); err == nil || errors.Is(err, redisconn.ErrUnfit) {
				t.Errorf("%s: %v, expected an error that is waited for", mode, err)
			}
		}
	})
}

// What is set up wrongly is told by the name of the setting and what was expected, and waiting for it would not help.
func TestReadyTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	authority := localtest.Authority(t)
	certificate, err := authority.Issue("redis", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := authority.Issue("elsewhere", "redis.example")
	if err != nil {
		t.Fatal(err)
	}
	withTLS := func(c local.Certificate) *local.RedisTLS {
		return &local.RedisTLS{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: authority.File()}
	}
	cluster := localtest.RedisWith(t, local.RedisOptions{TLS: withTLS(elsewhere)})
	alone := localtest.RedisWith(t, local.RedisOptions{Standalone: true, TLS: withTLS(certificate)})
	replica := localtest.RedisWith(t, local.RedisOptions{ReplicaOf: alone.Addr()})
	if err := admin(t, alone).Do(t.Context(), "acl", "setuser", "narrow", "on", ">right", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	with := func(server *local.Redis, settings ...string) []string {
		return append([]string{"HANJUL_REDIS_ADDRS=" + server.Addr(), "HANJUL_REDIS_MODE=" + server.Mode()}, settings...)
	}
	encrypted := func(server *local.Redis, settings ...string) []string {
		return append([]string{"HANJUL_REDIS_URL=rediss://" + server.TLSAddr(), "HANJUL_REDIS_MODE=" + server.Mode()}, settings...)
	}
	ca := "HANJUL_REDIS_CA_FILE=" + authority.File()
	for name, tt := range map[string]struct {
		environ []string
		want    string // nothing: it is well
	}{
		"TLS":                   {encrypted(alone, ca), ""},
		"NoClusterThere":        {[]string{"HANJUL_REDIS_ADDRS=" + alone.Addr()}, "REDIS_MODE is cluster and the server is run without, expected REDIS_MODE=standalone"},
		"ANodeOfACluster":       {[]string{"HANJUL_REDIS_ADDRS=" + cluster.Addr(), "HANJUL_REDIS_MODE=standalone"}, "REDIS_MODE is standalone and the server is a node of a cluster, expected REDIS_MODE=cluster"},
		"AReplica":              {with(replica), "REDIS_ADDRS or REDIS_URL: the server is a read-only replica of " + alone.Addr() + ", expected the master"},
		"NoSentinelsThere":      {[]string{"HANJUL_REDIS_ADDRS=" + alone.Addr(), "HANJUL_REDIS_MODE=sentinel", "HANJUL_REDIS_MASTER=m"}, "REDIS_ADDRS: expected the Sentinels"},
		"AWrongPassword":        {with(alone, "HANJUL_REDIS_USER=narrow", "HANJUL_REDIS_PASSWORD=wrong"), "REDIS_USER and REDIS_PASSWORD, or those in REDIS_URL: Redis does not know this user"},
		"AUserWithoutRights":    {with(alone, "HANJUL_REDIS_USER=narrow", "HANJUL_REDIS_PASSWORD=right"), "REDIS_USER: this user may not do what the service needs; docs/deploy.md has the rules"},
		"AnUnknownAuthority":    {encrypted(alone), "REDIS_CA_FILE: it does not hold who signed the certificate"},
		"ACertificateOfAnother": {encrypted(cluster, ca), "REDIS_ADDRS or REDIS_URL: the certificate of Redis is for another name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := config.NewSource(tt.environ, "API")
			c := redisconn.Read(s)
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			_, err := ask(t, c)
			if tt.want == "" && err != nil {
				t.Fatal(err)
			}
			if tt.want != "" && (!errors.Is(err, redisconn.ErrUnfit) || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("%v\nexpected %s", err, tt.want)
			}
		})
	}
	t.Run("NoPassword", func(t *testing.T) {
		t.Parallel()
		server := localtest.RedisWith(t, local.RedisOptions{Standalone: true})
		if err := admin(t, server).ConfigSet(t.Context(), "requirepass", "needed").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t, on(server)); !errors.Is(err, redisconn.ErrUnfit) {
			t.Fatal(err)
		}
		c := on(server)
		c.Password = config.NewSecret("needed")
		if _, err := ask(t, c); err != nil {
			t.Fatal(err)
		}
	})
}

// said replaces lines of INFO.
type said map[string]string

func (said) DialHook(next redis.DialHook) redis.DialHook { return next }

func (said) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s said) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" && err == nil {
			text := regexp.MustCompile(`(?m)^(valkey_version|server_name):.*$`).ReplaceAllString(info.Val(), "")
			for name, value := range s {
				text = regexp.MustCompile("(?m)^"+name+":.*$").ReplaceAllString(text, "") + "\r\n" + name + ":" + value
			}
			info.SetVal(text)
		}
		return err
	}
}

// A version is checked by the product's name: a Valkey says that it is a Redis of the version it came from.
func TestReadyChecksTheVersionByName(t *testing.T) {
	t.Parallel()
	server := localtest.RedisWith(t, local.RedisOptions{Standalone: true})
	for version, tt := range map[string]struct {
		info said
		fits bool
	}{
		"redis 7.0.0":  {said{"redis_version": "7.0.0"}, true},
		"redis 8.2":    {said{"redis_version": "8.2"}, true},
		"redis 6.2.14": {said{"redis_version": "6.2.14"}, false},
		"redis ":       {said{"redis_version": ""}, false},
		"valkey 7.2.5": {said{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "7.2.5"}, true},
		"valkey 8.1.1": {said{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.1"}, true},
		"valkey 7.1.9": {said{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "7.1.9"}, false},
	} {
		report, err := ask(t, on(server), tt.info)
		if len(report.Versions) != 1 || report.Versions[0] != version {
			t.Errorf("%s: %v", version, report.Versions)
		}
		if tt.fits && err != nil || !tt.fits && (!errors.Is(err, redisconn.ErrUnfit) || !strings.Contains(err.Error(), "or newer")) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// A managed service tells less in INFO and refuses CONFIG, by the rules of the user or as a command that is not there: a warning, and the rest works.
func TestReadyWithoutConfig(t *testing.T) {
	t.Parallel()
	server := localtest.RedisWith(t, local.RedisOptions{Dir: t.TempDir(), Persist: true, Standalone: true})
	if err := admin(t, server).Do(t.Context(), "acl", "setuser", "managed", "on", ">right", "+@all", "-config", "~*", "&*").Err(); err != nil {
		t.Fatal(err)
	}
	managed := on(server)
	managed.Username, managed.Password = "managed", config.NewSecret("right")
	silent := said{"maxmemory_policy": "", "aof_enabled": ""}
	for name, tt := range map[string]struct {
		c        redisconn.Config
		hook     redis.Hook
		warnings int
	}{
		"InfoTellsAll":  {managed, said{}, 0},
		"ConfigTells":   {on(server), silent, 0},
		"NobodyTells":   {managed, silent, 2},
		"EvictionIsSet": {managed, said{"maxmemory_policy": "volatile-lru"}, 1},
	} {
		report, err := ask(t, tt.c, tt.hook)
		if err != nil || len(report.Warnings) != tt.warnings {
			t.Errorf("%s: %q, %v, expected %d warnings", name, report.Warnings, err, tt.warnings)
		}
		if name == "NobodyTells" && !strings.Contains(strings.Join(report.Warnings, "\n"), "NOPERM") {
			t.Errorf("%s: the reason is not told: %q", name, report.Warnings)
		}
	}
}
