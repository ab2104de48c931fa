package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func wantParts(t testing.TB, err error, parts ...string) {
	t.Helper()

	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestCreateTopics(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 3)
	specs := []TopicSpec{{Name: topic, Partitions: 3}, {Name: "events", Partitions: 2, Retention: Unlimited}}

	for range 2 {
		if err := CreateTopics(patient(t), config(c), specs); err != nil {
			t.Fatal(err)
		}
	}

	if got := c.TopicInfo("events"); got == nil || len(c.PartitionInfos("events")) != 2 {
		t.Errorf("the topic is %v", got)
	}

	specs[0].Partitions = 4
	err := CreateTopics(patient(t), config(c), specs)
	wantParts(t, err, "topic orders", "has 3", "configured are 4")
	wantErr(t, err, ErrLayout)

	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "more", Count: -1, Err: kerr.InvalidReplicationFactor})

	specs[0].Name = "more"
	wantParts(t, CreateTopics(patient(t), config(c), specs), "create topic more")
}

func TestCheckTopics(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 6)

	week := 7 * 24 * time.Hour
	good := TopicSpec{Name: topic, Partitions: 6, Replication: 1, MinInsync: 1, Retention: week}

	for name, settings := range map[string]map[string]string{
		"compacted": {"cleanup.policy": "compact,delete"},
		"stamped":   {"message.timestamp.type": "LogAppendTime"},
		"short":     {"retention.ms": "3600000"},
		"unlimited": {"retention.ms": "-1"},
		"bounded":   {"retention.bytes": "1000000"},
	} {
		if err := c.CreateTopic(name, 6, settings); err != nil {
			t.Fatal(err)
		}
	}

	for name, row := range map[string]struct {
		change   func(*TopicSpec)
		faults   []string
		warnings int
	}{
		"Good":         {func(*TopicSpec) {}, nil, 0},
		"Unlimited":    {func(s *TopicSpec) { s.Name, s.Retention = "unlimited", Unlimited }, nil, 0},
		"Missing":      {func(s *TopicSpec) { s.Name = "typo" }, []string{"typo", "no such topic"}, 0},
		"Partitions":   {func(s *TopicSpec) { s.Partitions = 7 }, []string{"has 6", "configured are 7"}, 0},
		"Replication":  {func(s *TopicSpec) { s.Replication = 3 }, []string{"1 replicas", "at least 3"}, 0},
		"InSync":       {func(s *TopicSpec) { s.MinInsync = 2 }, []string{"min.insync.replicas is 1", "at least 2"}, 0},
		"Forgets":      {func(s *TopicSpec) { s.Retention = Unlimited }, []string{"retention.ms is 604800000"}, 0},
		"Compacted":    {func(s *TopicSpec) { s.Name = "compacted" }, []string{"cleanup.policy is compact,delete"}, 0},
		"BrokersClock": {func(s *TopicSpec) { s.Name = "stamped" }, []string{"message.timestamp.type is LogAppendTime"}, 0},
		"Short":        {func(s *TopicSpec) { s.Name = "short" }, []string{"retention.ms is 3600000", "at least 604800000"}, 0},
		"Size":         {func(s *TopicSpec) { s.Name = "bounded" }, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := good
			row.change(&spec)

			warnings, err := CheckTopics(patient(t), config(c), []TopicSpec{spec})
			if row.faults == nil && err != nil {
				t.Error(err)
			}

			if len(row.faults) > 0 {
				wantParts(t, err, row.faults...)
			}

			if len(warnings) != row.warnings {
				t.Errorf("warnings: %v", warnings)
			}
		})
	}

	t.Run("TellsAllFaults", func(t *testing.T) {
		t.Parallel()

		_, err := CheckTopics(patient(t), config(c), []TopicSpec{
			{Name: "typo", Partitions: 1},
			{Name: "compacted", Partitions: 5},
		})
		wantParts(t, err, "typo", "compact,delete", "has 6")
	})

	t.Run("WarnsWhereSettingsAreNotTold", func(t *testing.T) {
		t.Parallel()

		denied, _ := cluster(t, 6)
		denied.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Count: -1, Err: kerr.TopicAuthorizationFailed})

		warnings, err := CheckTopics(patient(t), config(denied), []TopicSpec{good})
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), "settings are not checked") {
			t.Errorf("warnings: %v, error: %v", warnings, err)
		}
	})

	t.Run("WaitsForABrokerThatComesUp", func(t *testing.T) {
		t.Parallel()

		ill, _ := cluster(t, 6)
		ill.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Count: 3, Err: kerr.LeaderNotAvailable})

		cfg := config(ill)
		cfg.MetadataTTL = 100 * time.Millisecond

		if _, err := CheckTopics(patient(t), cfg, []TopicSpec{good}); err != nil {
			t.Error(err)
		}
	})

	t.Run("GivesUpWithoutABroker", func(t *testing.T) {
		t.Parallel()

		_, err := CheckTopics(patient(t), Config{Brokers: []string{"127.0.0.1:1"}, Timeout: 50 * time.Millisecond}, []TopicSpec{good})
		if err == nil {
			t.Error("nobody was asked")
		}
	})
}

func TestCheckAPIVersions(t *testing.T) {
	t.Parallel()

	t.Run("Fits", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		if err := CheckAPIVersions(patient(t), config(c)); err != nil {
			t.Error(err)
		}
	})

	t.Run("BrokerTooOld", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1, kfake.MaxVersions(kversion.V0_8_2()))
		wantParts(t, CheckAPIVersions(patient(t), config(c)), "offers JoinGroup v0 to v0, we speak v1 to v2",
			"does not offer CreateTopics, we speak v0 to v5")
	})

	t.Run("BrokerDroppedOldVersions", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		c.ControlKey(int16(kmsg.ApiVersions), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()

			answer := r.ResponseKind().(*kmsg.ApiVersionsResponse)
			for api := range int16(52) {
				key := kmsg.NewApiVersionsResponseApiKey()
				key.ApiKey, key.MaxVersion = api, 20

				switch api {
				case int16(kmsg.JoinGroup):
					key.MinVersion = 4
				case int16(kmsg.Produce):
					key.MinVersion = 9
				case int16(kmsg.Metadata): // Fits one of the two stacks only.
					key.MinVersion = 7
				}

				answer.ApiKeys = append(answer.ApiKeys, key)
			}

			return answer, nil, true
		})
		err := CheckAPIVersions(patient(t), config(c))
		wantParts(t, err, "offers JoinGroup v4 to v20, we speak v1 to v2", "offers Produce v9 to v20, we speak v0 to v8",
			"offers Metadata v7 to v20, we speak v1, v6")

		if Transient(err) || strings.Contains(err.Error(), "Heartbeat") {
			t.Error(err)
		}
	})

	t.Run("OneOfTheBrokersIsEnough", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		cfg := config(c)
		cfg.Brokers = append([]string{"127.0.0.1:1"}, cfg.Brokers...)

		if err := CheckAPIVersions(patient(t), cfg); err != nil {
			t.Error(err)
		}

		cfg.Brokers, cfg.Timeout = cfg.Brokers[:1], 50*time.Millisecond
		wantParts(t, CheckAPIVersions(patient(t), cfg), "127.0.0.1:1")
	})
}

func TestRead(t *testing.T) {
	t.Parallel()

	// filled gives a topic whose records came in batches of ten.
	filled := func(t *testing.T, count int) *kfake.Cluster {
		t.Helper()

		c, _ := cluster(t, 1)
		cfg := produceConfig(c, 1)
		cfg.BatchRecords = 10
		p := idleProducer(t, cfg)

		results := make(chan []Result, 1)

		var records []Record
		for i := range count {
			records = append(records, record("k", string(rune('a'+i%26))))
		}

		go func() { results <- p.Produce(patient(t), records) }()

		eventually(t, "all wait", func() bool { return p.queued() == count })
		stop := start(t, p)
		accepted(t, <-results...)

		if err := stop(); err != nil {
			t.Fatal(err)
		}

		return c
	}

	read := func(t *testing.T, c *kfake.Cluster, from, to int64) (offsets []int64, err error) {
		t.Helper()

		err = Read(patient(t), config(c), topic, 0, from, to, func(m Message) error {
			offsets = append(offsets, m.Offset)

			return nil
		})

		return offsets, err
	}

	t.Run("StartsAndStopsWithinBatches", func(t *testing.T) {
		t.Parallel()

		got, err := read(t, filled(t, 40), 13, 27)
		if err != nil || len(got) != 14 || got[0] != 13 || got[13] != 26 {
			t.Errorf("offsets: %v, error: %v", got, err)
		}
	})

	t.Run("ReadsNothingOfAnEmptyRange", func(t *testing.T) {
		t.Parallel()

		if got, err := read(t, filled(t, 10), 5, 5); err != nil || got != nil {
			t.Errorf("offsets: %v, error: %v", got, err)
		}
	})

	t.Run("TellsThatTheStartIsGone", func(t *testing.T) {
		t.Parallel()

		c := filled(t, 40)
		if err := c.DeleteRecords(topic, 0, 20); err != nil {
			t.Fatal(err)
		}

		_, err := read(t, c, 0, 40)
		wantErr(t, err, ErrOffsetOutOfRange)

		_, err = read(t, c, 41, 50)
		wantErr(t, err, ErrOffsetOutOfRange)

		first, end, err := Offsets(patient(t), config(c), topic)
		if diff := cmp.Diff([]any{map[int]int64{0: 20}, map[int]int64{0: 40}}, []any{first, end}); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})

	t.Run("EndsWithTheCallersError", func(t *testing.T) {
		t.Parallel()

		c := filled(t, 10)
		enough := errors.New("enough")
		wantErr(t, Read(patient(t), config(c), topic, 0, 0, 10, func(Message) error { return enough }), enough)
	})

	t.Run("WaitsOutALeaderThatMoves", func(t *testing.T) {
		t.Parallel()

		c := filled(t, 30)
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Count: 3, Err: kerr.NotLeaderForPartition})

		if got, err := read(t, c, 0, 30); err != nil || len(got) != 30 {
			t.Errorf("offsets: %v, error: %v", got, err)
		}
	})

	t.Run("NoticesWhenNothingMoves", func(t *testing.T) {
		t.Parallel()

		c := filled(t, 10)
		c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()

			answer := r.ResponseKind().(*kmsg.FetchResponse)
			part := kmsg.NewFetchResponseTopicPartition()
			part.HighWatermark = 10
			answered := kmsg.NewFetchResponseTopic()
			answered.Topic, answered.Partitions = topic, []kmsg.FetchResponseTopicPartition{part}
			answer.Topics = append(answer.Topics, answered)

			return answer, nil, true
		})

		_, err := read(t, c, 0, 10)
		wantErr(t, err, ErrNoProgress)
	})

	t.Run("TakesTheTruncatedTailLater", func(t *testing.T) {
		t.Parallel()

		c := filled(t, 40)
		client := newClient(t, config(c))

		var got []int64

		// So few bytes that the broker cuts its answer within a batch, if it does.
		for next := int64(0); next < 40; {
			fetched, err := client.Fetch(patient(t), FetchRequest{Topic: topic, Offset: next, MaxBytes: 700})
			if err != nil {
				t.Fatal(err)
			}

			for _, m := range fetched.Messages {
				got = append(got, m.Offset)
			}

			next = fetched.Next
		}

		for i, offset := range got {
			if offset != int64(i) {
				t.Fatalf("offsets: %v", got)
			}
		}
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()

		c := filled(t, 1)
		ctx, cancel := context.WithCancel(t.Context())

		err := Read(ctx, config(c), topic, 0, 0, 2, func(Message) error {
			cancel() // The second record never comes.

			return nil
		})
		wantErr(t, err, context.Canceled)
	})
}

func TestOffsets(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 3)
	p := producer(t, produceConfig(c, 3))
	accepted(t, p.send(t, record("k", "v")))

	want := map[int]int64{0: 0, 1: 0, 2: 0}
	want[Partition([]byte("k"), 3)] = 1

	// One of the requests behind the call fails, and leaves a zero in its place.
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Count: 6, Err: kerr.LeaderNotAvailable})

	_, end, err := Offsets(patient(t), config(c), topic)
	if diff := cmp.Diff(want, end); diff != "" || err != nil {
		t.Error(diff, err)
	}

	if _, _, err := Offsets(patient(t), config(c), "typo"); !errors.Is(err, ErrNoTopic) {
		t.Errorf("error: %v", err)
	}
}

// Markers of transactions and emptied batches carry no record, yet the log goes
// on behind them.
func TestFetchedPassesWhatCarriesNoRecord(t *testing.T) {
	t.Parallel()

	at := func(offset int64) protocol.RecordReader {
		return protocol.NewRecordReader(protocol.Record{Offset: offset, Key: protocol.NewBytes([]byte("k"))})
	}
	f := Fetched{Next: 5}

	err := f.read(FetchRequest{Offset: 5}, &protocol.RecordStream{Records: []protocol.RecordReader{
		&protocol.RecordBatch{BaseOffset: 4, Records: at(4)},
		&protocol.RecordBatch{BaseOffset: 5, Records: at(5)},
		&protocol.RecordBatch{BaseOffset: 9, Records: protocol.NewRecordReader()},
		&protocol.ControlBatch{BaseOffset: 12},
	}})
	if err != nil || f.Next != 13 || len(f.Messages) != 1 || f.Messages[0].Offset != 5 {
		t.Errorf("fetched: %+v, error: %v", f, err)
	}
}

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()

	client, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(client.Close)

	return client
}

func TestCommitted(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 3)

	got, err := Committed(patient(t), config(c), "nobody", topic)
	if err != nil || len(got) != 0 {
		t.Errorf("committed: %v, error: %v", got, err)
	}

	// A coordinator that is not there yet answers so for a moment.
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Count: 2, Err: kerr.CoordinatorNotAvailable})

	if _, err := Committed(patient(t), config(c), "nobody", topic); err != nil {
		t.Error(err)
	}

	if _, err := Committed(patient(t), config(c), "nobody", "typo"); !errors.Is(err, ErrNoTopic) {
		t.Errorf("error: %v", err)
	}
}
