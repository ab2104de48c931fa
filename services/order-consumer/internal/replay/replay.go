package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/outbox"
	"hanjul/services/order-consumer/internal/relay"
)

var (
	// ErrStopped says that the replay was stopped and can be resumed.
	ErrStopped = errors.New("replay stopped")
	// errRefused says that trying again does not help, until somebody puts something right.
	errRefused = errors.New("refused")
)

const (
	batchMost = 500
	// finishWithin bounds each step of the batch in hand.
	finishWithin = 20 * time.Second
	// giveWayBehind is the age of an unpublished event from which on the replay slows down to a batch a second.
	giveWayBehind = 2 * time.Second
	again         = time.Second
)

// Runner runs one replay.
type Runner struct {
	Box      *outbox.Outbox
	Producer relay.Producer
	Progress func(outbox.Replay) // called at most once a second, and at the end
	Rate     int                 // most events per second, whatever the replay asks for; 0: what it asks for
	Hand     bool                // somebody runs it: what ends it early stops it; otherwise it waits for another process
	Grace    time.Duration       // how long the batch in hand and the progress may take once asked to stop; 0: finishWithin
	// Hook is called after the step "produced" of each batch; an error stands for a crash there. Nil outside tests.
	Hook func(step string) error
}

// Run sends what is left of the replay. It returns ErrStopped when ctx ended first, after the batch in hand was sent and noted;
// outbox.ErrCancelled, outbox.ErrLost when the replay is no longer ours; errRefused when it needs somebody. Where that is
// still possible, the end is noted; otherwise, as after a crash, the row says running and nobody holds its lock: what was sent and not noted is sent again, under the
// same ids.
func (r Runner) Run(ctx context.Context, replayer *outbox.Replayer) error {
	// What is sent is to be noted, so the end of ctx does not cut a batch.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.grace(), cancel) })()
	err := r.end(ctx, replayer, r.send(ctx, work, replayer))
	r.Progress(replayer.Replay)
	return err
}

func (r Runner) grace() time.Duration {
	if r.Grace == 0 {
		return finishWithin
	}
	return r.Grace
}

// end notes how the run ended, and returns why.
func (r Runner) end(ctx context.Context, replayer *outbox.Replayer, err error) error {
	state, why := outbox.StateWaiting, ""
	switch {
	case err == nil:
		state = outbox.StateDone
	case errors.Is(err, outbox.ErrLost), errors.Is(err, outbox.ErrCancelled), errors.Is(err, errCrash):
		return err
	case r.Hand, errors.Is(err, errRefused):
		state = outbox.StateStopped
	}
	if err != nil && !errors.Is(err, ErrStopped) {
		why = err.Error()
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.grace())
	defer cancel()
	return errors.Join(err, replayer.End(ending, state, why))
}

var errCrash = errors.New("replay crashed on purpose")

func (r Runner) send(ctx, work context.Context, replayer *outbox.Replayer) error {
	rate := replayer.Rate
	if r.Rate > 0 {
		rate = min(rate, r.Rate)
	}
	size := min(max(1, rate/10), batchMost)
	began, sent, told := time.Now(), 0, time.Now()
	for ctx.Err() == nil {
		rows, err := replayer.Next(work, size) // Cut off, it would take the session with it, and with that the note of where we stopped.
		switch {
		case ctx.Err() != nil:
			return ErrStopped
		case err != nil:
			return err
		case len(rows) == 0:
			return nil
		}
		n, err := r.batch(work, replayer, rows)
		if err != nil {
			return err
		}
		if sent += n; time.Since(told) >= time.Second {
			told = time.Now()
			r.Progress(replayer.Replay)
		}
		due := time.Until(began.Add(time.Duration(float64(sent) / float64(rate) * float64(time.Second))))
		behind, err := r.behind(ctx)
		rest := restFor(due, n < len(rows), behind, err)
		if rest < -time.Second { // What a pause cost is not made up for in a burst.
			began, sent, rest = time.Now(), 0, 0
		}
		pause(ctx, rest)
	}
	return ErrStopped
}

// restFor is the pause behind a batch: until the next one is due, and a second at least where Kafka did not take all of it, or live publishing is
// behind and must have the way. A backlog that could not be measured delays nobody: where Postgres is away, the next batch cannot be read either.
func restFor(due time.Duration, short bool, behind time.Duration, err error) time.Duration {
	if short || err == nil && behind > giveWayBehind {
		return max(due, again)
	}
	return due
}

// batch sends the rows and notes those before the first that was not acknowledged; what is in doubt is sent again.
func (r Runner) batch(work context.Context, replayer *outbox.Replayer, rows []outbox.Row) (int, error) {
	within, cancel := context.WithTimeout(work, finishWithin)
	defer cancel()
	records := make([]kafka.Record, len(rows))
	for i, row := range rows {
		records[i] = record(row, replayer.Replay)
	}
	good := len(rows)
	for i, result := range r.Producer.Produce(within, records) {
		if result.Outcome == kafka.Refused {
			return 0, fmt.Errorf("event %s, seq %d, to %s: %w: %w", rows[i].ID, rows[i].Seq, replayer.Topic, errRefused, result.Err)
		}
		if result.Outcome != kafka.Accepted {
			good = i
			break
		}
	}
	if r.Hook != nil {
		if err := r.Hook("produced"); err != nil {
			return 0, fmt.Errorf("%w: %w", errCrash, err)
		}
	}
	noting, cancelNote := context.WithTimeout(work, finishWithin)
	defer cancelNote()
	return good, replayer.Advance(noting, rows[:good])
}

// behind is how long live publishing is behind.
func (r Runner) behind(ctx context.Context) (time.Duration, error) {
	backlog, err := r.Box.Backlog(ctx)
	if err != nil || backlog.Oldest.IsZero() {
		return 0, err
	}
	return time.Since(backlog.Oldest), nil
}

// record is the event as the relay published it, to the replay's topic, and marked as a replay.
func record(row outbox.Row, replay outbox.Replay) kafka.Record {
	record := relay.Record(row)
	record.Topic = replay.Topic
	record.Headers = append(record.Headers,
		kafka.Header{Key: order.HeaderReplayID, Value: []byte(replay.ID)},
		kafka.Header{Key: order.HeaderReplayAttempt, Value: []byte(strconv.Itoa(replay.Attempt))})
	return record
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
