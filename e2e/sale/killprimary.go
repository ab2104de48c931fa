package sale

import (
	"context"
	"errors"
	"time"

	"hanjul/deploy/local"
	"hanjul/pkg/product"
)

// EmptyPrimary kills the Redis that serves the product's line and starts it again at once, before anybody took it for dead: it is a primary
// still, without anything, and its replica copies that.
func EmptyPrimary(stack *local.Stack, p product.ID) (Fault, error) {
	cluster := stack.RedisCluster()
	if cluster == nil {
		return Fault{}, errNoCluster
	}
	return Fault{What: "SIGKILL to the Redis that serves the line, and back at once", Strike: func(ctx context.Context, _ time.Duration) error {
		primary, err := cluster.Primary(ctx, slotOf(stack, p))
		if err != nil {
			return err
		}
		primary.Kill()
		return cluster.Restart(ctx, primary)
	}}, nil
}

// FreezePrimary stops the Redis that serves the product's line without ending it (SIGSTOP) until its replica was promoted, and a while longer;
// then it goes on, and does not know yet that it is no primary any more.
func FreezePrimary(stack *local.Stack, p product.ID) (Fault, error) {
	cluster := stack.RedisCluster()
	if cluster == nil {
		return Fault{}, errNoCluster
	}
	return Fault{What: "SIGSTOP to the Redis that serves the line", Strike: func(ctx context.Context, pause time.Duration) error {
		frozen, err := cluster.Primary(ctx, slotOf(stack, p))
		if err != nil {
			return err
		}
		if err := frozen.Pause(); err != nil {
			return err
		}
		_, err = cluster.Primary(ctx, slotOf(stack, p))
		sleep(ctx, pause)
		if err := errors.Join(err, frozen.Resume()); err != nil {
			return err
		}
		return cluster.AwaitInStep(ctx)
	}}, nil
}

// errNoCluster says that a fault needs a Redis Cluster.
var errNoCluster = errors.New("kill primary: the stack has no Redis Cluster of its own")

// slotOf is one of the keys in the product's slot.
func slotOf(stack *local.Stack, p product.ID) string {
	return product.Keyspace{Prefix: stack.Setting("HANJUL_KEY_PREFIX")}.Product(p).Settings
}

// KillPrimary kills by SIGKILL the Redis that serves the product's line, waits until its replica was promoted, and after the pause starts it
// again, empty, as the replica of that one. The stack must have a Redis Cluster of its own.
func KillPrimary(stack *local.Stack, p product.ID) (Fault, error) { return LosePrimary(stack, p, 0) }

// LosePrimary is KillPrimary with a replica that followed no longer for a while before: what the line came to meanwhile is lost with the primary, and
// the promoted replica has the line of that long ago.
func LosePrimary(stack *local.Stack, p product.ID, behind time.Duration) (Fault, error) {
	cluster := stack.RedisCluster()
	if cluster == nil {
		return Fault{}, errNoCluster
	}
	what := "SIGKILL to the Redis that serves the line"
	if behind > 0 {
		what += ", " + behind.String() + " ahead of its replica"
	}
	return Fault{What: what, Strike: func(ctx context.Context, pause time.Duration) error {
		return killPrimary(ctx, cluster, slotOf(stack, p), behind, pause)
	}}, nil
}

func killPrimary(ctx context.Context, cluster *local.RedisCluster, key string, behind, pause time.Duration) error {
	if behind > 0 {
		if err := cluster.HoldBack(ctx, key); err != nil {
			return err
		}
		sleep(ctx, behind)
	}
	dead, _, err := cluster.KillPrimary(ctx, key)
	if err != nil {
		return err
	}
	sleep(ctx, pause)
	return cluster.Restart(ctx, dead)
}
