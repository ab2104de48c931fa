package local

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// startRedisContainer starts a Redis on an engine, with the settings of the
// program and the address announced under which it is reached from here.
func startRedisContainer(ctx context.Context, e *engine, image string, options RedisOptions) (*Redis, error) {
	ctx, cancel := context.WithTimeout(ctx, redisStart)
	defer cancel()
	r := &Redis{options: options}
	appendOnly, folder := "no", ""
	if options.Persist {
		appendOnly, folder = "yes", options.Dir
	}
	c, err := startContainer(ctx, e, containerOptions{
		name: "redis", image: image, port: 6379, fixed: options.Port, folder: folder, state: "/data", log: options.Log,
		compose: func(ip string, port int) ([]string, map[string]string) {
			cmd := []string{
				"redis-server", "--port", "6379", "--dir", "/data", "--save", "", "--protected-mode", "no",
				"--appendonly", appendOnly, "--appendfsync", "always",
				"--loglevel", "notice", "--maxmemory-policy", "noeviction",
			}
			if options.clustered() {
				cmd = append(cmd, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
					"--cluster-announce-ip", ip, "--cluster-announce-port", strconv.Itoa(port))
			}
			return cmd, nil
		},
		ready: func(ctx context.Context, ip string, port int) (bool, error) {
			client := redis.NewClient(&redis.Options{
				Addr: net.JoinHostPort(ip, strconv.Itoa(port)), MaxRetries: -1, PoolSize: 1, DisableIdentity: true,
			})
			defer func() { _ = client.Close() }()
			var err error
			if r.program, err = askRedis(ctx, client); err != nil {
				return errors.Is(err, ErrTooOld), err
			}
			if !options.clustered() {
				return true, nil
			}
			return takeSlots(ctx, client)
		},
	})
	if err != nil {
		return nil, err
	}
	r.container = c
	return r, nil
}
