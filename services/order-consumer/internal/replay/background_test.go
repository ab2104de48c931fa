package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/outbox"
	"hanjul/services/order-consumer/internal/relay"
)

// ask writes down a replay as the desk does.
func (s *stage) ask(request string, w outbox.Wanted, topic string, rate int) outbox.Replay {
	s.t.Helper()
	asked, err := s.box.AskReplay(s.t.Context(), outbox.Action{RequestID: request, Operator: "ann", Product: "apple"}, w, topic, rate)
	if err != nil {
		s.t.Fatalf("ask: %v", err)
	}
	return asked.Replay
}

// background is a process that runs replays; done tells how it ended.
func (s *stage) background(change func(*BackgroundConfig)) (stop func(), done <-chan error) {
	s.t.Helper()
	c := BackgroundConfig{
		Most: 2, Rate: 100_000, Topics: []string{s.live, s.other}, Look: 20 * time.Millisecond, Again: 20 * time.Millisecond,
		Connect: func(context.Context, string) (relay.Producer, func(), error) { return s.producer, func() {}, nil },
	}
	if change != nil {
		change(&c)
	}
	b, err := NewBackground(c, s.box, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatalf("background: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, seen := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- b.Run(ctx)
		close(seen)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-seen
	})
	return cancel, ended
}

// until waits for what the replay has come to.
func (s *stage) until(id string, fine func(outbox.Replay) bool) outbox.Replay {
	s.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(90 * time.Second)
	for {
		r, err := s.box.Replay(s.t.Context(), id)
		if err == nil && fine(r) {
			return r
		}
		select {
		case <-ticker.C:
		case <-deadline:
			s.t.Fatalf("never so: %+v, %v", r, err)
		}
	}
}

func is(state string) func(outbox.Replay) bool {
	return func(r outbox.Replay) bool { return r.State == state }
}

// Two processes and five replays of one product: each is sent once, whole and in order, and only to where it goes.
func TestBackgroundSharesReplays(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	want := map[string][]string{}
	var ids []string
	for i := range 5 {
		r := s.ask(fmt.Sprint("r", i), outbox.Wanted{FromSeq: int64(i + 1)}, s.other, 100)
		want[r.ID] = numbers(i+1, 20)
		ids = append(ids, r.ID)
	}
	s.background(nil)
	s.background(nil)
	for _, id := range ids {
		if r := s.until(id, is(outbox.StateDone)); r.Attempt != 1 || r.Sent != r.Matched || r.Problem != "" {
			t.Errorf("ended as %+v", r)
		}
	}
	got := map[string][]string{}
	s.read(s.other, func(headers map[string]string) {
		id := headers[order.HeaderReplayID]
		got[id] = append(got[id], headers[order.HeaderSequence])
		if headers[order.HeaderReplayAttempt] != "1" {
			t.Errorf("attempt %s", headers[order.HeaderReplayAttempt])
		}
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if seqs, _, _ := s.log(s.live); len(seqs) != 0 {
		t.Errorf("live topic: %v", seqs)
	}
}

// A process is killed behind the acknowledgement of its second batch: another goes on, repeats that batch under the same ids and the next attempt,
// and skips nothing.
func TestBackgroundCrash(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.ask("r1", outbox.Wanted{}, s.other, 50) // Five to a batch.
	var batches atomic.Int32
	_, ended := s.background(func(c *BackgroundConfig) {
		c.Hook = func(string) error {
			if batches.Add(1) == 2 {
				return errors.New("killed")
			}
			return nil
		}
	})
	if err := <-ended; !errors.Is(err, errCrash) {
		t.Fatalf("ended with %v, want the crash", err)
	}
	if r := s.until(r.ID, func(outbox.Replay) bool { return true }); r.State != outbox.StateRunning || r.NextSeq != 6 {
		t.Errorf("left as %+v", r)
	}
	s.background(nil)
	if r := s.until(r.ID, is(outbox.StateDone)); r.Attempt != 2 || r.Sent != 20 {
		t.Errorf("ended as %+v", r)
	}
	seqs, ids, attempts := s.log(s.other)
	if diff := cmp.Diff(append(numbers(1, 10), numbers(6, 20)...), seqs); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ids[5:10], ids[10:15]); diff != "" || attempts[9] != "1" || attempts[10] != "2" {
		t.Errorf("repeated ids, attempts %v:\n%s", attempts, diff)
	}
}

// A process that is asked to stop gives its replay back behind the batch in hand; another goes on, and nothing is sent twice.
func TestBackgroundStops(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.ask("r1", outbox.Wanted{}, s.other, 50)
	sent := make(chan struct{}, 20)
	stop, ended := s.background(func(c *BackgroundConfig) {
		c.Hook = func(string) error { sent <- struct{}{}; return nil }
	})
	<-sent
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("ended with %v", err)
	}
	if r := s.until(r.ID, func(outbox.Replay) bool { return true }); r.State != outbox.StateWaiting || r.Sent == 0 || r.Problem != "" {
		t.Errorf("left as %+v", r)
	}
	s.background(nil)
	s.until(r.ID, is(outbox.StateDone))
	seqs, _, _ := s.log(s.other)
	if diff := cmp.Diff(numbers(1, 20), seqs); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// Cancelled in its middle, a replay ends behind the batch in hand, and its process goes on with the next one.
func TestBackgroundCancel(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.ask("r1", outbox.Wanted{}, s.other, 1) // One to a batch, one batch a second.
	s.background(func(c *BackgroundConfig) { c.Most = 1 })
	s.until(r.ID, func(r outbox.Replay) bool { return r.Sent > 0 })
	next := s.ask("r2", outbox.Wanted{FromSeq: 20}, s.live, 50)
	if _, err := s.box.CancelReplay(t.Context(), outbox.Action{RequestID: "c1", Operator: "ann", Product: "apple"}, r.ID); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	s.until(next.ID, is(outbox.StateDone))
	r = s.until(r.ID, is(outbox.StateCancelled))
	if seqs, _, _ := s.log(s.other); len(seqs) != int(r.Sent) || r.Sent == 20 {
		t.Errorf("sent %v, noted %d", seqs, r.Sent)
	}
}

// What Kafka refuses needs somebody; what is away is waited for under the same claim.
func TestBackgroundTrouble(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for name, c := range map[string]struct {
		topic string
		err   error
	}{
		"not of the list":  {"orders", nil},
		"no such topic":    {s.other, kafka.ErrNoTopic},
		"another layout":   {s.other, kafka.ErrLayout},
		"a record refused": {s.other, nil},
	} {
		r := s.ask(name, outbox.Wanted{}, c.topic, 50)
		stop, ended := s.background(func(b *BackgroundConfig) {
			b.Connect = func(context.Context, string) (relay.Producer, func(), error) { return refusing{}, func() {}, c.err }
		})
		if r := s.until(r.ID, is(outbox.StateStopped)); r.Problem == "" || r.Sent != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: ended with %v", name, err)
		}
	}
	r := s.ask("r1", outbox.Wanted{}, s.other, 50)
	var tries atomic.Int32
	s.background(func(b *BackgroundConfig) {
		b.Connect = func(context.Context, string) (relay.Producer, func(), error) {
			if tries.Add(1) == 1 {
				return nil, nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
			}
			return s.producer, func() {}, nil
		}
	})
	if r := s.until(r.ID, is(outbox.StateDone)); r.Attempt != 1 || tries.Load() < 2 {
		t.Errorf("away: %+v after %d tries", r, tries.Load())
	}
}

// refusing takes nothing.
type refusing struct{}

func (refusing) Produce(_ context.Context, records []kafka.Record) []kafka.Result {
	results := make([]kafka.Result, len(records))
	for i := range results {
		results[i] = kafka.Result{Outcome: kafka.Refused, Err: errors.New("too large")}
	}
	return results
}

// A replay on the command line shows in the same list, and is cancelled in the same way.
func TestCommandIsCancelled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, _ := s.command(Options{Rate: 1}, "")
	done := make(chan error, 1)
	go func() { done <- c.Run(t.Context()) }()
	var id string
	for id == "" {
		list, err := s.box.Replays(t.Context(), "apple")
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if len(list) == 1 && list[0].Sent > 0 {
			id = list[0].ID
		}
	}
	if _, err := s.box.CancelReplay(t.Context(), outbox.Action{RequestID: "c1", Operator: "ann", Product: "apple"}, id); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if err := <-done; !errors.Is(err, outbox.ErrCancelled) {
		t.Errorf("run: %v, want ErrCancelled", err)
	}
	c, _ = s.command(Options{Resume: id}, "")
	if err := c.Run(t.Context()); !errors.Is(err, ErrUsage) || !errors.Is(err, outbox.ErrCancelled) {
		t.Errorf("resume: %v, want ErrUsage", err)
	}
}

// Live publishing comes first: while it is behind, a replay sends a batch a second at most.
func TestRestFor(t *testing.T) {
	t.Parallel()
	due := 100 * time.Millisecond
	for name, c := range map[string]struct {
		short  bool
		behind time.Duration
		err    error
		want   time.Duration
	}{
		"nothing waits":             {false, 0, nil, due},
		"live keeps up":             {false, giveWayBehind, nil, due},
		"live is behind":            {false, giveWayBehind + 1, nil, again},
		"kafka did not take it all": {true, 0, nil, again},
		"not measured":              {false, time.Hour, errors.New("away"), due},
	} {
		if got := restFor(due, c.short, c.behind, c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := restFor(time.Minute, true, time.Hour, nil); got != time.Minute {
		t.Errorf("a slow replay that gives way rests %s", got)
	}
}
