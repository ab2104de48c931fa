package relay_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/outbox/outboxtest"
	"hanjul/pkg/product"
	"hanjul/services/order-consumer/internal/relay"
)

func TestRelayPublish(t *testing.T) {
	t.Parallel()

	t.Run("EventsAreCloudEventsInOrder", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		ids := s.Insert(s.event("apple", 1), s.event("apple", 2))
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		s.Exec(`UPDATE outbox SET traceparent = $1, aggregateid = 'an-order' WHERE seq = 2`, parent)
		s.start(quick(), s.producer)
		s.untilPublished()
		got := s.log(s.events)
		if len(got) != 2 {
			t.Fatalf("%d records, want 2", len(got))
		}
		for i, m := range got {
			want := map[string]string{
				order.HeaderContentType: "application/json", order.HeaderSpecVersion: "1.0", order.HeaderID: ids[i],
				order.HeaderSource: "/hanjul/products/apple", order.HeaderType: "hanjul.order.confirmed",
				order.HeaderSubject: []string{"apple", "an-order"}[i], order.HeaderSequence: strconv.Itoa(i + 1),
			}
			for key, value := range want {
				if header(m, key) != value {
					t.Errorf("record %d: %s = %q, want %q", i, key, header(m, key), value)
				}
			}
			if _, err := time.Parse(time.RFC3339, header(m, order.HeaderTime)); err != nil {
				t.Errorf("record %d: time: %v", i, err)
			}
			if string(m.Key) != "apple" || string(m.Value) != "{}" {
				t.Errorf("record %d: %s %s", i, m.Key, m.Value)
			}
		}
		child := header(got[1], order.HeaderTraceparent)
		if !strings.HasPrefix(child, parent[:36]) || child == parent || header(got[0], order.HeaderTraceparent) != "" {
			t.Errorf("traceparent %q, want a child of %q on the second record only", child, parent)
		}
	})

	t.Run("CommandsAndDeadLettersGoAsTheyAre", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.Insert(s.command("apple", "first"), outboxtest.Row{Product: "apple", Topic: s.deadLetters, Payload: "dead"}, s.command("apple", "second"))
		s.start(quick(), s.producer)
		s.untilPublished()
		var got []string
		for _, m := range append(s.log(s.orders), s.log(s.deadLetters)...) {
			got = append(got, string(m.Value))
			if want := []kafka.Header{{Key: "content-type", Value: []byte("application/json")}}; !cmp.Equal(want, m.Headers) {
				t.Errorf("headers %v, want only the content type", m.Headers)
			}
		}
		if diff := cmp.Diff([]string{"first", "second", "dead"}, got); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})

	t.Run("LateCommitIsPublishedToo", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		late, err := s.Pool.Begin(t.Context())
		if err != nil {
			t.Fatalf("begin: %v", err)
		}
		s.InsertWith(late, s.command("apple", "late"))
		s.Insert(s.command("apple", "early"))
		s.start(quick(), s.producer)
		s.untilPublished()
		if err := late.Commit(t.Context()); err != nil {
			t.Fatalf("commit: %v", err)
		}
		s.untilPublished()
		if got := s.log(s.orders); len(got) != 2 || string(got[0].Value) != "early" || string(got[1].Value) != "late" {
			t.Errorf("records %v, want early and late", got)
		}
	})

	t.Run("AHintWakesAndAPollIsCounted", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		config := quick()
		config.Idle, config.StandBy = time.Hour, time.Hour
		r := s.start(config, s.producer)
		s.until("owned", func() bool { return r.value(t, "hanjul_relay_shards") == 8 })
		// The passes that it begins with are nobody's hint, and may find the first rows.
		seq := int64(0)
		s.until("a row found by a hint", func() bool {
			before := r.value(t, "hanjul_relay_found_by_poll_total")
			seq++
			s.Insert(s.event("apple", seq))
			s.until("published", func() bool {
				r.Hint() // Again and again: a pass may have begun before the row was there.
				return s.Unpublished() == 0
			})
			return r.value(t, "hanjul_relay_found_by_poll_total") == before
		})
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		s.Insert(s.event("apple", seq+1))
		r = s.start(quick(), s.producer)
		s.untilPublished()
		s.until("counted", func() bool { return r.value(t, "hanjul_relay_found_by_poll_total") == 1 })
	})

	t.Run("StopFinishesWhatWaits", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		config := quick()
		config.Idle, config.Batch, config.Grace = time.Hour, 7, time.Minute
		r := s.start(config, s.producer)
		s.until("owned", func() bool { return r.value(t, "hanjul_relay_shards") == 8 })
		for seq := range int64(100) {
			s.Insert(s.event("apple", seq+1))
		}
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if left := s.Unpublished(); left != 0 {
			t.Errorf("%d rows left", left)
		}
	})
}

// A row that Kafka refuses holds up its product, aloud, and nothing else.
func TestRelayHoldsOnlyTheLaneThatFails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	large := s.event("apple", 1)
	large.Payload = strings.Repeat("x", batchBytes)
	s.Insert(large, s.event("apple", 2), s.command("apple", "adjust"), s.event("pear", 1), s.event("pear", 2))
	r := s.start(quick(), s.producer)
	s.until("the others published", func() bool { return s.Unpublished() == 2 })
	s.until("counted", func() bool {
		return r.value(t, "hanjul_relay_stuck_lanes") == 1 && r.value(t, "hanjul_relay_failures_total") > 1
	})
	s.Insert(s.event("pear", 3), s.command("apple", "another"))
	s.until("the others go on", func() bool { return s.Unpublished() == 2 })
	for _, m := range s.log(s.events) {
		if string(m.Key) == "apple" {
			t.Errorf("seq %s of the held product is in the log", header(m, order.HeaderSequence))
		}
	}
	s.Exec(`UPDATE outbox SET payload = '{}' WHERE product_id = 'apple' AND seq = 1`)
	s.untilPublished()
	s.until("counted", func() bool { return r.value(t, "hanjul_relay_stuck_lanes") == 0 })
	s.inOrder(map[product.ID]int64{"apple": 2, "pear": 3})
}

// stalling is a producer to which some keys' partitions do not answer until they are let go.
type stalling struct {
	*kafka.Producer
	open map[string]chan struct{} // by key
}

func (p *stalling) Produce(ctx context.Context, records []kafka.Record) []kafka.Result {
	if open, stalled := p.open[string(records[0].Key)]; stalled {
		select {
		case <-open:
		case <-ctx.Done():
			return make([]kafka.Result, len(records)) // All unknown.
		}
	}
	return p.Producer.Produce(ctx, records)
}

// A partition that does not answer holds up its own products, not the others.
func TestRelayGoesOnWithoutAPartitionThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	open := make(chan struct{})
	stall := &stalling{s.producer, map[string]chan struct{}{"apple": open, "fig": open, "kiwi": make(chan struct{})}}
	config := quick()
	config.Batch = 4
	r := s.start(config, stall)
	for seq := range int64(10) {
		s.Insert(s.event("apple", seq+1), s.event("fig", seq+1), s.event("pear", seq+1))
	}
	s.until("the others published", func() bool { return s.Unpublished() == 20 })
	s.Insert(s.event("pear", 11))
	s.until("and again", func() bool { return s.Unpublished() == 20 })
	close(open)
	s.untilPublished()
	if repeats := s.inOrder(map[product.ID]int64{"apple": 10, "fig": 10, "pear": 11}); repeats != 0 {
		t.Errorf("%d repeats, want 0", repeats)
	}

	// One that never answers is left behind at the end, after the grace.
	s.Insert(s.event("kiwi", 1), s.event("pear", 12))
	s.until("the other published", func() bool { return s.Unpublished() == 1 })
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if left := s.Unpublished(); left != 1 {
		t.Errorf("%d rows left, want 1", left)
	}
}

// inOrder checks I9: first occurrences by seq without a gap, repeats with the same id.
func (s *stage) inOrder(want map[product.ID]int64) (repeats int) {
	s.t.Helper()
	last, ids := make(map[product.ID]int64), make(map[string]string)
	for _, m := range s.log(s.events) {
		p := product.ID(m.Key)
		seq, err := strconv.ParseInt(header(m, order.HeaderSequence), 10, 64)
		if err != nil {
			s.t.Fatalf("sequence: %v", err)
		}
		name := string(p) + "/" + strconv.FormatInt(seq, 10)
		switch id := header(m, order.HeaderID); {
		case seq == last[p]+1:
			last[p], ids[name] = seq, id
		case seq > last[p]:
			s.t.Fatalf("product %s: seq %d appeared before %d", p, seq, last[p]+1)
		case ids[name] != id:
			s.t.Fatalf("product %s: seq %d repeated under another id", p, seq)
		default:
			repeats++
		}
	}
	if diff := cmp.Diff(want, last); diff != "" {
		s.t.Errorf("last seq of each product (-want +got):\n%s", diff)
	}
	return repeats
}

var errKilled = errors.New("killed")

// A crash at each step of a pass, and the next process: everything is published, in order, under the same ids.
func TestRelayCrash(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"claimed", "produced", "marked"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			// One product's, which leave together: what else is on its way at the moment of the crash may be repeated or not.
			s.Insert(s.event("apple", 1), s.event("apple", 2))
			config := quick()
			config.Hook = func(at string) error {
				if at == step {
					return errKilled
				}
				return nil
			}
			if err := s.relay(config, s.producer).Run(t.Context()); !errors.Is(err, errKilled) {
				t.Fatalf("run = %v, want the crash", err)
			}
			s.start(quick(), s.producer)
			s.Insert(s.event("apple", 3), s.event("pear", 1))
			s.untilPublished()
			repeats := s.inOrder(map[product.ID]int64{"apple": 3, "pear": 1})
			if want := map[string]int{"claimed": 0, "produced": 2, "marked": 0}[step]; repeats != want {
				t.Errorf("%d repeats, want %d", repeats, want)
			}
		})
	}
}

const ownersSession = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = 'hanjul-relay' AND datname = current_database()
  AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)`

func TestRelayOwnership(t *testing.T) {
	t.Parallel()

	t.Run("AnotherTakesOverWhenTheSessionDies", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		relays := []*one{s.start(quick(), s.producer), s.start(quick(), s.producer)}
		owned := func() (n int) {
			for _, r := range relays {
				n += int(r.value(t, "hanjul_relay_shards"))
			}
			return n
		}
		for seq := range int64(20) {
			s.until("all shards owned", func() bool { return owned() == 8 })
			s.Insert(s.event("apple", seq+1))
			if seq%4 == 0 {
				s.Count(ownersSession)
			}
		}
		s.untilPublished()
		s.inOrder(map[product.ID]int64{"apple": 20})
		if err := relays[0].stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		s.Insert(s.event("apple", 21))
		s.untilPublished()
		s.until("owned by the other", func() bool { return relays[1].value(t, "hanjul_relay_shards") == 8 })
	})

	t.Run("AnOwnerThatWasReplacedWhilePausedMarksNothing", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.Insert(s.event("apple", 1), s.event("apple", 2), s.command("apple", "c"))
		paused, resume := make(chan struct{}), make(chan struct{})
		config := quick()
		config.StandBy = time.Hour // Once replaced it stays away.
		config.Hook = func(step string) error {
			if step == "produced" {
				close(paused)
				<-resume
			}
			return nil
		}
		first := s.start(config, s.producer)
		<-paused
		s.Count(ownersSession)
		s.start(quick(), s.producer)
		s.untilPublished()
		marks := func() (times []time.Time) {
			rows, err := s.Pool.Query(t.Context(), `SELECT published_at FROM outbox WHERE seq IS NULL`)
			if err != nil {
				t.Fatalf("marks: %v", err)
			}
			defer rows.Close()
			for rows.Next() {
				var at time.Time
				if err := rows.Scan(&at); err != nil {
					t.Fatalf("marks: %v", err)
				}
				times = append(times, at)
			}
			return times
		}
		before := marks()
		close(resume)
		s.until("stepped down", func() bool { return first.value(t, "hanjul_relay_step_downs_total") == 1 })
		if after := marks(); len(before) != 1 || !slices.EqualFunc(before, after, time.Time.Equal) {
			t.Errorf("marks changed from %v to %v", before, after)
		}
		if got := first.value(t, "hanjul_relay_published_total"); got != 0 {
			t.Errorf("the replaced owner counted %g rows", got)
		}
		if repeats := s.inOrder(map[product.ID]int64{"apple": 2}); repeats != 2 {
			t.Errorf("%d repeats, want 2", repeats)
		}
	})
}

var _ relay.Producer = (*kafka.Producer)(nil)
