package intake

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// K22: a coordinator that takes a commit and never answers holds nobody up: the
// membership is given up, and the batch comes again under the next one.
func TestIntakeCommitThatIsNotAnswered(t *testing.T) {
	t.Parallel()

	b, c := faulty(t)
	b.send(t, 3, 1)

	var commits atomic.Int32

	release, woken := make(chan struct{}), make(chan struct{})

	c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()

		if commits.Add(1) == 1 {
			c.SleepControl(func() { <-release })
			close(woken)
		}

		return nil, nil, false
	})

	var j journal

	m := b.start(t, j.handle, func(c *Config) { c.Timeout = 500 * time.Millisecond })
	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })

	if failed := m.value(t, "commits_total", "failed") + m.value(t, "commits_total", "fenced"); failed < 1 {
		t.Error("the commit without an answer is not counted")
	}

	m.stop(t)

	// The broker must be over it before it is closed: a control that wakes while its cluster ends holds the cluster up for ever.
	close(release)
	<-woken
	b.committed(t)

	if got := j.count(1); got < 6 {
		t.Errorf("%d records came, want the 3 again after the commit without an answer", got)
	}
}

// K29: each partition has its own lag, so the one that stands still shows.
func TestIntakeLagIsThatOfThePartition(t *testing.T) {
	t.Parallel()

	b, _ := faulty(t)
	b.send(t, 5, 0, 1, 2)

	var j journal

	release := make(chan struct{})
	m := b.start(t, func(ctx context.Context, batch Batch) error {
		if batch.Partition == 1 {
			<-release
		}

		return j.handle(ctx, batch)
	})

	lags := func(want ...float64) func() bool {
		return func() bool {
			for p, lag := range want {
				if m.value(t, "lag_records", string(rune('0'+p))) != lag {
					return false
				}
			}

			return true
		}
	}

	eventually(t, "the others go on", func() bool { got := b.committed(t); return got[0] == 5 && got[2] == 5 })
	eventually(t, "only that partition lags", lags(0, 5, 0))
	close(release)
	eventually(t, "nothing lags", lags(0, 0, 0))
	m.stop(t)
}

// K19: a fetch that waits for records ends with what it is for. Here each waits
// for an hour; members come and go all the same.
func TestIntakeFetchHoldsNobodyUp(t *testing.T) {
	t.Parallel()

	b, c := faulty(t)
	fetches := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: b.topic, Count: -1, Observe: true})
	long := func(c *Config) { c.MaxWait, c.Timeout = time.Hour, time.Hour }

	first := b.start(t, (&journal{}).handle, long)
	first.ready(t)

	if err := fetches.Wait(patient(t), partitions); err != nil {
		t.Fatal(err)
	}

	second := b.start(t, (&journal{}).handle, long)
	eventually(t, "both have a share", func() bool {
		one, two := first.value(t, "assigned_partitions"), second.value(t, "assigned_partitions")

		return one > 0 && two > 0 && one+two == partitions
	})

	for _, m := range []*member{first, second} {
		m.cancel()

		select {
		case err := <-m.done:
			if err != nil {
				t.Error(err)
			}
		case <-patient(t).Done():
			t.Fatal("it is still there")
		}
	}
}
