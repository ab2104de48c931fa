package intake

import (
	"context"
	"log/slog"
	"time"

	"hanjul/pkg/kafka"
)

// ending is a judged batch of which the rest is being done.
type ending struct {
	batch Batch
	done  chan error
}

func (w *worker) begin(batch Batch, rest Rest) {
	e := &ending{batch, make(chan error, 1)}
	w.behind = e

	if rest == nil {
		e.done <- nil

		return
	}

	go func() { e.done <- rest(w.working) }()
}

// end waits until the rest of the batch behind is done, has the whole batch
// done again until it is, and commits. When it did not come to that, proceed is
// as turns has it.
func (w *worker) end() (ended, proceed bool) {
	e := w.behind
	if e == nil {
		return true, true
	}

	w.behind = nil

	err := <-e.done
	for redo := newRedo(); err != nil; err = w.whole(e.batch) {
		if !w.again(e.batch, redo, err) {
			return false, true
		}
	}

	w.pulse.beat(time.Now())

	// A membership that ended in the meantime has nothing to commit: the batch
	// may be in other hands already.
	if w.working.Err() != nil {
		w.late(e.batch)

		return false, true
	}

	return w.commit(e.batch), false
}

// whole does a batch from its beginning to its end.
func (w *worker) whole(batch Batch) error {
	rest, err := w.attempt(batch)
	if err != nil || rest == nil {
		return err
	}

	return rest(w.working)
}

func (w *worker) attempt(batch Batch) (Rest, error) {
	defer func() { w.pulse.beat(time.Now()) }()

	return w.handle(w.working, batch)
}

// late counts a batch that was in hand when its membership ended.
func (w *worker) late(batch Batch) {
	w.metrics.commits.WithLabelValues("late").Inc()
	w.log.Info("commit is given up", slog.Int64("offset", batch.Next), slog.Any("err", context.Cause(w.working)))
}

func newRedo() *kafka.Backoff {
	return &kafka.Backoff{Min: 50 * time.Millisecond, Max: 5 * time.Second}
}

// again waits before a batch that failed is redone; false when it must not be.
func (w *worker) again(batch Batch, redo *kafka.Backoff, err error) bool {
	if w.working.Err() != nil {
		w.late(batch)

		return false
	}

	w.metrics.redos.WithLabelValues(w.label).Inc()
	w.log.Warn("batch is redone", slog.Int64("offset", batch.Records[0].Offset),
		slog.Int("records", len(batch.Records)), slog.Any("err", err))

	defer w.pulse.rest()()

	return redo.Wait(w.reading) == nil
}
