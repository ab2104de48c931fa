package local_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

func kafkaClient(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestKafkaKeepsRecordsAndCommitsOverARestart(t *testing.T) {
	t.Parallel()
	options := local.KafkaOptions{Dir: t.TempDir(), Persist: true}
	server, err := local.StartKafka(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	client := kafkaClient(t, server.Addrs())
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, "kept"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		record := &kgo.Record{Topic: "kept", Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var commits kadm.Offsets
	commits.AddOffset("kept", 1, 2, -1)
	if err := admin.CommitAllOffsets(t.Context(), "group", commits); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	keptOn(t, server.Addrs())
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	options.Port = portOf(t, server.Addrs()[0])
	again, err := local.StartKafka(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	keptOn(t, again.Addrs())
}

// keptOn wants what TestKafkaKeepsRecordsAndCommitsOverARestart left.
func keptOn(t *testing.T, brokers []string) {
	t.Helper()
	admin := kadm.NewClient(kafkaClient(t, brokers))
	ends, err := admin.ListEndOffsets(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	var records int64
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
	if records != 10 {
		t.Fatalf("%d records", records)
	}
	offsets, err := admin.FetchOffsets(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	if at, found := offsets.Lookup("kept", 1); !found || at.At != 2 {
		t.Fatalf("committed offset %v, %v", at.At, found)
	}
}

func TestKafkaMakesNoTopicOnFirstUse(t *testing.T) {
	t.Parallel()
	client := kafkaClient(t, localtest.Kafka(t), kgo.AllowAutoTopicCreation())
	found, err := kadm.NewClient(client).ListTopics(t.Context(), localtest.Topic(t, "absent"))
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range found {
		if topic.Err == nil {
			t.Fatalf("%s was made", topic.Topic)
		}
	}
}
