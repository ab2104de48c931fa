package intake

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"hanjul/pkg/kafka"
)

// worker is the work on one partition during one generation.
type worker struct {
	*Intake
	generation *kafkago.Generation
	partition  int
	label      string
	log        *slog.Logger

	working context.Context // Ends with the generation, or when the time to stop is over.
	reading context.Context // Ends before that when the intake is asked to stop.

	next    int64   // Below it every record is handled.
	read    int64   // Below it every record was fetched.
	behind  *ending // The batch that is judged and of which the rest is being done.
	backoff kafka.Backoff
	pulse   pulse
}

// consume works on the partition until there is nothing more to do for it in
// this generation. It returns false when the generation should end.
func (i *Intake) consume(reading, working, generation context.Context, g *kafkago.Generation, a kafkago.PartitionAssignment) bool {
	defer i.work.Done()

	// The context of a generation is of a kind of its own, without parent or
	// cause, hence the joining by hand.
	working, endWork := context.WithCancelCause(working)
	defer endWork(nil)
	defer context.AfterFunc(generation, func() { endWork(kafkago.ErrGenerationEnded) })()

	until, endRead := context.WithCancelCause(reading)
	defer endRead(nil)
	defer context.AfterFunc(working, func() { endRead(context.Cause(working)) })()

	w := &worker{
		Intake:     i,
		generation: g,
		partition:  a.ID,
		label:      strconv.Itoa(a.ID),
		log:        i.cfg.Logger.With(slog.String("topic", i.cfg.Topic), slog.Int("partition", a.ID)),
		reading:    until,
		backoff:    kafka.Backoff{Max: time.Second},
	}
	w.working = context.WithValue(working, pulseKey{}, &w.pulse)
	w.pulse.beat(time.Now())

	defer w.forget()

	i.enter(w)
	defer i.exit(w)

	if !w.locate(a.Offset) {
		return true
	}

	i.metrics.progress.WithLabelValues(w.label).SetToCurrentTime()

	return w.loop()
}

func (w *worker) loop() bool {
	for w.read = w.next; w.reading.Err() == nil; {
		fetched, err := w.fetch(w.read)
		if err != nil {
			// What is in hand is brought to its end before anything is waited for.
			if ended, proceed := w.end(); !ended {
				return proceed
			}

			w.next = w.read
		}

		switch {
		case w.reading.Err() != nil:
			continue
		case errors.Is(err, kafka.ErrOffsetOutOfRange):
			w.relocate()
			w.read = w.next

			continue
		case err != nil:
			w.metrics.fetchErrors.WithLabelValues(w.label).Inc()
			w.pause("fetch", err)

			continue
		}

		w.recovered()
		w.lag(fetched.HighWater)
		fetched = w.fill(fetched)

		for len(fetched.Messages) > 0 {
			count := min(len(fetched.Messages), w.cfg.Window)
			if done, proceed := w.turns(newWindow(fetched.Messages[:count]), fetched.HighWater); !done {
				return proceed
			}

			fetched.Messages = fetched.Messages[count:]
		}

		w.read = fetched.Next

		// As long as the log has more, the next window is begun meanwhile.
		if w.read < fetched.HighWater {
			continue
		}

		if ended, proceed := w.end(); !ended {
			return proceed
		}

		w.next = w.read
	}

	ended, proceed := w.end()

	return ended || proceed
}

func (w *worker) fetch(from int64) (kafka.Fetched, error) {
	defer func() { w.pulse.beat(time.Now()) }()

	return w.client.Fetch(w.reading, kafka.FetchRequest{
		Topic: w.cfg.Topic, Partition: w.partition, Offset: from, MaxBytes: w.cfg.MaxBytes, MaxWait: w.cfg.MaxWait,
	})
}

// fill reads on until there is a window of records, as far as the log has them
// already. What goes wrong here comes up again at the next fetch.
func (w *worker) fill(fetched kafka.Fetched) kafka.Fetched {
	for range fetchesOfWindow - 1 {
		if len(fetched.Messages) == 0 || len(fetched.Messages) >= w.cfg.Window || fetched.Next >= fetched.HighWater {
			break
		}

		more, err := w.fetch(fetched.Next)
		if err != nil || len(more.Messages) == 0 {
			break
		}

		fetched.Messages = append(fetched.Messages, more.Messages...)
		fetched.Next, fetched.HighWater = more.Next, more.HighWater
	}

	return fetched
}

// turns has a window handled: one batch at a time, while the one after it is
// prepared and the one before it is ended. The last one of a window is ended
// while the next window is read. When it is not done, the work of this
// membership is over, and proceed says whether the generation may go on.
func (w *worker) turns(records *window, highWater int64) (done, proceed bool) {
	ahead := w.prepare(records, highWater)
	defer func() { <-ahead }() // Nothing goes on behind our back.

	for {
		batch := <-ahead
		ahead = w.prepare(records, highWater)

		if len(batch.Records) == 0 {
			return true, true
		}

		begun := w.reading.Err() == nil

		var (
			rest Rest
			err  error
		)

		if begun {
			rest, err = w.attempt(batch)
		}

		if ended, proceed := w.end(); !ended {
			return false, proceed
		}

		if !begun {
			return false, true
		}

		for redo := newRedo(); err != nil; rest, err = w.attempt(batch) {
			if !w.again(batch, redo, err) {
				return false, true
			}
		}

		w.begin(batch, rest)

		if rest == nil { // Nothing that the next could overlap with.
			if ended, proceed := w.end(); !ended {
				return false, proceed
			}
		}
	}
}

// prepare takes the next batch of a window and hands it over when it is
// prepared; one without records when there are no more.
func (w *worker) prepare(records *window, highWater int64) <-chan Batch {
	prepared := make(chan Batch, 1)
	some, next := records.take(w.cfg.MaxRecords)
	batch := Batch{Topic: w.cfg.Topic, Partition: w.partition, Records: some, Next: next, HighWater: highWater}

	if len(some) == 0 || w.cfg.Prepare == nil {
		prepared <- batch

		return prepared
	}

	go func() {
		batch.Prepared = w.cfg.Prepare(batch)
		prepared <- batch
	}()

	return prepared
}

// commit stores the position, where the batch moved it. A refusal means that this membership is over,
// which the heartbeat would tell a moment later: it ends the generation, and
// the batch comes again to whoever owns the partition then.
func (w *worker) commit(batch Batch) bool {
	w.metrics.batches.Inc()
	w.metrics.records.Add(float64(len(batch.Records)))
	w.metrics.progress.WithLabelValues(w.label).SetToCurrentTime()

	if batch.Next == w.next {
		return true
	}

	w.next = batch.Next
	w.lag(batch.HighWater)

	err := w.generation.CommitOffsets(map[string]map[int]int64{w.cfg.Topic: {w.partition: w.next}})
	w.pulse.beat(time.Now())

	switch {
	case err == nil:
		w.metrics.commits.WithLabelValues("ok").Inc()

		return true
	case w.working.Err() != nil, fenced(err):
		w.metrics.commits.WithLabelValues("fenced").Inc()
		w.log.Info("commit is refused", slog.Int64("offset", w.next), slog.Any("err", err))

		return false
	default:
		w.metrics.commits.WithLabelValues("failed").Inc()
		w.pause("commit", w.withRight(err)) // Rejoining at once would spin where commits are forbidden.

		return false
	}
}

func fenced(err error) bool {
	return errors.Is(err, kafkago.IllegalGeneration) ||
		errors.Is(err, kafkago.UnknownMemberId) ||
		errors.Is(err, kafkago.RebalanceInProgress) ||
		errors.Is(err, kafkago.FencedInstanceID)
}

// pause waits before the same is tried again. A trouble that lasts is told once
// and then at debug level.
func (w *worker) pause(operation string, err error) {
	level := slog.LevelDebug
	if w.backoff.Fresh() {
		level = slog.LevelWarn
	}

	w.log.Log(w.reading, level, "retried", slog.String("operation", operation), slog.Int64("offset", w.next), slog.Any("err", err))

	defer w.pulse.rest()()

	_ = w.backoff.Wait(w.reading) // The loops look at the context themselves.
}

func (w *worker) recovered() {
	w.backoff.Reset()
	w.strand(nil)
}

func (w *worker) lag(highWater int64) {
	lag := max(highWater-w.next, 0)
	w.metrics.lag.WithLabelValues(w.label).Set(float64(lag))
	w.pulse.lag(lag > 0)

	if lag == 0 {
		w.metrics.progress.WithLabelValues(w.label).SetToCurrentTime()
	}
}

// forget drops what is said about a partition that others may own from now on.
func (w *worker) forget() {
	w.strand(nil)
	w.metrics.lag.DeleteLabelValues(w.label)
	w.metrics.progress.DeleteLabelValues(w.label)
}
