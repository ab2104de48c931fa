package sale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hanjul/deploy/local"
	"hanjul/pkg/kafka"
	"hanjul/pkg/product"
)

// KillLeader kills by SIGKILL the broker that leads the product's partition of orders. It is started again once another leads and has
// taken commands, and the fault is mended when every replica follows again. Meanwhile people are let through slowly, at the rate given, so that
// some order however long it takes; after it as the settings say. The stack must have a Kafka cluster of its own.
func KillLeader(stack *local.Stack, target Stack, p product.ID, settings Settings, slowly float64) (Fault, error) {
	// Five commands are enough to show that buyers go on.
	kill, err := killLeader(stack, stack.Setting("HANJUL_TOPIC_ORDERS"), kafka.Partition([]byte(p), local.DefaultPartitions), 5)
	return Fault{What: "SIGKILL to the broker that leads " + string(p), Strike: slowed(target, p, settings, slowly, kill)}, err
}

// KillCoordinator does the same to the broker that coordinates the consumers' group, which leads the one partition of the topic of
// offsets. It is started again once another has noted something of the group.
func KillCoordinator(stack *local.Stack, target Stack, p product.ID, settings Settings, slowly float64) (Fault, error) {
	kill, err := killLeader(stack, "__consumer_offsets", 0, 1)
	return Fault{What: "SIGKILL to the broker that coordinates the consumers", Strike: slowed(target, p, settings, slowly, kill)}, err
}

// slowed lets people through at that rate while something is done.
func slowed(target Stack, p product.ID, settings Settings, slowly float64, do func(context.Context) error) func(context.Context, time.Duration) error {
	return func(ctx context.Context, _ time.Duration) error {
		pace := settings
		pace.Rate = slowly
		if err := put(ctx, target, p, 0, pace); err != nil {
			return err
		}
		return errors.Join(do(ctx), put(ctx, target, p, 0, settings))
	}
}

// killLeader kills the leader of a partition, and starts it again when another one has taken so many records.
func killLeader(stack *local.Stack, topic string, partition int, records int64) (kill func(context.Context) error, err error) {
	cluster := stack.KafkaCluster()
	if cluster == nil {
		return nil, errors.New("kill leader: the stack has no Kafka cluster of its own")
	}
	await := func(ctx context.Context, what string, fine func(local.KafkaPartition) bool) (local.KafkaPartition, error) {
		return awaitPartition(ctx, cluster, topic, partition, what, fine)
	}
	return func(ctx context.Context) error {
		before, err := await(ctx, "have every replica in step", local.KafkaPartition.InStep)
		if err != nil {
			return err
		}
		leader := cluster.Node(before.Leader)
		leader.Kill()
		after, err := await(ctx, "get another leader", func(p local.KafkaPartition) bool { return p.Leader > 0 && p.Leader != before.Leader })
		if err == nil {
			_, err = await(ctx, "take records meanwhile", func(p local.KafkaPartition) bool { return p.End >= after.End+records })
		}
		// Whatever came of that, the broker comes back.
		if err := errors.Join(err, leader.Restart(context.WithoutCancel(ctx))); err != nil {
			return err
		}
		_, err = await(ctx, "have every replica in step again", local.KafkaPartition.InStep)
		return err
	}, nil
}

// awaitPartition polls until the partition is as asked; a cluster in trouble may not answer for a while.
func awaitPartition(
	ctx context.Context, cluster *local.KafkaCluster, topic string, partition int, what string, fine func(local.KafkaPartition) bool,
) (local.KafkaPartition, error) {
	for {
		found, err := cluster.Partition(ctx, topic, partition)
		if err == nil && fine(found) {
			return found, nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return found, fmt.Errorf("%s/%d did not %s: %+v: %w", topic, partition, what, found, errors.Join(ctx.Err(), err))
		}
	}
}

// RollBrokers restarts every broker as an operator does: one after the other, each asked to end, which hands its partitions over first, and started
// again; the next one only when every replica of everything is in step. Meanwhile people are let through slowly, at the rate given, so that there are some
// however long it takes; after it as the settings say. The stack must have a Kafka cluster of its own.
func RollBrokers(stack *local.Stack, target Stack, p product.ID, settings Settings, slowly float64) (Fault, error) {
	cluster := stack.KafkaCluster()
	if cluster == nil {
		return Fault{}, errors.New("roll brokers: the stack has no Kafka cluster of its own")
	}
	topic, partition := stack.Setting("HANJUL_TOPIC_ORDERS"), kafka.Partition([]byte(p), local.DefaultPartitions)
	roll := func(ctx context.Context) error {
		for id := range len(cluster.Addrs()) {
			if err := cluster.AwaitInStep(ctx); err != nil {
				return err
			}
			if err := cluster.Node(id + 1).Restart(ctx); err != nil {
				return fmt.Errorf("roll brokers: broker %d: %w", id+1, err)
			}
		}
		return cluster.AwaitInStep(ctx)
	}
	strike := func(ctx context.Context) error {
		before, err := awaitPartition(ctx, cluster, topic, partition, "have every replica in step", local.KafkaPartition.InStep)
		if err != nil {
			return err
		}
		err = roll(ctx)
		after, errAfter := awaitPartition(ctx, cluster, topic, partition, "get a leader", func(found local.KafkaPartition) bool { return found.Leader > 0 })
		if errAfter == nil && after.End <= before.End {
			errAfter = fmt.Errorf("roll brokers: nobody ordered meanwhile: %+v, %+v", before, after)
		}
		return errors.Join(err, errAfter)
	}
	return Fault{What: "every broker restarted, one after the other", Strike: slowed(target, p, settings, slowly, strike)}, nil
}
