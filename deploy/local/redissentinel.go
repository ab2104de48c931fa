package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// The shape of what Sentinels watch, and what they call it.
const (
	redisSentinels = 3
	redisQuorum    = "2"
	redisMaster    = "hanjul"
	// redisDown is how long the master may be silent before Sentinels take it for
	// dead: short, since it is killed on purpose, and longer than a busy machine is.
	redisDown = 3 * time.Second
)

// RedisSentinels is a master, a replica and three Sentinels, as processes. When
// the master is killed the Sentinels promote the replica. Nothing is written to
// disk: a server that is started again comes back empty and becomes a replica.
// Its methods are safe concurrently.
type RedisSentinels struct {
	servers   []*Redis
	sentinels []*child
	addrs     []string
	temporary *tempDir
}

// StartRedisSentinels returns when every Sentinel knows the master, its replica
// and the other Sentinels. It fails with ErrMissing or ErrTooOld before anything
// is started. log gets what the servers print; nil drops it. ctx bounds the start only.
func StartRedisSentinels(ctx context.Context, log io.Writer) (_ *RedisSentinels, err error) {
	program, err := findRedis(ctx)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := workDir("", "redis-sentinels")
	if err != nil {
		return nil, err
	}
	s := &RedisSentinels{temporary: temporary}
	defer func() {
		if err != nil {
			_ = s.Stop(context.WithoutCancel(ctx)) // err says what matters
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, redisStart)
	defer cancel()
	of := ""
	for range 2 {
		server, err := StartRedis(ctx, RedisOptions{Standalone: true, ReplicaOf: of, Log: log})
		if err != nil {
			return nil, err
		}
		s.servers, of = append(s.servers, server), server.Addr()
	}
	for i := range redisSentinels {
		if err := s.startSentinel(ctx, program, filepath.Join(dir, fmt.Sprintf("sentinel-%d.conf", i+1)), log); err != nil {
			return nil, err
		}
	}
	for i, addr := range s.addrs {
		if err := s.await(ctx, s.sentinels[i], addr); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// startSentinel starts one on a free port, on another when that was snatched. It writes what it learns into its file.
func (s *RedisSentinels) startSentinel(ctx context.Context, program redisProgram, file string, log io.Writer) (err error) {
	host, master, _ := strings.Cut(s.servers[0].Addr(), ":")
	for range portTries {
		var port int
		if port, err = freePort(); err != nil {
			return err
		}
		settings := fmt.Sprintf(`bind %s
port %d
dir %s
sentinel monitor %s %s %s %s
sentinel down-after-milliseconds %[4]s %[8]d
sentinel failover-timeout %[4]s 10000
`, loopback, port, filepath.Dir(file), redisMaster, host, master, redisQuorum, redisDown.Milliseconds())
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			return fmt.Errorf("settings of a sentinel: %w", err)
		}
		var proc *child
		if proc, err = startChild("redis-sentinel", exec.Command(program.path, file, "--sentinel"), syscall.SIGKILL, log); err != nil {
			return err
		}
		client := redisTo(hostPort(port))
		err = poll(ctx, proc, "redis-sentinel", func(ctx context.Context) (bool, error) {
			server, err := client.Info(ctx, "server").Result()
			return infoField(server, "process_id") == strconv.Itoa(proc.pid()), err
		})
		_ = client.Close() // it has said what it was asked
		if err == nil {
			s.sentinels, s.addrs = append(s.sentinels, proc), append(s.addrs, hostPort(port))
			return nil
		}
		proc.kill()
		if !strings.Contains(err.Error(), "in use") {
			return err
		}
	}
	return err
}

// await returns when a Sentinel knows the replica and the other Sentinels: before that nobody could be promoted.
func (s *RedisSentinels) await(ctx context.Context, proc *child, addr string) error {
	client := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	return poll(ctx, proc, "redis-sentinel", func(ctx context.Context) (bool, error) {
		known, err := client.Master(ctx, redisMaster).Result()
		if err != nil {
			return false, err
		}
		if known["num-slaves"] != "1" || known["num-other-sentinels"] != strconv.Itoa(redisSentinels-1) || known["flags"] != "master" {
			return false, fmt.Errorf("%s knows %s replicas, %s other sentinels, %s", addr, known["num-slaves"], known["num-other-sentinels"], known["flags"])
		}
		return true, nil
	})
}

// Addrs are the Sentinels, host:port.
func (s *RedisSentinels) Addrs() []string { return s.addrs }

// Master is what the Sentinels call the master.
func (s *RedisSentinels) Master() string { return redisMaster }

// Servers are the master and the replica, in the order of their start.
func (s *RedisSentinels) Servers() []*Redis { return s.servers }

// KillMaster kills whoever is the master in the eyes of the first Sentinel, by SIGKILL, and returns it. Sentinels promote the replica.
func (s *RedisSentinels) KillMaster(ctx context.Context) (*Redis, error) {
	client := redis.NewSentinelClient(&redis.Options{Addr: s.addrs[0], DisableIdentity: true})
	defer func() { _ = client.Close() }()
	addr, err := client.GetMasterAddrByName(ctx, redisMaster).Result()
	if err != nil {
		return nil, fmt.Errorf("ask who is the master: %w", err)
	}
	for _, server := range s.servers {
		if server.Addr() == strings.Join(addr, ":") {
			server.Kill()
			return server, nil
		}
	}
	return nil, fmt.Errorf("kill the master %s: %w", strings.Join(addr, ":"), ErrStopped)
}

// Stop ends the Sentinels, then the servers. Safe to repeat.
func (s *RedisSentinels) Stop(ctx context.Context) error {
	for _, sentinel := range s.sentinels {
		sentinel.kill()
	}
	var faults []error
	for _, server := range s.servers {
		faults = append(faults, server.Stop(ctx))
	}
	s.temporary.remove()
	return errors.Join(faults...)
}
