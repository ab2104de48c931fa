package intake

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/pkg/kafka"
)

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
