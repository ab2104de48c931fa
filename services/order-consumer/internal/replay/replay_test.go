package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/outbox"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/postgres"
	"hanjul/services/order-consumer/internal/relay"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// stage is an outbox with twenty published events of one product, and two topics of the test's own.
type stage struct {
	*outboxtest.Table
	t        *testing.T
	box      *outbox.Outbox
	config   kafka.Config
	producer *kafka.Producer
	ids      []string

	live, other string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		Table: outboxtest.New(t), t: t, config: kafka.Config{Brokers: localtest.Kafka(t), ClientID: "replay-test"},
		live: localtest.Topic(t, "order-events"), other: localtest.Topic(t, "order-events.rebuild"),
	}
	err := kafka.CreateTopics(t.Context(), s.config, []kafka.TopicSpec{{Name: s.live, Partitions: 1}, {Name: s.other, Partitions: 1}})
	if err != nil {
		t.Fatalf("topics: %v", err)
	}
	if s.box, err = outbox.Open(t.Context(), postgres.At(s.URL)); err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(s.box.Close)
	s.producer, err = kafka.NewProducer(kafka.ProducerConfig{Config: s.config, Partitions: map[string]int{s.live: 1, s.other: 1}})
	if err != nil {
		t.Fatalf("producer: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.producer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("producer: %v", err)
		}
	})
	var rows []outboxtest.Row
	for seq := range int64(20) {
		rows = append(rows, outboxtest.Row{Product: "apple", Seq: seq + 1, Topic: s.live, Payload: fmt.Sprintf(`{"seq":%d}`, seq+1)})
	}
	s.ids = s.Insert(rows...)
	s.Publish("apple", 20)
	return s
}

// command is a call that would be answered with the given text.
func (s *stage) command(o Options, answer string) (Command, *strings.Builder) {
	o.Product = "apple"
	if o.Topic == "" {
		o.Topic = s.other
	}
	if o.Rate == 0 {
		o.Rate = 100_000
	}
	o.Operator = "ann"
	var out strings.Builder
	connect := func(context.Context, string) (relay.Producer, func(), error) { return s.producer, func() {}, nil }
	return Command{Options: o, Live: s.live, Box: s.box, Connect: connect, In: strings.NewReader(answer), Out: &out, Ask: io.Discard}, &out
}

// log is what a topic holds: seq, id, replay and attempt of each record.
func (s *stage) log(topic string) (seqs, ids, attempts []string) {
	s.t.Helper()
	s.read(topic, func(headers map[string]string) {
		seqs, ids = append(seqs, headers[order.HeaderSequence]), append(ids, headers[order.HeaderID])
		attempts = append(attempts, headers[order.HeaderReplayAttempt])
	})
	return seqs, ids, attempts
}

// read gives each record's headers, in the order of the log.
func (s *stage) read(topic string, fn func(headers map[string]string)) {
	s.t.Helper()
	first, end, err := kafka.Offsets(s.t.Context(), s.config, topic)
	if err != nil {
		s.t.Fatalf("offsets: %v", err)
	}
	err = kafka.Read(s.t.Context(), s.config, topic, 0, first[0], end[0], func(m kafka.Message) error {
		headers := map[string]string{}
		for _, h := range m.Headers {
			headers[h.Key] = string(h.Value)
		}
		fn(headers)
		return nil
	})
	if err != nil {
		s.t.Fatalf("read: %v", err)
	}
}

func numbers(from, to int) (all []string) {
	for n := from; n <= to; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func TestCommand(t *testing.T) {
	t.Parallel()
	s := newStage(t)

	c, out := s.command(Options{DryRun: true}, "")
	if err := c.Run(t.Context()); err != nil || !strings.Contains(out.String(), "20 of seq 1 to 20") {
		t.Errorf("dry run: %v, %q", err, out)
	}
	// The live topic asks; another one does not.
	for _, answer := range []string{"", "pear\n"} {
		c, _ = s.command(Options{Topic: s.live}, answer)
		if err := c.Run(t.Context()); !errors.Is(err, ErrUsage) {
			t.Errorf("answer %q: %v, want ErrUsage", answer, err)
		}
	}
	c, _ = s.command(Options{Wanted: outbox.Wanted{FromSeq: 21}}, "")
	if err := c.Run(t.Context()); !errors.Is(err, ErrUsage) {
		t.Errorf("nothing: %v, want ErrUsage", err)
	}
	if n := s.Count(`SELECT count(*) FROM outbox_replays`); n != 0 {
		t.Fatalf("%d replays began", n)
	}

	c, _ = s.command(Options{Topic: s.live, Wanted: outbox.Wanted{FromSeq: 5, ToSeq: 7}}, "apple\n")
	if err := c.Run(t.Context()); err != nil {
		t.Errorf("confirmed: %v", err)
	}
	c, out = s.command(Options{JSON: true}, "")
	if err := c.Run(t.Context()); err != nil || !strings.Contains(out.String(), `"state":"done"`) {
		t.Errorf("other topic: %v, %q", err, out)
	}
	seqs, ids, attempts := s.log(s.live)
	if diff := cmp.Diff([][]string{numbers(5, 7), s.ids[4:7], {"1", "1", "1"}}, [][]string{seqs, ids, attempts}); diff != "" {
		t.Errorf("live topic (-want +got):\n%s", diff)
	}
	seqs, ids, _ = s.log(s.other)
	if diff := cmp.Diff([][]string{numbers(1, 20), s.ids}, [][]string{seqs, ids}); diff != "" {
		t.Errorf("other topic (-want +got):\n%s", diff)
	}
}

// stopping ends a context behind the batch in which so many records were sent.
type stopping struct {
	relay.Producer
	left   int
	cancel func()
}

func (p *stopping) Produce(ctx context.Context, records []kafka.Record) []kafka.Result {
	results := p.Producer.Produce(ctx, records)
	if p.left -= len(records); p.left <= 0 {
		p.cancel()
	}
	return results
}

// Stopped by Ctrl-C, it keeps what it has done, and goes on from there; nothing is skipped or sent twice.
func TestCommandStopsAndResumes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _ := s.command(Options{Rate: 50}, "") // Five to a batch.
	c.Connect = func(context.Context, string) (relay.Producer, func(), error) {
		return &stopping{s.producer, 10, cancel}, func() {}, nil
	}
	if err := c.Run(ctx); !errors.Is(err, ErrStopped) {
		t.Fatalf("run: %v, want ErrStopped", err)
	}
	unfinished, err := s.box.Unfinished(t.Context())
	if err != nil || len(unfinished) != 1 || unfinished[0].State != outbox.StateStopped || unfinished[0].NextSeq != 11 || unfinished[0].Sent != 10 {
		t.Fatalf("unfinished %+v, %v", unfinished, err)
	}
	for name, o := range map[string]Options{
		"another product": {Resume: unfinished[0].ID, Wanted: outbox.Wanted{Product: "pear"}}, "another topic": {Resume: unfinished[0].ID, Topic: s.live},
		"unknown": {Resume: "none"},
	} {
		c, _ := s.command(o, "apple\n")
		if o.Product != "" {
			c.Options.Product = o.Product
		}
		if err := c.Run(t.Context()); !errors.Is(err, ErrUsage) {
			t.Errorf("resume, %s: %v, want ErrUsage", name, err)
		}
	}
	c, _ = s.command(Options{Resume: unfinished[0].ID}, "")
	resume := func() error {
		for {
			if err := c.Run(t.Context()); !errors.Is(err, outbox.ErrRunning) { // The server may not have ended the first one's session.
				return err
			}
		}
	}
	if err := resume(); err != nil {
		t.Fatalf("resume: %v", err)
	}
	seqs, ids, attempts := s.log(s.other)
	if diff := cmp.Diff([][]string{numbers(1, 20), s.ids}, [][]string{seqs, ids}); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if attempts[9] != "1" || attempts[10] != "2" {
		t.Errorf("attempts %v", attempts)
	}
	if err := resume(); !errors.Is(err, ErrUsage) {
		t.Errorf("resume of one that is done: %v, want ErrUsage", err)
	}
}

// A crash between the acknowledgement and the note repeats that batch, under the same ids and the next attempt.
func TestRunnerCrash(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	plan, err := s.box.PlanReplay(t.Context(), outbox.Wanted{Product: "apple"})
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	plan.Topic, plan.Rate, plan.Operator = s.other, 50, "ann"
	replayer, err := s.box.StartReplay(t.Context(), plan)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	batches := 0
	runner := Runner{Box: s.box, Producer: s.producer, Progress: func(outbox.Replay) {}, Hook: func(string) error {
		if batches++; batches == 2 {
			return errors.New("killed")
		}
		return nil
	}}
	if err := runner.Run(t.Context(), replayer); !errors.Is(err, errCrash) {
		t.Fatalf("run: %v, want the crash", err)
	}
	replayer.Close(context.Background())
	c, _ := s.command(Options{Resume: replayer.ID}, "")
	for err = c.Run(t.Context()); errors.Is(err, outbox.ErrRunning); err = c.Run(t.Context()) {
	}
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	seqs, _, _ := s.log(s.other)
	if diff := cmp.Diff(append(numbers(1, 10), numbers(6, 20)...), seqs); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// Two replays of one product at once: each is whole and in order.
func TestTwoReplaysAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	errs := make(chan error, 2)
	for range 2 {
		c, _ := s.command(Options{Rate: 200}, "")
		go func() { errs <- c.Run(t.Context()) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	seqs := map[string][]string{} // by replay
	s.read(s.other, func(headers map[string]string) {
		id := headers[order.HeaderReplayID]
		seqs[id] = append(seqs[id], headers[order.HeaderSequence])
	})
	for id, got := range seqs {
		if diff := cmp.Diff(numbers(1, 20), got); diff != "" {
			t.Errorf("replay %s (-want +got):\n%s", id, diff)
		}
	}
	if len(seqs) != 2 {
		t.Errorf("%d replays, want 2", len(seqs))
	}
}
