package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"

	"hanjul/deploy/local/localtest"
)

// The tests named TestKafka… hold against any broker: the embedded one, or that
// of HANJUL_KAFKA_BROKERS, and over plain connections as over encrypted ones
// that are logged in.

func ways(t *testing.T) map[string]Config {
	t.Helper()

	return map[string]Config{
		"Plain":                {Brokers: localtest.Kafka(t), ClientID: "test"},
		"EncryptedAndLoggedIn": reach(t, localtest.SecureKafkaCluster(t).Settings),
	}
}

func freshTopic(t testing.TB, cfg Config, partitions int) string {
	t.Helper()

	name := localtest.Topic(t, "kafka")

	if err := CreateTopics(patient(t), cfg, []TopicSpec{{Name: name, Partitions: partitions}}); err != nil {
		t.Fatal(err)
	}

	return name
}

func TestKafkaVersions(t *testing.T) {
	t.Parallel()

	for way, cfg := range ways(t) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()

			if err := CheckAPIVersions(patient(t), cfg); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKafkaProduceKeyed(t *testing.T) {
	t.Parallel()

	for way, cfg := range ways(t) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()

			name := freshTopic(t, cfg, 6)
			p := producer(t, ProducerConfig{Config: cfg, Partitions: map[string]int{name: 6}})

			var records []Record
			for i := range 300 {
				records = append(records, Record{
					Topic:   name,
					Key:     fmt.Appendf(nil, "key-%d", i%7),
					Value:   fmt.Append(nil, i/7),
					Headers: []Header{{Key: "number", Value: fmt.Append(nil, i)}, {Key: "empty"}},
				})
			}

			begin := time.Now()
			results := p.Produce(patient(t), records)
			accepted(t, results...)

			for i, r := range results {
				if want := Partition(records[i].Key, 6); r.Partition != want {
					t.Errorf("record %d is in partition %d, want %d", i, r.Partition, want)
				}
			}

			messages := log(t, cfg, name)
			if len(messages) != len(records) {
				t.Fatalf("%d messages, want %d", len(messages), len(records))
			}

			next := make(map[string]int)

			for _, m := range messages {
				key := string(m.Key)
				if string(m.Value) != fmt.Sprint(next[key]) || m.Partition != Partition(m.Key, 6) {
					t.Errorf("key %s: value %s in partition %d, want value %d", key, m.Value, m.Partition, next[key])
				}

				number := fmt.Sprint(next[key]*7 + int(key[len(key)-1]-'0'))
				if diff := cmp.Diff([]Header{{Key: "number", Value: []byte(number)}, {Key: "empty"}}, m.Headers); diff != "" {
					t.Error(diff)
				}

				if m.Time.Before(begin.Truncate(time.Millisecond)) {
					t.Errorf("stamped %v, before it was sent", m.Time)
				}

				next[key]++
			}
		})
	}
}

// A broker answers in whole batches and cuts its answer at the bound, within a
// batch: what is read begins and ends where it was asked to, without a gap.
func TestKafkaReadsWithinBatches(t *testing.T) {
	t.Parallel()

	for way, cfg := range ways(t) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()

			name := freshTopic(t, cfg, 1)

			const count, together = 60, 10

			p := idleProducer(t, ProducerConfig{Config: cfg, Partitions: map[string]int{name: 1}, BatchRecords: together})

			var records []Record
			for i := range count {
				records = append(records, Record{Topic: name, Key: []byte("k"), Value: fmt.Append(nil, i)})
			}

			results := make(chan []Result, 1)

			go func() { results <- p.Produce(patient(t), records) }()

			eventually(t, "all wait", func() bool { return p.queued() == count })

			stop := start(t, p)
			accepted(t, <-results...)

			if err := stop(); err != nil {
				t.Fatal(err)
			}

			var got []string

			err := Read(patient(t), cfg, name, 0, 13, 27, func(m Message) error {
				got = append(got, string(m.Value))

				return nil
			})
			if err != nil || len(got) != 14 || got[0] != "13" || got[13] != "26" {
				t.Errorf("read %v, error: %v", got, err)
			}

			client, next := newClient(t, cfg), int64(0)
			for next < count {
				fetched, err := client.Fetch(patient(t), FetchRequest{Topic: name, Offset: next, MaxBytes: 700})
				if err != nil {
					t.Fatal(err)
				}

				for _, m := range fetched.Messages {
					if m.Offset != next || string(m.Value) != fmt.Sprint(next) {
						t.Fatalf("offset %d holds %s, want %d", m.Offset, m.Value, next)
					}

					next++
				}
			}
		})
	}
}

func TestKafkaTopics(t *testing.T) {
	t.Parallel()

	for way, cfg := range ways(t) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()

			week := 7 * 24 * time.Hour
			spec := TopicSpec{
				Name: localtest.Topic(t, "kafka"), Partitions: 3, Replication: 1, MinInsync: 1, Retention: week,
			}

			_, err := CheckTopics(patient(t), cfg, []TopicSpec{spec})
			wantErr(t, err, ErrNoTopic)

			for range 2 {
				if err := CreateTopics(patient(t), cfg, []TopicSpec{spec}); err != nil {
					t.Fatal(err)
				}
			}

			warnings, err := CheckTopics(patient(t), cfg, []TopicSpec{spec})
			if err != nil || len(warnings) > 0 {
				t.Errorf("warnings: %v, error: %v", warnings, err)
			}

			strict := spec
			strict.Partitions, strict.Retention = 4, 2*week
			_, err = CheckTopics(patient(t), cfg, []TopicSpec{strict})
			wantParts(t, err, "has 3 partitions, configured are 4", "retention.ms is 604800000")
		})
	}
}

func TestKafkaTopicSettings(t *testing.T) {
	t.Parallel()

	for way, cfg := range ways(t) {
		t.Run(way, func(t *testing.T) {
			t.Parallel()

			for setting, value := range map[string]string{
				settingTimestamp: "LogAppendTime",
				settingCleanup:   "compact",
			} {
				name := localtest.Topic(t, "kafka")
				client := newClient(t, cfg.withTopics(name))

				answer, err := client.kafka.CreateTopics(patient(t), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
					Topic: name, NumPartitions: 1, ReplicationFactor: 1,
					ConfigEntries: []kafkago.ConfigEntry{{ConfigName: setting, ConfigValue: value}},
				}}})
				if err != nil || answer.Errors[name] != nil {
					t.Fatal(err, answer)
				}

				spec := TopicSpec{Name: name, Partitions: 1}
				if err := client.settle(patient(t), spec); err != nil {
					t.Fatal(err)
				}

				_, err = CheckTopics(patient(t), cfg, []TopicSpec{spec})
				wantParts(t, err, setting+" is "+value)
			}
		})
	}
}
