package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
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
		if err := CreateTopics(patient(t), configOf(c), specs); err != nil {
			t.Fatal(err)
		}
	}

	if got := c.TopicInfo("events"); got == nil || len(c.PartitionInfos("events")) != 2 {
		t.Errorf("the topic is %v", got)
	}

	specs[0].Partitions = 4
	err := CreateTopics(patient(t), configOf(c), specs)
	wantParts(t, err, "topic orders", "has 3", "configured are 4")
	wantErr(t, err, ErrLayout)

	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "more", Count: -1, Err: kerr.InvalidReplicationFactor})

	specs[0].Name = "more"
	wantParts(t, CreateTopics(patient(t), configOf(c), specs), "create topic more")
}

func TestMinInsync(t *testing.T) {
	t.Parallel()

	for replication, want := range []int{0, 0, 1, 2, 2, 2} {
		if got := MinInsync(replication); got != want {
			t.Errorf("of %d replicas %d are asked to be in sync, want %d", replication, got, want)
		}
	}
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
		"blocked":   {"min.insync.replicas": "2"},
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
		"Blocked":      {func(s *TopicSpec) { s.Name = "blocked" }, []string{"min.insync.replicas is 2", "1 replicas", "no record is ever taken"}, 0},
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

			warnings, err := CheckTopics(patient(t), configOf(c), []TopicSpec{spec})
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

	t.Run("WarnsWhereNoReplicaMayBeAway", func(t *testing.T) {
		t.Parallel()

		three, _ := cluster(t, 1, kfake.NumBrokers(3))
		specs := []TopicSpec{
			{Name: "brittle", Partitions: 2, Replication: 3, MinInsync: 3},
			{Name: "sound", Partitions: 2, Replication: 3, MinInsync: MinInsync(3)},
		}

		if err := CreateTopics(patient(t), configOf(three), specs); err != nil {
			t.Fatal(err)
		}

		warnings, err := CheckTopics(patient(t), configOf(three), specs)
		if err != nil || len(warnings) != 1 || warnings[0].Topic != "brittle" || !strings.Contains(warnings[0].Message, "min.insync.replicas is 3") {
			t.Errorf("warnings: %v, error: %v", warnings, err)
		}
	})

	t.Run("TellsAllFaults", func(t *testing.T) {
		t.Parallel()

		_, err := CheckTopics(patient(t), configOf(c), []TopicSpec{
			{Name: "typo", Partitions: 1},
			{Name: "compacted", Partitions: 5},
		})
		wantParts(t, err, "typo", "compact,delete", "has 6")
	})

	t.Run("WarnsWhereSettingsAreNotTold", func(t *testing.T) {
		t.Parallel()

		denied, _ := cluster(t, 6)
		denied.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Count: -1, Err: kerr.TopicAuthorizationFailed})

		warnings, err := CheckTopics(patient(t), configOf(denied), []TopicSpec{good})
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), "settings are not checked") {
			t.Errorf("warnings: %v, error: %v", warnings, err)
		}
	})

	t.Run("WaitsForABrokerThatComesUp", func(t *testing.T) {
		t.Parallel()

		ill, _ := cluster(t, 6)
		ill.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Count: 3, Err: kerr.LeaderNotAvailable})

		cfg := configOf(ill)
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
