package redisconn

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Report is what Ready found.
type Report struct {
	Versions []string // product and version, one per master, such as "redis 7.0.15" or "valkey 8.1.1"
	Warnings []string // what works now and may lose data later, for the log; each once
}

// Ready asks every master who it is, and how it keeps what it is told; rdb was made for mode. It fails when a master does not answer, and
// with ErrUnfit when it is none that can be worked with: too old, run in another way than mode says, a replica, or one that does not know
// us or lets us do too little. What may lose data is a warning: a policy of eviction, under which Redis drops a line or its stock when it is full,
// and no append-only file. CONFIG is asked only for what INFO does not tell; where it is refused, as managed services do, that is a
// warning and nothing else is lost. Changes nothing. Safe to repeat and for concurrent use.
func Ready(ctx context.Context, rdb redis.UniversalClient, mode Mode) (Report, error) {
	l := &look{mode: mode}
	var err error
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return l.at(ctx, node) })
	} else {
		err = l.at(ctx, rdb)
	}
	slices.Sort(l.report.Warnings)
	l.report.Warnings = slices.Compact(l.report.Warnings)
	return l.report, explain(err)
}

// look collects what masters tell, at the same time.
type look struct {
	mode   Mode
	mu     sync.Mutex
	report Report
}

func (l *look) at(ctx context.Context, node redis.Cmdable) error {
	text, err := node.Info(ctx).Result()
	if err != nil {
		return fmt.Errorf("ask redis who it is: %w", err)
	}
	product, version := named(text)
	var warnings []string
	if policy, told := told(ctx, node, text, "maxmemory_policy", "maxmemory-policy"); policy != "noeviction" {
		warnings = append(warnings, "maxmemory-policy is "+told+", expected noeviction")
	}
	if on, told := told(ctx, node, text, "aof_enabled", "appendonly"); on != "1" && on != "yes" {
		warnings = append(warnings, "appendonly is "+told+", expected yes: a restart comes back with the last snapshot, or with nothing")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Versions = append(l.report.Versions, product+" "+version)
	if err := fit(product, version); err != nil {
		return err
	}
	if err := l.suits(text); err != nil {
		return err
	}
	l.report.Warnings = append(l.report.Warnings, warnings...)
	return nil
}

// told finds a value in INFO, else asks CONFIG for it. It returns the value, "" when nobody tells, and words for it.
func told(ctx context.Context, node redis.Cmdable, info, field, name string) (value, words string) {
	if value = infoField(info, field); value == "0" {
		return value, "off"
	} else if value != "" {
		return value, value
	}
	switch values, err := node.ConfigGet(ctx, name).Result(); {
	case err != nil:
		return "", "not told (INFO has no " + field + ", CONFIG: " + err.Error() + ")"
	case values[name] == "":
		return "", "not told"
	default:
		return values[name], values[name]
	}
}

// named is what the server calls itself. A Valkey also claims to be a Redis, of the version it came from.
func named(info string) (product, version string) {
	if version = infoField(info, "valkey_version"); version != "" {
		return "valkey", version
	}
	return "redis", infoField(info, "redis_version")
}

// fit refuses what is too old: Redis before 7.0 knows no #!lua scripts, and Valkey began with 7.2.
func fit(product, version string) error {
	least := [2]int{7, 0}
	if product == "valkey" {
		least = [2]int{7, 2}
	}
	parts := append(strings.SplitN(version, ".", 3), "", "")
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil || major < least[0] || major == least[0] && minor < least[1] {
		return unfit("the server is %s %s, expected %s %d.%d or newer", product, version, product, least[0], least[1])
	}
	return nil
}

// suits refuses a server that is run in another way than the settings say.
func (l *look) suits(info string) error {
	runs := infoField(info, "redis_mode")
	switch {
	case runs == "sentinel":
		return unfit("REDIS_ADDRS: a Sentinel answers, expected Redis; or REDIS_MODE=sentinel and REDIS_MASTER")
	case runs == "cluster" && (l.mode == Standalone || l.mode == Sentinel):
		return unfit("REDIS_MODE is %s and the server is a node of a cluster, expected REDIS_MODE=cluster", l.mode)
	case infoField(info, "role") != "slave":
		return nil
	case l.mode == Standalone:
		return unfit("REDIS_ADDRS or REDIS_URL: the server is a read-only replica of %s:%s, expected the master; name that one, or the Sentinels that know it with REDIS_MODE=sentinel",
			infoField(info, "master_host"), infoField(info, "master_port"))
	default: // Sentinels and clusters promote, and a client may be a moment ahead or behind.
		return fmt.Errorf("redis: the master is a replica of %s:%s at the moment", infoField(info, "master_host"), infoField(info, "master_port"))
	}
}

// infoField finds one line of INFO.
func infoField(info, name string) string {
	for line := range strings.SplitSeq(info, "\n") {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
