package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errNotLeader = kerr.NotLeaderForPartition

// fault makes the next count produce requests fail; -1 means all.
func fault(c *kfake.Cluster, count int, err *kerr.Error) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Count: count, Err: err})
}

func TestJudge(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		err  error
		want verdict
	}{
		{protocol.NewErrNoLeader(topic, 1), clean},
		{protocol.NewErrNoPartition(topic, 1), clean},
		{protocol.NewErrNoTopic(topic), clean},
		{protocol.ErrNoTopic, doubtful}, // From an answer without the topic.
		{kafkago.BrokerNotAvailable, clean},
		{kafkago.NotEnoughReplicas, clean},
		{kafkago.NotEnoughReplicasAfterAppend, doubtful},
		{kafkago.RequestTimedOut, doubtful},
		{kafkago.KafkaStorageError, doubtful},
		{kafkago.Unknown, doubtful},
		{kafkago.MessageSizeTooLarge, refusedOne},
		{kafkago.TopicAuthorizationFailed, clean},
		{io.EOF, doubtful},
		{io.ErrUnexpectedEOF, doubtful},
		{context.DeadlineExceeded, doubtful},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, clean},
		{&net.OpError{Op: "write", Err: errors.New("broken pipe")}, doubtful},
		{errors.New("anything"), doubtful},
	} {
		if got := judge(fmt.Errorf("wrapped: %w", row.err)); got != row.want {
			t.Errorf("%v is %v, want %v", row.err, got, row.want)
		}
	}
}

func TestProducerOutcome(t *testing.T) {
	t.Parallel()

	for name, row := range map[string]struct {
		err     *kerr.Error
		count   int
		retries bool // False: the budget ends with the first attempt.
		want    Outcome
		copies  int
	}{
		"MessageTooLarge":      {kerr.MessageTooLarge, -1, true, Refused, 0},
		"InvalidTopic":         {kerr.InvalidTopicException, -1, true, Refused, 0},
		"RightGivenAgain":      {kerr.TopicAuthorizationFailed, 3, true, Accepted, 1},
		"RightMissing":         {kerr.TopicAuthorizationFailed, -1, false, Unknown, 0},
		"InvalidRecord":        {kerr.InvalidRecord, -1, true, Refused, 0},
		"NotLeader":            {kerr.NotLeaderForPartition, 3, true, Accepted, 1},
		"NoLeader":             {kerr.LeaderNotAvailable, 3, true, Accepted, 1},
		"UnknownPartition":     {kerr.UnknownTopicOrPartition, 3, true, Accepted, 1},
		"FewReplicas":          {kerr.NotEnoughReplicas, 3, true, Accepted, 1},
		"FencedEpoch":          {kerr.FencedLeaderEpoch, 1, true, Accepted, 1},
		"TimedOut":             {kerr.RequestTimedOut, 1, true, Accepted, 2},
		"FewReplicasAfter":     {kerr.NotEnoughReplicasAfterAppend, 2, true, Accepted, 3},
		"Storage":              {kerr.KafkaStorageError, 1, true, Accepted, 1},
		"UnknownServerError":   {kerr.UnknownServerError, 1, true, Accepted, 1},
		"NotLeaderForTooLong":  {kerr.NotLeaderForPartition, -1, false, Unknown, 0},
		"TimedOutForTooLong":   {kerr.RequestTimedOut, -1, false, Unknown, 1},
		"FewReplicasAfterOnce": {kerr.NotEnoughReplicasAfterAppend, -1, false, Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c, _ := cluster(t, 1)
			fault(c, row.count, row.err)

			cfg := produceConfig(c, 1)
			if !row.retries {
				cfg.RetryFor = time.Nanosecond
			}

			p := idleProducer(t, cfg)
			stop := start(t, p)

			r := p.send(t, record("k", "v"))
			if r.Outcome != row.want || (r.Err == nil) != (row.want == Accepted) {
				t.Errorf("outcome is %v: %v", r.Outcome, r.Err)
			}

			if err := stop(); err != nil {
				t.Error(err)
			}

			if copies := len(log(t, configOf(c), topic)); copies != row.copies {
				t.Errorf("%d copies are in the log, want %d", copies, row.copies)
			}
		})
	}
}

func TestProducerNeverRefusesAfterDoubt(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 1)
	fault(c, 1, kerr.RequestTimedOut)
	fault(c, -1, kerr.InvalidTopicException)

	r := producer(t, produceConfig(c, 1)).send(t, record("k", "v"))
	if r.Outcome != Unknown || !errors.Is(r.Err, kafkago.InvalidTopic) {
		t.Errorf("outcome is %v: %v", r.Outcome, r.Err)
	}
}

func TestProducerNoBroker(t *testing.T) {
	t.Parallel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}

	p := producer(t, ProducerConfig{
		Config:     Config{Brokers: []string{address}, Timeout: time.Second, MetadataTTL: 100 * time.Millisecond},
		Partitions: map[string]int{topic: 1},
		RetryFor:   time.Nanosecond,
	})
	if r := p.send(t, record("k", "v")); r.Outcome != Unknown || r.Err == nil {
		t.Errorf("outcome is %v: %v", r.Outcome, r.Err)
	}
}

// One record that only the broker knows to be too large must not take those
// with it that happened to wait at the same time.
func TestProducerOneSpoilsTheBatch(t *testing.T) {
	t.Parallel()

	c := clusterWith(t, map[string]string{"max.message.bytes": "2000"})
	seen := watch(c)
	p := producer(t, produceConfig(c, 1))
	gate, release := seen.stall(t)

	first := make(chan Result, 1)
	go func() { first <- p.send(t, record("k", "first")) }()

	gate.wait(t)

	var records []Record
	for i := range 15 {
		records = append(records, record(fmt.Sprint("key-", i), fmt.Sprint(i)))
	}

	records[6].Value = []byte(strings.Repeat("x", 3000))

	results := make(chan []Result, 1)
	go func() { results <- p.Produce(patient(t), records) }()

	eventually(t, "all wait", func() bool { return p.queued() == len(records) })
	release()
	accepted(t, <-first)

	for i, r := range <-results {
		want := Accepted
		if i == 6 {
			want = Refused
		}

		if r.Outcome != want {
			t.Errorf("record %d is %v: %v", i, r.Outcome, r.Err)
		}
	}

	if got := len(log(t, configOf(c), topic)); got != len(records) {
		t.Errorf("%d records are in the log, want %d", got, len(records))
	}
}

func clusterWith(t testing.TB, settings map[string]string) *kfake.Cluster {
	t.Helper()

	c, _ := cluster(t, 1)
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}

	if err := c.CreateTopic(topic, 1, settings); err != nil {
		t.Fatal(err)
	}

	return c
}

// The broker appends, and the connection breaks before it answers.
func TestProducerLostAnswer(t *testing.T) {
	t.Parallel()

	var lose atomic.Bool

	c, _ := cluster(t, 1, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)

		return losingListener{l, &lose}, err
	}))

	var requests int

	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		requests++
		lose.Store(requests%3 == 0)

		return nil, nil, false
	})

	p := producer(t, produceConfig(c, 1))

	const sends = 60

	for i := range sends {
		if r := p.send(t, record("k", fmt.Sprint(i))); r.Outcome != Accepted {
			t.Fatalf("record %d is %v: %v", i, r.Outcome, r.Err)
		}
	}

	messages := log(t, configOf(c), topic)
	inOrder(t, messages, 1, sends)

	if len(messages) <= sends {
		t.Errorf("%d copies of %d records are in the log: no answer was lost", len(messages), sends)
	}
}

type losingListener struct {
	net.Listener
	lose *atomic.Bool
}

func (l losingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()

	return losingConn{conn, l.lose}, err
}

type losingConn struct {
	net.Conn
	lose *atomic.Bool
}

func (c losingConn) Write(b []byte) (int, error) {
	if c.lose.Swap(false) {
		return 0, errors.Join(errors.New("answer lost"), c.Close())
	}

	return c.Conn.Write(b)
}

func TestProducerLeadersMove(t *testing.T) {
	t.Parallel()

	c, _ := cluster(t, 6, kfake.NumBrokers(3))
	cfg := produceConfig(c, 6)
	cfg.MetadataTTL = 200 * time.Millisecond
	p := producer(t, cfg)

	const (
		keys = 8
		each = 200
	)

	var (
		wg    sync.WaitGroup
		total atomic.Int64
	)

	for key := range keys {
		wg.Go(func() {
			for i := range each {
				r := p.send(t, record(fmt.Sprint("key-", key), fmt.Sprint(i)))
				if r.Outcome != Accepted {
					t.Errorf("key %d, record %d is %v: %v", key, i, r.Outcome, r.Err)

					return
				}

				if total.Add(1)%100 == 0 {
					c.ShufflePartitionLeaders()
				}
			}
		})
	}

	wg.Wait()
	inOrder(t, log(t, configOf(c), topic), keys, each)
}

func TestOutcomeString(t *testing.T) {
	t.Parallel()

	got := []string{Unknown.String(), Accepted.String(), Refused.String(), Result{}.Outcome.String()}
	if diff := cmp.Diff([]string{"unknown", "accepted", "refused", "unknown"}, got); diff != "" {
		t.Error(diff)
	}
}
