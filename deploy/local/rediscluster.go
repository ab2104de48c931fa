package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The shape of a cluster: each primary has one replica and serves a third of the slots.
const (
	redisPrimaries = 3
	redisSlots     = 16384
)

// RedisClusterOptions says how a Redis Cluster is started.
type RedisClusterOptions struct {
	// Dir gets a folder for each process, and is for this run only: the ports
	// are chosen at each start. "" means a temporary one, removed by Stop.
	Dir string
	// NodeTimeout is how long a node may be silent before the others take it for
	// dead; its replica is promoted about a second after that. 0 means 2 s, so
	// that whoever kills a primary need not wait; who kills none asks for more,
	// lest a busy machine looks like a dead node.
	NodeTimeout time.Duration
	// Log gets what the servers print; nil drops it.
	Log io.Writer
}

// RedisCluster is three primaries with one replica each, as processes that can
// be killed and started again one by one. They replicate as Redis does, without
// waiting, and write nothing to disk: a primary that is killed takes its last
// writes with it, and comes back empty. Its methods are safe concurrently.
type RedisCluster struct {
	version   string
	nodes     []*RedisNode
	temporary *tempDir
}

// StartRedisCluster starts the six processes and returns when every slot is
// served and each primary has its replica in step. It fails with ErrMissing or
// ErrTooOld before anything is started. ctx bounds the start only.
func StartRedisCluster(ctx context.Context, options RedisClusterOptions) (*RedisCluster, error) {
	program, err := findRedis(ctx)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := workDir(options.Dir, "redis-cluster")
	if err != nil {
		return nil, err
	}
	if options.NodeTimeout == 0 {
		options.NodeTimeout = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, redisStart)
	defer cancel()
	for try := range portTries {
		c := &RedisCluster{version: program.String(), temporary: temporary}
		// Another folder for each try: a node writes down the ports of the others.
		folder := filepath.Join(dir, fmt.Sprintf("try-%d", try+1))
		if err := os.RemoveAll(folder); err != nil { // an earlier run's
			return nil, fmt.Errorf("folder of redis: %w", err)
		}
		for i := range 2 * redisPrimaries {
			c.nodes = append(c.nodes, &RedisNode{
				path: program.path, dir: filepath.Join(folder, fmt.Sprintf("node-%d", i+1)), timeout: options.NodeTimeout, log: options.Log,
			})
		}
		if err = c.start(ctx); err == nil {
			return c, nil
		}
		c.kill()
		if ctx.Err() != nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	temporary.remove()
	return nil, err
}

func (c *RedisCluster) start(ctx context.Context) error {
	if err := c.each(func(n *RedisNode) error { return n.begin(ctx) }); err != nil {
		return err
	}
	for i, n := range c.nodes {
		// Different epochs from the beginning, or the nodes settle them one after the other.
		if err := n.do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("redis on %s: %w", n.Addr(), err)
		}
		if i >= redisPrimaries {
			continue
		}
		from, to := i*redisSlots/redisPrimaries, (i+1)*redisSlots/redisPrimaries-1
		if err := n.do(ctx, "cluster", "addslotsrange", from, to).Err(); err != nil {
			return fmt.Errorf("redis on %s: %w", n.Addr(), err)
		}
	}
	if err := c.introduce(ctx); err != nil {
		return err
	}
	for i, n := range c.nodes[redisPrimaries:] {
		id, err := c.nodes[i].do(ctx, "cluster", "myid").Text()
		if err != nil {
			return fmt.Errorf("redis on %s: %w", c.nodes[i].Addr(), err)
		}
		if err := n.do(ctx, "cluster", "replicate", id).Err(); err != nil {
			return fmt.Errorf("redis on %s: %w", n.Addr(), err)
		}
	}
	return c.AwaitInStep(ctx)
}

// introduce makes the nodes known to each other. One that does not know all of
// them is told again: an introduction that takes too long is forgotten.
func (c *RedisCluster) introduce(ctx context.Context) error {
	first, told := c.nodes[0], time.Time{}
	return c.await(ctx, "every node to know the others", func(ctx context.Context) error {
		if time.Since(told) > 2*time.Second {
			told = time.Now()
			for _, n := range c.nodes[1:] {
				if err := first.do(ctx, "cluster", "meet", loopback, n.port, n.bus).Err(); err != nil {
					return err
				}
			}
		}
		for _, n := range c.nodes {
			info, err := n.do(ctx, "cluster", "info").Text()
			if err != nil {
				return err
			}
			if known := infoField(info, "cluster_known_nodes"); known != fmt.Sprint(len(c.nodes)) {
				return fmt.Errorf("%s knows %s nodes", n.Addr(), known)
			}
		}
		return nil
	})
}

// AwaitInStep returns when all slots are served in the eyes of every node, every
// process runs, and each primary has its replica in step.
func (c *RedisCluster) AwaitInStep(ctx context.Context) error {
	return c.await(ctx, "the cluster to be in step", func(ctx context.Context) error {
		for _, n := range c.nodes {
			if err := n.inStep(ctx); err != nil {
				return fmt.Errorf("redis on %s: %w", n.Addr(), err)
			}
		}
		return nil
	})
}

// Primary is the node that serves a key's slot, in the eyes of all nodes that
// run; it waits until they agree.
func (c *RedisCluster) Primary(ctx context.Context, key string) (*RedisNode, error) {
	var found *RedisNode
	err := c.await(ctx, "the nodes to agree who serves "+key, func(ctx context.Context) error {
		found = nil
		for _, n := range c.nodes {
			if !n.alive() {
				continue
			}
			addr, err := n.serves(ctx, key)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(c.nodes, func(n *RedisNode) bool { return n.Addr() == addr })
			if i < 0 || !c.nodes[i].alive() || found != nil && found != c.nodes[i] {
				return fmt.Errorf("%s says %q", n.Addr(), addr)
			}
			found = c.nodes[i]
		}
		if found == nil {
			return ErrStopped
		}
		return nil
	})
	return found, err
}

// KillPrimary kills the node that serves a key's slot by SIGKILL and returns it
// with its successor, when all others know that one and it takes writes. What
// the dead one had not passed on is lost.
func (c *RedisCluster) KillPrimary(ctx context.Context, key string) (dead, successor *RedisNode, err error) {
	if dead, err = c.Primary(ctx, key); err != nil {
		return nil, nil, err
	}
	dead.Kill()
	if successor, err = c.Primary(ctx, key); err != nil {
		return dead, nil, err
	}
	if err := successor.do(ctx, "config", "set", "masterauth", "").Err(); err != nil {
		return dead, nil, fmt.Errorf("redis on %s: %w", successor.Addr(), err)
	}
	return dead, successor, nil
}

// HandOver has the replica of a key's primary take over, which loses nothing: the
// primary waits for it. It returns when all nodes know.
func (c *RedisCluster) HandOver(ctx context.Context, key string) error {
	primary, err := c.Primary(ctx, key)
	if err != nil {
		return err
	}
	replica, err := c.replicaOf(ctx, primary)
	if err != nil {
		return err
	}
	asked := time.Time{} // asking again begins again
	return c.await(ctx, replica.Addr()+" to take over", func(ctx context.Context) error {
		if now, err := c.Primary(ctx, key); err != nil || now == replica {
			return err
		}
		if time.Since(asked) < 5*time.Second {
			return errNotYet
		}
		asked = time.Now()
		return errors.Join(errNotYet, replica.do(ctx, "cluster", "failover").Err())
	})
}

// errNotYet is what there is to complain about while nothing is wrong.
var errNotYet = errors.New("not yet")

// replicaOf is the replica of a primary.
func (c *RedisCluster) replicaOf(ctx context.Context, primary *RedisNode) (*RedisNode, error) {
	for _, n := range c.nodes {
		if of, err := n.follows(ctx); err == nil && of == primary.Addr() {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s has no replica that answers", primary.Addr())
}

// HoldBack makes the replica of a key's primary follow no longer, as on a network
// that lost a path: what the primary is told from now on it alone knows. The
// replica that is promoted then is itself again.
func (c *RedisCluster) HoldBack(ctx context.Context, key string) error {
	primary, err := c.Primary(ctx, key)
	if err != nil {
		return err
	}
	replica, err := c.replicaOf(ctx, primary)
	if err != nil {
		return err
	}
	// A password that the primary does not know.
	if err := replica.do(ctx, "config", "set", "masterauth", "held-back").Err(); err != nil {
		return fmt.Errorf("hold back %s: %w", replica.Addr(), err)
	}
	if err := replica.do(ctx, "client", "kill", "type", "master").Err(); err != nil {
		return fmt.Errorf("hold back %s: %w", replica.Addr(), err)
	}
	return nil
}

// Restart starts a node that was killed on its port, empty, and returns when it
// is a replica in step. Start one again only when its successor is known: an
// empty node that is back before that is a primary still, and its replica
// copies it.
func (c *RedisCluster) Restart(ctx context.Context, n *RedisNode) error {
	if err := c.temporary.gone(); err != nil {
		return fmt.Errorf("restart redis-server: %w", err)
	}
	if err := n.begin(ctx); err != nil {
		return err
	}
	return c.AwaitInStep(ctx)
}

// await polls until try has nothing to complain about, or ctx is over.
func (c *RedisCluster) await(ctx context.Context, what string, try func(context.Context) error) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w)", what, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// each does something with every node at the same time.
func (c *RedisCluster) each(do func(*RedisNode) error) error {
	faults := make([]error, len(c.nodes))
	var group sync.WaitGroup
	for i, node := range c.nodes {
		group.Go(func() { faults[i] = do(node) })
	}
	group.Wait()
	return errors.Join(faults...)
}

// Addrs are all nodes, host:port. They stay the same over a node's Restart.
func (c *RedisCluster) Addrs() []string {
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Version is the servers' product and version, such as "redis 7.0.15".
func (c *RedisCluster) Version() string { return c.version }

// Stop ends every process and removes a temporary folder. Nothing is kept, so
// they are killed. Safe to repeat.
func (c *RedisCluster) Stop(context.Context) error {
	c.kill()
	c.temporary.remove()
	return nil
}

func (c *RedisCluster) kill() {
	_ = c.each(func(n *RedisNode) error {
		n.Kill()
		return nil
	})
}

var _ interface{ Stop(context.Context) error } = (*RedisCluster)(nil)

// redisTo makes a client of one node that tries once.
func redisTo(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 2, DisableIdentity: true, ContextTimeoutEnabled: true})
}
