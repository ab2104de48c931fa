package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaCluster is several Apache Kafka nodes from jars, each broker and
// controller, that replicate every topic to all of them and take a write when
// all but one have it. Its nodes are processes that can be killed and restarted
// one by one; more than one away of three stops it until they are back. Its
// methods are safe concurrently.
type KafkaCluster struct {
	nodes     []*KafkaJars
	temporary *tempDir
}

// StartKafkaCluster starts so many nodes, at least three, and returns when a
// record went through all of them. A folder named by the options has one in it
// for each node, and is for this run only: ports are chosen at each start. Port
// is ignored. ctx bounds the start only.
func StartKafkaCluster(ctx context.Context, options KafkaJarsOptions, count int) (*KafkaCluster, error) {
	if count < 3 {
		return nil, fmt.Errorf("start a kafka cluster: expected 3 nodes or more, found %d", count)
	}
	dir, temporary, err := workDir(options.Dir, "kafka-cluster")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaStart)
	defer cancel()
	for try := range portTries {
		c := &KafkaCluster{temporary: temporary}
		// Another folder for each try: what was formatted belongs to the ports chosen.
		if err = c.start(ctx, options, filepath.Join(dir, fmt.Sprintf("try-%d", try+1)), count); err == nil {
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

func (c *KafkaCluster) start(ctx context.Context, options KafkaJarsOptions, dir string, count int) error {
	id, voters := clusterID(), make([]int, count)
	for i := range voters {
		options.Dir = filepath.Join(dir, fmt.Sprintf("node-%d", i+1))
		node, err := newKafkaJars(ctx, options, member{id: i + 1, cluster: id, voters: voters, heap: "256m"})
		if err != nil {
			return err
		}
		for _, port := range []*int{&node.port, &node.controller} {
			if *port, err = freePort(); err != nil {
				return err
			}
		}
		voters[i] = node.controller
		c.nodes = append(c.nodes, node)
	}
	// None is ready without the others, so all are launched before one is waited for.
	err := c.each(func(k *KafkaJars) error {
		proc, err := k.launch(ctx)
		k.mu.Lock()
		k.proc = proc
		k.mu.Unlock()
		return err
	})
	if err != nil {
		return err
	}
	return c.each(func(k *KafkaJars) error {
		if err := awaitKafka(ctx, k.process(), hostPort(k.port), count); err != nil {
			return fmt.Errorf("kafka node %d on port %d: %w", k.member.id, k.port, err)
		}
		return nil
	})
}

// each does something with every node at the same time.
func (c *KafkaCluster) each(do func(*KafkaJars) error) error {
	faults := make([]error, len(c.nodes))
	var group sync.WaitGroup
	for i, node := range c.nodes {
		group.Go(func() { faults[i] = do(node) })
	}
	group.Wait()
	return errors.Join(faults...)
}

// Addrs are the brokers, host:port, by their ids from 1. They stay the same
// over a node's Restart.
func (c *KafkaCluster) Addrs() []string {
	var addrs []string
	for _, node := range c.nodes {
		addrs = append(addrs, node.Addrs()...)
	}
	return addrs
}

// Node is the node with a broker's id, from 1; nil when there is none. Its
// Restart returns when the cluster lists it again, which is before it has caught
// up with the leaders.
func (c *KafkaCluster) Node(id int) *KafkaJars {
	if id < 1 || id > len(c.nodes) {
		return nil
	}
	return c.nodes[id-1]
}

// KafkaPartition is what a cluster says of one partition.
type KafkaPartition struct {
	// Leader is the id of the node that leads, 0 or less when none does.
	Leader int
	// Replicas is how many nodes have it, those that are away included; InSync
	// how many of them follow the leader, itself included.
	Replicas, InSync int
	// End is the offset of the next record.
	End int64
}

// InStep reports whether it has a leader that every replica follows.
func (p KafkaPartition) InStep() bool { return p.Leader > 0 && p.InSync == p.Replicas }

// Partition asks for a partition. It fails while the partition has no leader
// that answers.
func (c *KafkaCluster) Partition(ctx context.Context, topic string, partition int) (KafkaPartition, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.DialTimeout(time.Second), kgo.RetryTimeout(5*time.Second))
	if err != nil {
		return KafkaPartition{}, fmt.Errorf("partition %s/%d: %w", topic, partition, err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return KafkaPartition{}, fmt.Errorf("partition %s/%d: %w", topic, partition, err)
	}
	detail, known := topics[topic].Partitions[int32(partition)]
	if !known {
		return KafkaPartition{}, fmt.Errorf("partition %s/%d: there is none", topic, partition)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	end, told := ends.Lookup(topic, int32(partition))
	if err = errors.Join(err, end.Err); err != nil || !told {
		return KafkaPartition{}, fmt.Errorf("partition %s/%d: its end is not told: %w", topic, partition, err)
	}
	return KafkaPartition{Leader: int(detail.Leader), Replicas: len(detail.Replicas), InSync: len(detail.ISR), End: end.Offset}, nil
}

// AwaitInStep returns when every partition of every topic, Kafka's own included,
// has a leader that all its replicas follow: then any one node may be taken away.
func (c *KafkaCluster) AwaitInStep(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.DialTimeout(time.Second), kgo.RetryTimeout(5*time.Second))
	if err != nil {
		return fmt.Errorf("await the cluster: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for {
		behind, err := partitionsBehind(ctx, admin)
		if err == nil && behind == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("await the cluster: %w (last: %s %w)", ctx.Err(), behind, errors.Join(err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// partitionsBehind names a partition that is not in step; "" when all are.
func partitionsBehind(ctx context.Context, admin *kadm.Client) (string, error) {
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return "", err
	}
	for _, topic := range topics.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			if p.Err != nil || p.Leader <= 0 || len(p.ISR) < len(p.Replicas) {
				return fmt.Sprintf("%s/%d", topic.Topic, p.Partition), p.Err
			}
		}
	}
	return "", nil
}

// Version is the brokers' version, such as "kafka 4.4.0".
func (c *KafkaCluster) Version() string { return c.nodes[0].Version() }

// Stop ends every node and removes a temporary folder. The nodes are killed: one
// that is asked to end waits for a permission that a majority must give, and
// what was acknowledged is in the log of more than one. Safe to repeat.
func (c *KafkaCluster) Stop(context.Context) error {
	c.kill()
	c.temporary.remove()
	return nil
}

func (c *KafkaCluster) kill() {
	_ = c.each(func(k *KafkaJars) error {
		if proc := k.process(); proc != nil {
			proc.kill()
		}
		return nil
	})
}
