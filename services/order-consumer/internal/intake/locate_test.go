package intake

import (
	"context"
	"errors"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

func TestIntakeProgress(t *testing.T) {
	t.Parallel()

	// judged gives a topic of which all 10 records are committed.
	judged := func(t *testing.T) *bundle {
		t.Helper()

		b := bench(t)
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

		b := bench(t)
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
