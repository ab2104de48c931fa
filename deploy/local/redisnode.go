package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisNode is one process of a RedisCluster, which makes it. Its methods are
// safe concurrently.
type RedisNode struct {
	path, dir string
	timeout   time.Duration
	log       io.Writer

	mu        sync.Mutex
	port, bus int
	proc      *child
	paused    bool
}

// begin starts the process and returns when it answers. Its ports are chosen
// once, since the other nodes know them.
func (n *RedisNode) begin(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return fmt.Errorf("folder of redis: %w", err)
	}
	for _, port := range []*int{&n.port, &n.bus} {
		if *port == 0 {
			free, err := freePort()
			if err != nil {
				return err
			}
			*port = free
		}
	}
	cmd := exec.Command(n.path,
		"--bind", loopback, "--port", strconv.Itoa(n.port),
		"--dir", n.dir, "--daemonize", "no", "--loglevel", "notice", "--maxmemory-policy", "noeviction",
		// Nothing on disk, so that a node that died comes back empty, as on a new machine.
		"--save", "", "--appendonly", "no",
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-port", strconv.Itoa(n.bus), "--cluster-announce-ip", loopback,
		"--cluster-node-timeout", strconv.FormatInt(n.timeout.Milliseconds(), 10),
		// The products of two shards go on while the third waits for its new primary.
		"--cluster-require-full-coverage", "no",
		// A replica stands for election however long its primary was silent before; and stays with its shard.
		"--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no",
		// A replica that came back is copied to at once instead of after five seconds.
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	cmd.Dir = n.dir
	proc, err := startChild("redis-server", cmd, syscall.SIGKILL, n.log)
	if err != nil {
		return err
	}
	client := redisTo(hostPort(n.port))
	defer func() { _ = client.Close() }()
	err = poll(ctx, proc, "redis-server", func(ctx context.Context) (bool, error) {
		server, err := client.Info(ctx, "server").Result()
		if err != nil {
			return false, err
		}
		if id := infoField(server, "process_id"); id != strconv.Itoa(proc.pid()) {
			return false, fmt.Errorf("process %s answers in our place", id)
		}
		return true, nil
	})
	if err != nil {
		proc.kill()
		return fmt.Errorf("redis-server on port %d: %w", n.port, err)
	}
	n.proc, n.paused = proc, false
	return nil
}

// do sends one command to the node itself.
func (n *RedisNode) do(ctx context.Context, args ...any) *redis.Cmd {
	client := redisTo(n.Addr())
	defer func() { _ = client.Close() }()
	return client.Do(ctx, args...)
}

// inStep says what is amiss: in the node's eyes every slot is served, and it is
// a primary whose replica follows, or a replica that follows.
func (n *RedisNode) inStep(ctx context.Context) error {
	client := redisTo(n.Addr())
	defer func() { _ = client.Close() }()
	cluster, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for name, want := range map[string]string{
		"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(redisSlots), "cluster_size": strconv.Itoa(redisPrimaries),
	} {
		if got := infoField(cluster, name); got != want {
			return fmt.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	replication, err := client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if infoField(replication, "role") == "slave" {
		if link := infoField(replication, "master_link_status"); link != "up" {
			return fmt.Errorf("its link to the primary is %q", link)
		}
		return nil
	}
	if replica := infoField(replication, "slave0"); !strings.Contains(replica, "state=online") {
		return fmt.Errorf("its replica is %q", replica)
	}
	return nil
}

// serves gives the address of the primary of a key's slot in the node's eyes.
func (n *RedisNode) serves(ctx context.Context, key string) (string, error) {
	client := redisTo(n.Addr())
	defer func() { _ = client.Close() }()
	slot, err := client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return "", err
	}
	ranges, err := client.ClusterSlots(ctx).Result() //nolint:staticcheck // the list of shards has primaries in it that died
	if err != nil {
		return "", err
	}
	for _, r := range ranges {
		if int64(r.Start) <= slot && slot <= int64(r.End) && len(r.Nodes) > 0 {
			return r.Nodes[0].Addr, nil
		}
	}
	return "", errors.New("nobody serves slot " + strconv.FormatInt(slot, 10))
}

// follows gives the address of the primary that the node is a replica of; "" for a primary.
func (n *RedisNode) follows(ctx context.Context) (string, error) {
	replication, err := n.do(ctx, "info", "replication").Text()
	if err != nil || infoField(replication, "role") != "slave" {
		return "", err
	}
	return net.JoinHostPort(infoField(replication, "master_host"), infoField(replication, "master_port")), nil
}

// Addr is host:port. It stays the same over a restart.
func (n *RedisNode) Addr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return hostPort(n.port)
}

// Kill ends the node by SIGKILL and returns when it is gone. Safe to repeat.
func (n *RedisNode) Kill() {
	if proc := n.process(); proc != nil {
		proc.kill()
	}
}

// Pause freezes the node (SIGSTOP): its connections stay open and nothing
// answers, so the others take it for dead in the end.
func (n *RedisNode) Pause() error { return n.freeze(syscall.SIGSTOP) }

// Resume lets a paused node go on. One whose replica was promoted meanwhile
// becomes that one's replica and forgets what only it had.
func (n *RedisNode) Resume() error { return n.freeze(syscall.SIGCONT) }

func (n *RedisNode) freeze(sig syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = sig == syscall.SIGSTOP
	return n.proc.signal(sig)
}

// alive reports whether it can answer.
func (n *RedisNode) alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc != nil && n.proc.alive() && !n.paused
}

func (n *RedisNode) process() *child {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}
