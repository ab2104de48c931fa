package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
)

// sharedRedis is one Redis that only users with the rules of deploy/redis may use, beside one who looks on.
type sharedRedis struct {
	server *local.Redis
	tls    string // the file with who signed its certificate; "" where it is not encrypted
	admin  *redis.Client
}

func shareRedis(t *testing.T, standalone, encrypted bool) sharedRedis {
	t.Helper()
	s := sharedRedis{}
	options := local.RedisOptions{Standalone: standalone}
	if encrypted {
		authority := localtest.Authority(t)
		certificate, err := authority.Issue("redis", "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		s.tls = authority.File()
		options.TLS = &local.RedisTLS{CertFile: certificate.CertFile, KeyFile: certificate.KeyFile, CAFile: s.tls}
	}
	s.server = localtest.RedisWith(t, options)
	s.admin = redis.NewClient(&redis.Options{Addr: s.server.Addr(), Username: "onlooker", Password: "onlooker"})
	t.Cleanup(func() { _ = s.admin.Close() })
	first := redis.NewClient(&redis.Options{Addr: s.server.Addr()})
	defer func() { _ = first.Close() }()
	for _, rules := range []string{"onlooker on >onlooker ~* &* +@all", "default off"} {
		if err := first.Do(t.Context(), setUser(rules)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func setUser(rules string) []any {
	command := []any{"acl", "setuser"}
	for word := range strings.FieldsSeq(rules) {
		command = append(command, word)
	}
	return command
}

// settings makes the three users of a deployment with the rules of deploy/redis, and returns how its services reach Redis.
func (s sharedRedis) settings(t *testing.T, deployment string) map[string]string {
	t.Helper()
	env := quick()
	for service, word := range map[string]string{local.QueueAPI: "API", local.Scheduler: "SCHEDULER", local.Consumer: "CONSUMER"} {
		text, err := os.ReadFile(filepath.Join("..", "deploy", "redis", service+".acl"))
		if err != nil {
			t.Fatal(err)
		}
		user, password := deployment+"-"+service, "secret-of-"+deployment+"-"+service
		rules, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "user "+service+" ")
		if !ok {
			t.Fatalf("the rules of %s begin with %q", service, text)
		}
		rules = strings.NewReplacer("PASSWORD", password, "hanjul:", deployment+":").Replace(rules)
		if err := s.admin.Do(t.Context(), setUser(user+" "+rules)...).Err(); err != nil {
			t.Fatal(err)
		}
		env["HANJUL_"+word+"_REDIS_USER"], env["HANJUL_"+word+"_REDIS_PASSWORD"] = user, password
	}
	maps.Copy(env, map[string]string{
		"HANJUL_REDIS_ADDRS": s.server.Addr(), "HANJUL_REDIS_MODE": s.server.Mode(), "HANJUL_KEY_PREFIX": deployment + ":",
	})
	if s.tls != "" {
		maps.Copy(env, map[string]string{"HANJUL_REDIS_ADDRS": s.server.TLSAddr(), "HANJUL_REDIS_TLS": "on", "HANJUL_REDIS_CA_FILE": s.tls})
	}
	return env
}

// TestServicesUnderTheirRules holds a sale under exactly the users of deploy/redis, without and with cluster mode, and with TLS. On the second, staging
// and production share Redis and sell a product of the same name at the same time. Nothing is refused, so nobody touched the other's keys or channel.
func TestServicesUnderTheirRules(t *testing.T) {
	t.Parallel()
	inKafka(t)
	for name, tt := range map[string]struct {
		standalone, encrypted bool
		deployments           []string
	}{
		"StandaloneWithTLS":  {true, true, []string{"production"}},
		"ClusterSharedByTwo": {false, false, []string{"production", "staging"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := shareRedis(t, tt.standalone, tt.encrypted)
			var group sync.WaitGroup
			var mu sync.Mutex
			prefixes := map[string]bool{}
			for _, deployment := range tt.deployments {
				stack := startIn(t, local.StackOptions{DataDir: localtest.Dir(t), PerService: 1, Env: shared.settings(t, deployment)})
				prefixes[deployment] = true
				group.Go(func() {
					err := sell(t.Context(), t.TempDir(), stack)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Errorf("%s: %v", deployment, err)
					}
				})
			}
			group.Wait()
			refused, err := shared.admin.ACLLog(t.Context(), 20).Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range refused {
				t.Errorf("refused %d times: %s by %s (%s)", entry.Count, entry.Object, entry.Username, entry.Reason)
			}
			keys := shared.admin.Scan(t.Context(), 0, "*", 1000).Iterator()
			seen := map[string]bool{}
			for keys.Next(t.Context()) {
				prefix, _, _ := strings.Cut(keys.Val(), ":")
				seen[prefix] = true
			}
			if err := keys.Err(); err != nil || !maps.Equal(seen, prefixes) {
				t.Errorf("keys begin with %v, %v, expected %v", seen, err, prefixes)
			}
			channels, err := shared.admin.PubSubChannels(t.Context(), "*").Result()
			if err != nil || len(channels) != 2*len(tt.deployments) { // of statuses and of the gate
				t.Errorf("channels: %v, %v", channels, err)
			}
		})
	}
}

// sell holds a small sale whose verdicts are partly told by streams, and audits it.
func sell(ctx context.Context, dir string, stack *local.Stack) error {
	target, err := sale.Of(stack, false)
	if err != nil {
		return err
	}
	report, err := sale.Run(ctx, target, sale.Config{
		Product: "same", Buyers: 120, Stock: 40, Seed: 20261130, Settings: settings(), Dir: dir, Limit: 3 * time.Minute,
	})
	if err != nil {
		return err
	}
	if !report.OK() {
		var table strings.Builder
		_ = report.Print(&table)
		return fmt.Errorf("the sale did not end as promised:\n%s", table.String())
	}
	return nil
}
