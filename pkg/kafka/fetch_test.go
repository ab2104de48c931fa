package kafka

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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

		err = Read(patient(t), configOf(c), topic, 0, from, to, func(m Message) error {
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

		first, end, err := Offsets(patient(t), configOf(c), topic)
		if diff := cmp.Diff([]any{map[int]int64{0: 20}, map[int]int64{0: 40}}, []any{first, end}); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})

	t.Run("EndsWithTheCallersError", func(t *testing.T) {
		t.Parallel()

		c := filled(t, 10)
		enough := errors.New("enough")
		wantErr(t, Read(patient(t), configOf(c), topic, 0, 0, 10, func(Message) error { return enough }), enough)
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
		client := newClient(t, configOf(c))

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

		err := Read(ctx, configOf(c), topic, 0, 0, 2, func(Message) error {
			cancel() // The second record never comes.

			return nil
		})
		wantErr(t, err, context.Canceled)
	})
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
