package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redisProgram is a server that speaks Redis.
type redisProgram struct{ path, product, version, mode string }

// String is the product and its version, such as "valkey 8.1.1".
func (p redisProgram) String() string { return p.product + " " + p.version }

var redisVersion = regexp.MustCompile(`v=([0-9.]+)`)

// findRedis gives the program that HANJUL_REDIS_SERVER names, else redis-server,
// else valkey-server.
func findRedis(ctx context.Context) (redisProgram, error) {
	path := os.Getenv("HANJUL_REDIS_SERVER")
	if path == "" {
		var err error
		folders := []string{"/usr/bin", "/usr/local/bin", "/usr/sbin"}
		if path, err = find("redis-server", folders...); err != nil {
			valkey, errValkey := find("valkey-server", folders...)
			if errValkey != nil {
				return redisProgram{}, err
			}
			path = valkey
		}
	}
	printed, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return redisProgram{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	match := redisVersion.FindSubmatch(printed)
	if match == nil {
		return redisProgram{}, fmt.Errorf("ask %s for its version: it says %q", path, printed)
	}
	p := redisProgram{path: path, product: "redis", version: string(match[1])}
	if strings.HasPrefix(string(printed), "Valkey") {
		p.product = "valkey"
	}
	return p, checkRedis(path, p.product, p.version)
}

// checkRedis refuses a version that is older than what the services need.
func checkRedis(where, product, version string) error {
	major, minor := 7, 0
	if product == "valkey" {
		minor = 2
	}
	if !atLeast(version, major, minor) {
		return fmt.Errorf("%s is %s %s, %d.%d or newer is needed: %w", where, product, version, major, minor, ErrTooOld)
	}
	return nil
}

// askRedis asks a running server what it is; the program has no path then.
func askRedis(ctx context.Context, client *redis.Client) (redisProgram, error) {
	server, err := client.Info(ctx, "server").Result()
	if err != nil {
		return redisProgram{}, err
	}
	p := redisProgram{product: "redis", version: infoField(server, "redis_version"), mode: infoField(server, "redis_mode")}
	if valkey := infoField(server, "valkey_version"); valkey != "" {
		p.product, p.version = "valkey", valkey // which also claims to be a Redis, of the version it came from
	}
	return p, checkRedis("the server", p.product, p.version)
}

// describeRedis looks at a server that the environment names.
func describeRedis(ctx context.Context, given Given) (string, error) {
	client := redis.NewClient(&redis.Options{Addr: given.Redis[0]})
	defer func() { _ = client.Close() }()
	p, err := askRedis(ctx, client)
	if err != nil {
		return "", fmt.Errorf("redis given at %s: %w", given.Redis[0], err)
	}
	return fmt.Sprintf("redis     %s (%s, %s, given)", strings.Join(given.Redis, ","), p, p.mode), nil
}

// redisMode is the word of the setting REDIS_MODE.
func redisMode(standalone bool) string {
	if standalone {
		return "standalone"
	}
	return "cluster"
}

// redisKind says of a mode what a server that is started here is.
func redisKind(mode string) string {
	if mode == "cluster" {
		return "one node in cluster mode"
	}
	return mode
}
