package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ErrVersion says that a server is older than 7.0, which knows no #!lua scripts.
var ErrVersion = errors.New("redis is older than 7.0")

// Report is what Ready found.
type Report struct {
	Versions []string // one per master
	Warnings []string // what works now and may lose data later, for the log
}

// Ready asks every master for its version and its eviction policy. It fails when a master does not answer or is too old.
// An eviction policy other than noeviction is a warning: Redis would drop keys when it is full, and a line or its stock
// with them. Safe to repeat and for concurrent use.
func Ready(ctx context.Context, rdb redis.UniversalClient) (Report, error) {
	var mu sync.Mutex
	var report Report
	check := func(ctx context.Context, node redis.Cmdable) error {
		text, err := node.Info(ctx).Result()
		if err != nil {
			return fmt.Errorf("ask redis for its version: %w", err)
		}
		version, policy := field(text, "redis_version"), field(text, "maxmemory_policy")
		mu.Lock()
		defer mu.Unlock()
		report.Versions = append(report.Versions, version)
		major, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(major); err != nil || n < 7 {
			return fmt.Errorf("redis %q: %w", version, ErrVersion)
		}
		if policy != "noeviction" {
			report.Warnings = append(report.Warnings, "maxmemory-policy is "+policy+", expected noeviction")
		}
		return nil
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return check(ctx, node) })
		return report, err
	}
	return report, check(ctx, rdb)
}

// field finds one line of INFO.
func field(info, name string) string {
	for line := range strings.SplitSeq(info, "\n") {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
