package intake

import (
	"context"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

func TestConfig(t *testing.T) {
	t.Parallel()

	_, err := New(Config{Session: time.Second, Heartbeat: time.Second, MaxRecords: -1, StopFor: -1}, nil)
	for _, part := range []string{"no broker", "no group", "no topic", "partition count", "negative bound", "negative duration", "third"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}

	// What the library defaults to would hold up every recovery: 30 s of
	// session, 5 s after a failed join, 10 s in a fetch.
	c := Config{}.withDefaults()
	if c.Session != 10*time.Second || c.JoinBackoff != 500*time.Millisecond || c.MaxWait != 500*time.Millisecond || c.Heartbeat != time.Second {
		t.Errorf("defaults: %+v", c)
	}
}

// The tests named TestKafka… hold against any broker: the embedded one, or that
// of HANJUL_KAFKA_BROKERS.

func TestKafkaIntakeResumes(t *testing.T) {
	t.Parallel()

	b := bench(t)
	b.send(t, 40, 0, 1, 2) // Before anybody consumes: must not be passed over.

	var first journal

	m := b.start(t, first.handle, func(c *Config) { c.MaxRecords = 7 })
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
	m.ready(t)

	if lag := m.value(t, "lag_records"); lag != 0 {
		t.Errorf("lag is %v", lag)
	}

	if records := m.value(t, "records_total"); records != 120 {
		t.Errorf("%v records are counted", records)
	}

	m.stop(t)

	for p := range partitions {
		first.exactly(t, p, 0, 40)
	}

	for _, size := range first.sizes {
		if size > 7 {
			t.Errorf("a batch has %d records", size)
		}
	}

	b.send(t, 5, 0, 1, 2)

	var second journal

	m = b.start(t, second.handle)
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
	m.stop(t)

	for p := range partitions {
		second.exactly(t, p, 40, 45)
	}
}

func TestKafkaIntakeSharesAndTakesOver(t *testing.T) {
	t.Parallel()

	b := bench(t)

	var one, two journal

	first := b.start(t, one.handle)
	first.ready(t)
	eventually(t, "the first has all", func() bool { return first.value(t, "assigned_partitions") == partitions })

	second := b.start(t, two.handle)
	second.ready(t)
	eventually(t, "both have a share", func() bool {
		a, b := first.value(t, "assigned_partitions"), second.value(t, "assigned_partitions")

		return a > 0 && b > 0 && a+b == partitions
	})
	b.send(t, 10, 0, 1, 2)
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })

	if count, stable, err := first.client.Assigned(patient(t), b.group, b.topic); count != partitions || !stable || err != nil {
		t.Errorf("assigned: %d, stable: %v, error: %v", count, stable, err)
	}

	second.stop(t)
	eventually(t, "the first has all again", func() bool { return first.value(t, "assigned_partitions") == partitions })
	b.send(t, 10, 0, 1, 2)
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
	first.stop(t)

	for p := range partitions {
		if got := one.count(p) + two.count(p); got != 20 {
			t.Errorf("partition %d: %d records came", p, got)
		}
	}
}

func TestKafkaIntakeIdleMemberIsReady(t *testing.T) {
	t.Parallel()

	b := bench(t)

	var members []*member
	for range partitions + 1 {
		members = append(members, b.start(t, (&journal{}).handle))
	}

	eventually(t, "all are ready, one without a partition", func() bool {
		idle, sum := 0, 0.0

		for _, m := range members {
			if m.Ready() != nil {
				return false
			}

			share := m.value(t, "assigned_partitions")
			if sum += share; share == 0 {
				idle++
			}
		}

		return idle == 1 && sum == partitions
	})
}

// leaveFor removes the only member of the group behind its back.
func leaveFor(t testing.TB, b *bundle) {
	t.Helper()

	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()

	client := &kafkago.Client{Addr: kafkago.TCP(b.kafka.Brokers...), Transport: transport, Timeout: patience}

	groups, err := client.DescribeGroups(patient(t), &kafkago.DescribeGroupsRequest{GroupIDs: []string{b.group}})
	if err != nil || len(groups.Groups) != 1 || len(groups.Groups[0].Members) != 1 {
		t.Fatalf("group: %+v, error: %v", groups, err)
	}

	left, err := client.LeaveGroup(patient(t), &kafkago.LeaveGroupRequest{
		GroupID: b.group,
		Members: []kafkago.LeaveGroupRequestMember{{ID: groups.Groups[0].Members[0].MemberID}},
	})
	if err != nil || left.Error != nil {
		t.Fatalf("leave: %+v, error: %v", left, err)
	}
}

// K21: a member that does not know yet that it is out commits what it has done.
func TestKafkaIntakeLateCommitIsFenced(t *testing.T) {
	t.Parallel()

	b := bench(t)
	b.send(t, 10, 1)

	var (
		j     journal
		calls int
	)

	m := b.start(t, func(ctx context.Context, batch Batch) error {
		calls++ // One partition has records, hence one caller at a time.
		if calls == 1 {
			leaveFor(t, b)

			return nil // Before the next heartbeat tells.
		}

		if calls == 2 {
			if got := b.committed(t); len(got) != 0 {
				t.Errorf("the late commit moved the offset: %v", got)
			}
		}

		return j.handle(ctx, batch)
	}, func(c *Config) {
		// The second half must not be begun under a membership that is over.
		c.Heartbeat, c.MaxRecords = 2*time.Second, 5
	})

	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })

	if fenced := m.value(t, "commits_total", "fenced"); fenced != 1 {
		t.Errorf("%v commits were fenced", fenced)
	}

	m.stop(t)
	j.exactly(t, 1, 0, 10)
}
