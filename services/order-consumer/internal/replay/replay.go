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

// ErrStopped says that the replay was stopped and can be resumed.
var ErrStopped = errors.New("replay stopped")

const (
	batchMost = 500
	// finishWithin bounds the batch in hand and the progress once asked to stop.
	finishWithin = 20 * time.Second
	// giveWayBehind is the age of an unpublished event from which on the replay slows down to a batch a second.
	giveWayBehind = 2 * time.Second
	again         = time.Second
)

// Runner runs one replay.
type Runner struct {
	Box      *outbox.Outbox
	Producer relay.Producer
	Progress func(outbox.Replay)     // called at most once a second, and at the end
	Hook     func(step string) error // stands for a crash after "produced"; nil outside tests
}

// Run sends what is left of the replay. It returns ErrStopped when ctx ended first, after the batch in hand was sent and noted; on any
// error but a lost fence the replay is noted as stopped where that is still possible.
func (r Runner) Run(ctx context.Context, replayer *outbox.Replayer) error {
	work := context.WithoutCancel(ctx)
	err := r.send(ctx, work, replayer)
	state := outbox.StateStopped
	if err == nil {
		state = outbox.StateDone
	}
	if !errors.Is(err, outbox.ErrLost) && !errors.Is(err, errCrash) {
		ending, cancel := context.WithTimeout(work, finishWithin)
		defer cancel()
		err = errors.Join(err, replayer.End(ending, state))
	}
	r.Progress(replayer.Replay)
	return err
}

var errCrash = errors.New("replay crashed on purpose")

func (r Runner) send(ctx, work context.Context, replayer *outbox.Replayer) error {
	size := min(max(1, replayer.Rate/10), batchMost)
	began, sent, told := time.Now(), 0, time.Now()
	for ctx.Err() == nil {
		rows, err := replayer.Next(ctx, size)
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
		rest := time.Until(began.Add(time.Duration(float64(sent) / float64(replayer.Rate) * float64(time.Second))))
		if behind, err := r.behind(ctx); n < len(rows) || err == nil && behind > giveWayBehind {
			rest = max(rest, again)
		}
		if rest < -time.Second { // What a pause cost is not made up for in a burst.
			began, sent, rest = time.Now(), 0, 0
		}
		pause(ctx, rest)
	}
	return ErrStopped
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
			return 0, fmt.Errorf("event %s, seq %d, to %s: %w", rows[i].ID, rows[i].Seq, replayer.Topic, result.Err)
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
