package local_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// TestKafkaClusterWritesWithOneNodeAway kills the leader of a topic, writes on, and has it back in step, three times over, so
// that each node may lead.
func TestKafkaClusterWritesWithOneNodeAway(t *testing.T) {
	t.Parallel()
	cluster, err := local.StartKafkaCluster(t.Context(), local.KafkaJarsOptions{Jars: localtest.Jars(t), Log: t.Output()}, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client := kafkaClient(t, cluster.Addrs(), kgo.MetadataMinAge(50*time.Millisecond))
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 1, 3, nil, "kept"); err != nil {
		t.Fatal(err)
	}
	write := func(value string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// await waits until the partition has a leader and so many replicas that follow it.
	await := func(count int) local.KafkaPartition {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ticker := time.NewTicker(20 * time.Millisecond); ; <-ticker.C {
			found, err := cluster.Partition(ctx, "kept", 0)
			if ctx.Err() != nil {
				t.Fatalf("%d replicas are not in step: %+v, %v", count, found, err)
			}
			if err == nil && found.Leader > 0 && found.InSync == count {
				return found
			}
		}
	}
	const rounds = 3
	for round := range rounds {
		leader := await(3).Leader
		write(fmt.Sprintf("%d with all", round))
		cluster.Node(leader).Kill()
		write(fmt.Sprintf("%d without %d", round, leader))
		if found := await(2); found.Leader == leader || found.InStep() {
			t.Fatalf("node %d is dead: %+v", leader, found)
		}
		if err := cluster.Node(leader).Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if found := await(3); !found.InStep() || found.End != 2*rounds {
		t.Fatalf("found %+v, want %d records", found, 2*rounds)
	}
	if _, err := cluster.Partition(t.Context(), "absent", 0); err == nil {
		t.Fatal("a topic that is not there has a partition")
	}
}

func TestKafkaClusterNeedsThreeNodes(t *testing.T) {
	t.Parallel()
	if _, err := local.StartKafkaCluster(t.Context(), local.KafkaJarsOptions{}, 2); err == nil {
		t.Fatal("two nodes can lose none")
	}
}
