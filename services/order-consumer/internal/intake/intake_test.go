package intake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/pkg/kafka"
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

// A member that does not know yet that it is out commits what it has done.
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

func TestIntakeLostPartitionAbortsTheHandler(t *testing.T) {
	t.Parallel()

	b, _ := faulty(t)
	b.send(t, 3, 1)

	var (
		j     journal
		calls int
		cause error
	)

	m := b.start(t, func(ctx context.Context, batch Batch) error {
		if calls++; calls > 1 {
			return j.handle(ctx, batch)
		}

		leaveFor(t, b)
		<-ctx.Done()
		cause = context.Cause(ctx)

		return nil
	})

	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
	m.stop(t)
	j.exactly(t, 1, 0, 3)

	if !errors.Is(cause, kafkago.ErrGenerationEnded) {
		t.Errorf("the handler was aborted by: %v", cause)
	}

	if ok := m.value(t, "commits_total", "ok"); ok != 1 {
		t.Errorf("%v commits were made", ok)
	}
}

func TestIntakeErrorRedoesTheBatch(t *testing.T) {
	t.Parallel()

	b, _ := faulty(t)
	b.send(t, 5, 0, 1, 2)

	var (
		j      journal
		tries  []string
		others = make(chan struct{})
	)

	m := b.start(t, func(ctx context.Context, batch Batch) error {
		if batch.Partition != 1 {
			return j.handle(ctx, batch)
		}

		tries = append(tries, fmt.Sprint(batch.Records[0].Offset, len(batch.Records)))

		switch len(tries) {
		case 1, 2:
			return errors.New("not yet")
		case 3:
			<-others

			return errors.New("once more")
		default:
			return j.handle(ctx, batch)
		}
	})

	eventually(t, "the other partitions go on", func() bool {
		got := b.committed(t)

		return got[0] == 5 && got[2] == 5
	})
	b.send(t, 5, 0, 2)
	eventually(t, "the other partitions go on", func() bool {
		got := b.committed(t)

		return got[0] == 10 && got[2] == 10
	})

	if got, ok := b.committed(t)[1]; ok {
		t.Errorf("the failing partition has %d committed", got)
	}

	eventually(t, "two redos are counted", func() bool { return m.value(t, "redos_total", "1") == 2 })
	close(others)
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })

	if g := m.value(t, "generations_total"); g != 1 {
		t.Errorf("%v generations: the errors cost the membership", g)
	}

	m.stop(t)
	j.exactly(t, 1, 0, 5)

	for _, try := range tries {
		if try != tries[0] {
			t.Errorf("tries differ: %v", tries)
		}
	}
}

func TestIntakeStop(t *testing.T) {
	t.Parallel()

	t.Run("FinishesWorkInHandCommitsAndLeaves", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		b.send(t, 3, 0, 1)

		var j journal

		begun := make(chan int, 2)
		release := [partitions]chan struct{}{make(chan struct{}), make(chan struct{})}
		m := b.start(t, func(ctx context.Context, batch Batch) error {
			begun <- batch.Partition
			<-release[batch.Partition]

			if err := ctx.Err(); err != nil {
				return err
			}

			return j.handle(ctx, batch)
		}, func(c *Config) { c.MaxRecords = 2 })

		<-begun
		<-begun
		m.cancel()
		close(release[0])
		eventually(t, "the first is committed", func() bool { return b.committed(t)[0] == 2 })
		eventually(t, "the first is idle", func() bool { return m.value(t, "progress_timestamp_seconds", "0") == 0 })
		close(release[1])

		if err := <-m.done; err != nil {
			t.Fatal(err)
		}

		j.exactly(t, 0, 0, 2) // And nothing was begun after that.
		j.exactly(t, 1, 0, 2)

		if got := b.committed(t); got[0] != 2 || got[1] != 2 {
			t.Errorf("committed: %v", got)
		}

		if info := c.GroupInfo(b.group); len(info.Members) != 0 {
			t.Errorf("members stay behind: %+v", info.Members)
		}

		if err := m.Ready(); !errors.Is(err, ErrNotReady) {
			t.Errorf("ready: %v", err)
		}
	})

	t.Run("GivesUpAtItsDeadline", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		b.send(t, 3, 1)

		begun := make(chan struct{}, 1)
		m := b.start(t, func(ctx context.Context, _ Batch) error {
			begun <- struct{}{}
			<-ctx.Done()

			return nil // Too late to count.
		}, func(c *Config) { c.StopFor = time.Millisecond })

		<-begun
		m.stop(t)

		if got := b.committed(t); len(got) != 0 {
			t.Errorf("committed: %v", got)
		}

		if info := c.GroupInfo(b.group); len(info.Members) != 0 {
			t.Errorf("members stay behind: %+v", info.Members)
		}
	})

	t.Run("CutsAJoinThatWaitsForOthers", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		b.send(t, 3, 1)

		release := make(chan struct{})
		begun := make(chan struct{}, 1)
		busy := b.start(t, func(context.Context, Batch) error {
			select {
			case begun <- struct{}{}:
			default:
			}
			<-release // Deaf, so the group cannot rebalance.

			return nil
		}, func(c *Config) { c.Session, c.Rebalance = 4*time.Minute, 10*patience })

		<-begun

		joins := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Group: b.group, Count: -1, Observe: true})
		late := b.start(t, (&journal{}).handle, func(c *Config) {
			c.Timeout, c.Rebalance = 300*time.Millisecond, 10*patience
		})

		if err := joins.Wait(patient(t), 1); err != nil {
			t.Fatal(err)
		}

		late.stop(t)
		close(release)
		busy.stop(t)
	})

	t.Run("BeforeABrokerAnswers", func(t *testing.T) {
		t.Parallel()

		b := &bundle{kafka: kafka.Config{Brokers: []string{"127.0.0.1:1"}, Timeout: 50 * time.Millisecond}, topic: "t", group: "g"}
		m := b.start(t, (&journal{}).handle)
		eventually(t, "it tells why it is not ready", func() bool {
			return strings.Contains(m.log.String(), "ask for topic") && errors.Is(m.Ready(), ErrNotReady)
		})
		m.stop(t)
	})
}

func TestIntakeProgress(t *testing.T) {
	t.Parallel()

	// judged gives a topic of which all 10 records are committed.
	judged := func(t *testing.T) *bundle {
		t.Helper()

		b, _ := faulty(t)
		b.send(t, 10, 0, 1, 2)
		m := b.start(t, (&journal{}).handle)
		eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
		m.stop(t)

		return b
	}

	for name, row := range map[string]struct {
		progress func(partition, call int) (int64, bool, error)
		first    [partitions]int
	}{
		"Behind":   {func(p, _ int) (int64, bool, error) { return int64(2 * p), true, nil }, [partitions]int{0, 2, 4}},
		"Ahead":    {func(int, int) (int64, bool, error) { return 1000, true, nil }, [partitions]int{10, 10, 10}},
		"Unknown":  {func(p, _ int) (int64, bool, error) { return 10, p != 1, nil }, [partitions]int{10, 0, 10}},
		"AskAgain": {func(_, n int) (int64, bool, error) { return 7, true, failing(n < 4) }, [partitions]int{7, 7, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := judged(t)

			var (
				j     journal
				calls [partitions]int
			)

			m := b.start(t, j.handle, func(c *Config) {
				c.Progress = func(_ context.Context, topic string, partition int) (int64, bool, error) {
					if topic != b.topic {
						t.Errorf("asked for topic %s", topic)
					}

					calls[partition]++ // One worker for each partition.

					return row.progress(partition, calls[partition])
				}
			})

			b.send(t, 1, 0, 1, 2)
			eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
			m.stop(t)

			for p, first := range row.first {
				j.exactly(t, p, first, 11)
			}
		})
	}
}

func failing(yes bool) error {
	if yes {
		return errors.New("not now")
	}

	return nil
}

func TestIntakeTopic(t *testing.T) {
	t.Parallel()

	t.Run("Missing", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		m := b.start(t, nil, func(c *Config) { c.Topic = "typo" })

		if err := <-m.done; !errors.Is(err, kafka.ErrNoTopic) || !strings.Contains(err.Error(), "typo") {
			t.Errorf("error: %v", err)
		}

		if info := c.TopicInfo("typo"); info != nil {
			t.Errorf("the topic was made: %+v", info)
		}
	})

	t.Run("WrongCount", func(t *testing.T) {
		t.Parallel()

		b, _ := faulty(t)
		m := b.start(t, nil, func(c *Config) { c.Partitions = 6 })

		err := <-m.done
		if !errors.Is(err, ErrPartitions) || !strings.Contains(err.Error(), "has 3 partitions, configured are 6") {
			t.Errorf("error: %v", err)
		}
	})

	t.Run("GrowsMeanwhile", func(t *testing.T) {
		t.Parallel()

		b, _ := faulty(t)
		m := b.start(t, (&journal{}).handle, func(c *Config) {
			c.MetadataTTL, c.CheckEvery = 200*time.Millisecond, 20*time.Millisecond
		})
		m.ready(t)

		transport := &kafkago.Transport{}
		defer transport.CloseIdleConnections()

		client := &kafkago.Client{Addr: kafkago.TCP(b.kafka.Brokers...), Transport: transport, Timeout: patience}

		_, err := client.CreatePartitions(patient(t), &kafkago.CreatePartitionsRequest{
			Topics: []kafkago.TopicPartitionsConfig{{Name: b.topic, Count: partitions + 1}},
		})
		if err != nil {
			t.Fatal(err)
		}

		if err := <-m.done; !errors.Is(err, ErrPartitions) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestIntakeOutOfRange(t *testing.T) {
	t.Parallel()

	t.Run("BelowTheLogCountsTheLossAndGoesOn", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		b.send(t, 10, 1)
		commit(t, b, 1, 2)

		if err := c.DeleteRecords(b.topic, 1, 6); err != nil {
			t.Fatal(err)
		}

		var j journal

		m := b.start(t, j.handle)
		eventually(t, "everything is committed", func() bool { return b.committed(t)[1] == 10 })

		if lost := m.value(t, "lost_records_total", "1"); lost != 4 {
			t.Errorf("%v records are counted as lost", lost)
		}

		if !strings.Contains(m.log.String(), "level=ERROR msg=\"records were deleted before they were read\"") {
			t.Error("the loss is not told")
		}

		m.stop(t)
		j.exactly(t, 1, 6, 10)
	})

	t.Run("WithoutACommitTheLogStartIsTheBeginning", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		b.send(t, 10, 1)

		if err := c.DeleteRecords(b.topic, 1, 6); err != nil {
			t.Fatal(err)
		}

		var j journal

		m := b.start(t, j.handle)
		eventually(t, "everything is committed", func() bool { return b.committed(t)[1] == 10 })

		if lost := m.value(t, "lost_records_total"); lost != 0 {
			t.Errorf("%v records are counted as lost", lost)
		}

		m.stop(t)
		j.exactly(t, 1, 6, 10)
	})

	t.Run("AboveTheLogWaitsLoudly", func(t *testing.T) {
		t.Parallel()

		b, _ := faulty(t)
		b.send(t, 10, 0, 1)
		commit(t, b, 1, 1000)

		var j journal

		m := b.start(t, j.handle)
		eventually(t, "the partition is stranded", func() bool { return m.value(t, "stranded", "1") == 1 })
		eventually(t, "the other goes on", func() bool { return b.committed(t)[0] == 10 })

		err := m.Ready()
		if !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "partition 1: offset 1000 is above the end 10") {
			t.Errorf("ready: %v", err)
		}

		if count := strings.Count(m.log.String(), "partition is stranded"); count != 1 {
			t.Errorf("told %d times", count)
		}

		m.stop(t)
		j.exactly(t, 1, 0, 0)
	})
}

// commit stores an offset from outside the group.
func commit(t testing.TB, b *bundle, partition int, offset int64) {
	t.Helper()

	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()

	client := &kafkago.Client{Addr: kafkago.TCP(b.kafka.Brokers...), Transport: transport, Timeout: patience}

	answer, err := client.OffsetCommit(patient(t), &kafkago.OffsetCommitRequest{
		GroupID: b.group, GenerationID: -1,
		Topics: map[string][]kafkago.OffsetCommit{b.topic: {{Partition: partition, Offset: offset}}},
	})
	if err != nil || answer.Topics[b.topic][0].Error != nil {
		t.Fatalf("commit: %+v, error: %v", answer, err)
	}
}

func TestIntakeTrouble(t *testing.T) {
	t.Parallel()

	t.Run("MovingLeadersCostNoGeneration", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t, kfake.NumBrokers(3))

		var j journal

		m := b.start(t, j.handle, func(c *Config) { c.MetadataTTL = 200 * time.Millisecond })
		m.ready(t)
		generations := m.value(t, "generations_total")

		for round := range 5 {
			for p := range int32(partitions) {
				if err := c.MoveTopicPartition(b.topic, p, (c.LeaderFor(b.topic, p)+1)%3); err != nil {
					t.Fatal(err)
				}
			}

			b.send(t, 10, 0, 1, 2)
			eventually(t, fmt.Sprint("everything is committed in round ", round), func() bool { return b.allCommitted(t) })
		}

		if got := m.value(t, "generations_total"); got != generations {
			t.Errorf("%v generations, want %v", got, generations)
		}

		m.stop(t)

		for p := range partitions {
			j.exactly(t, p, 0, 50)
		}
	})

	t.Run("ForbiddenGroupIsToldAndRetried", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		b.send(t, 3, 1)

		denied := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Group: b.group, TopLevel: true, Count: -1, Err: kerr.GroupAuthorizationFailed})

		var j journal

		m := b.start(t, j.handle)
		eventually(t, "it tells", func() bool { return m.value(t, "join_errors_total") > 1 })

		if err := m.Ready(); !errors.Is(err, kafkago.GroupAuthorizationFailed) {
			t.Errorf("ready: %v", err)
		}

		denied.Remove()
		eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
		m.ready(t)
		m.stop(t)
	})

	t.Run("AMemberThatIsForgottenComesBack", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t, kfake.NumBrokers(3))

		var j journal

		m := b.start(t, j.handle)

		for round := range 5 {
			m.ready(t)
			c.RehashCoordinators()
			leaveSoon(c, b)
			b.send(t, 5, 0, 1, 2)
			eventually(t, fmt.Sprint("everything is committed in round ", round), func() bool { return b.allCommitted(t) })
		}

		m.stop(t)
	})

	t.Run("FailedCommitsDoNotSpin", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		b.send(t, 3, 1)
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: b.group, Count: 3, Err: kerr.GroupAuthorizationFailed})

		var j journal

		m := b.start(t, j.handle)
		eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })

		if failed := m.value(t, "commits_total", "failed"); failed != 3 {
			t.Errorf("%v commits failed", failed)
		}

		m.stop(t)

		if got := j.count(1); got != 12 {
			t.Errorf("%d records came, want 3 for each of 4 tries", got)
		}
	})

	t.Run("EveryPartitionHasAMember", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		m := b.start(t, (&journal{}).handle, func(c *Config) { c.CheckEvery = 10 * time.Millisecond })
		described := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Group: b.group, Count: -1, Observe: true})

		if err := described.Wait(patient(t), 3); err != nil {
			t.Fatal(err)
		}

		if missing := m.value(t, "unassigned_partitions"); missing != 0 {
			t.Errorf("%v partitions without a member", missing)
		}

		m.stop(t)
	})
}

// leaveSoon makes the next heartbeat tell the member that it is unknown.
func leaveSoon(c *kfake.Cluster, b *bundle) {
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: b.group, Err: kerr.UnknownMemberID})
}
