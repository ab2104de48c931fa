package intake

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// stages notes, in order, what was done of which batch, by its first offset.
type stages struct {
	mu   sync.Mutex
	done []stage
}

type stage struct {
	what   string
	offset int64
}

func (s *stages) note(what string, batch Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, stage{what, batch.Records[0].Offset})
}

// at is where something was noted for the nth time, from 1; -1 when it was not.
func (s *stages) at(what string, offset int64, nth int) int {
	s.mu.Lock()
	defer s.mu.Unlock()

	for i, one := range s.done {
		if one == (stage{what, offset}) {
			if nth--; nth == 0 {
				return i
			}
		}
	}

	return -1
}

// The next batch is judged while the one before it is ended, one ahead and no
// more, and the offset follows the end.
func TestIntakeJudgesAheadOfTheRest(t *testing.T) {
	t.Parallel()

	t.Run("WithinAWindow", func(t *testing.T) {
		t.Parallel()
		judgesAhead(t, func(*Config) {})
	})
	t.Run("FromWindowToWindow", func(t *testing.T) {
		t.Parallel()
		judgesAhead(t, func(c *Config) { c.Window = 5 })
	})
	t.Run("FromFetchToFetch", func(t *testing.T) {
		t.Parallel()
		judgesAhead(t, func(c *Config) { c.Window, c.MaxBytes = 5, 1 })
	})
}

func judgesAhead(t *testing.T, change func(*Config)) {
	t.Helper()

	b := bench(t)
	for range 3 { // As many batches of the log, since a fetch gives at least one.
		b.send(t, 5, 1)
	}

	var s stages

	second := make(chan struct{})

	m := b.startWith(t, func(_ context.Context, batch Batch) (Rest, error) {
		s.note("judge", batch)

		if batch.Records[0].Offset == 5 {
			if got := b.committed(t); len(got) != 0 {
				t.Errorf("committed before its end: %v", got)
			}

			close(second)
		}

		return func(ctx context.Context) error {
			if batch.Records[0].Offset == 0 {
				select {
				case <-second: // Comes only if the next is judged meanwhile.
				case <-ctx.Done():
					return ctx.Err()
				}
			}

			s.note("end", batch)

			return nil
		}, nil
	}, func(c *Config) { c.MaxRecords = 5 }, change)

	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })
	m.stop(t)

	for _, pair := range [][2]int{
		{s.at("judge", 5, 1), s.at("end", 0, 1)},
		{s.at("end", 0, 1), s.at("judge", 10, 1)},
		{s.at("end", 0, 1), s.at("end", 5, 1)},
		{s.at("end", 5, 1), s.at("end", 10, 1)},
	} {
		if pair[0] < 0 || pair[0] >= pair[1] {
			t.Fatalf("in the order %v", s.done)
		}
	}
}

// When the rest of a batch fails, the whole batch is done again before the
// next one is ended, and nothing further is judged.
func TestIntakeRedoesTheWholeBatchWhenItsRestFails(t *testing.T) {
	t.Parallel()

	b := bench(t)
	b.send(t, 15, 1)

	var (
		s     stages
		tries int // One rest at a time.
	)

	m := b.startWith(t, func(_ context.Context, batch Batch) (Rest, error) {
		s.note("judge", batch)

		return func(context.Context) error {
			if batch.Records[0].Offset == 0 {
				if tries++; tries < 3 {
					return errors.New("not now")
				}
			}

			s.note("end", batch)

			return nil
		}, nil
	}, func(c *Config) { c.MaxRecords = 5 })

	eventually(t, "everything is committed", func() bool { return b.allCommitted(t) })

	if redos := m.value(t, "redos_total", "1"); redos != 2 {
		t.Errorf("%v redos, want 2", redos)
	}

	m.stop(t)

	again := s.at("judge", 0, 3)
	for _, pair := range [][2]int{
		{again, s.at("end", 0, 1)}, {s.at("end", 0, 1), s.at("end", 5, 1)}, {again, s.at("judge", 10, 1)},
	} {
		if pair[0] < 0 || pair[0] >= pair[1] {
			t.Fatalf("in the order %v", s.done)
		}
	}
}

// What was judged when the intake is asked to stop is ended and committed.
func TestIntakeEndsWhatIsJudgedWhenItStops(t *testing.T) {
	t.Parallel()

	b := bench(t)
	b.send(t, 10, 1)

	var s stages

	ending, goOn := make(chan struct{}), make(chan struct{})

	m := b.startWith(t, func(_ context.Context, batch Batch) (Rest, error) {
		s.note("judge", batch)

		return func(context.Context) error {
			close(ending)
			<-goOn
			s.note("end", batch)

			return nil
		}, nil
	})

	<-ending
	m.cancel()
	close(goOn)
	m.stop(t)

	if !b.allCommitted(t) || s.at("end", 0, 1) != 1 || s.at("judge", 0, 2) != -1 {
		t.Fatalf("in the order %v", s.done)
	}
}
