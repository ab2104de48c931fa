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

func TestIntakeLostPartitionAbortsTheHandler(t *testing.T) {
	t.Parallel()

	b := bench(t)
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

	b := bench(t)
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

		if err := m.Ready(); !errors.Is(err, kafka.ErrRights) || !strings.Contains(err.Error(), "Read on group "+b.group) {
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
