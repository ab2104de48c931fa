package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

const (
	batchMost    = 500
	batchWait    = 10 * time.Millisecond // for more, once there is one
	commitWithin = 5 * time.Second
)

// newReader joins the group. kafka-go's Reader may hand over records of a partition that has become another member's, may commit them
// in the new membership's name, and jumps forward where the topic no longer has an offset. Here that is harmless, or found out as a
// gap, because the tables say what is next. Where offsets decide, it must not be used.
func newReader(o options, log *slog.Logger) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: o.brokers, GroupID: o.group, Topic: o.topic, Dialer: o.dialer,
		StartOffset:    kafka.FirstOffset, // from the last, what is written before the first commit would be passed over
		CommitInterval: 0,                 // a commit is a call that may fail, not a promise
		// A rebalance waits for the fetches in hand; both bounds stay far below the time it has.
		MaxWait:           500 * time.Millisecond,
		ReadBatchTimeout:  time.Second,
		SessionTimeout:    o.session, // how long the partitions of one that was killed lie idle
		HeartbeatInterval: time.Second,
		// How long the others wait for one that was killed while it joined. The Reader's own patience with a join is 5 s more; a rebalance that is begun
		// anew may take twice this, and whoever loses patience leaves a dead member behind for the next.
		RebalanceTimeout: 5 * time.Second,
		JoinGroupBackoff: time.Second,
		ErrorLogger: kafka.LoggerFunc(func(format string, args ...any) {
			log.Warn("kafka", slog.String("detail", fmt.Sprintf(format, args...)))
		}),
	})
}

// read enters what the topic has until ctx ends, and returns nil then; else an errStop.
func read(ctx context.Context, reader *kafka.Reader, b *books) error {
	for {
		batch, err := fetch(ctx, reader)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // asked to stop: whatever came up on the way is no failure
		case err != nil:
			b.log.Warn("fetch is tried again", slog.Any("err", err))
			pause(ctx, time.Second)
			continue
		}
		err = enterAll(ctx, b, batch)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // as above; what was not entered is read again
		case err != nil:
			return err
		}
		// Here a crash costs nothing: the records are read again and are known. Hence a commit that fails is not tried again.
		committing, cancel := context.WithTimeout(ctx, commitWithin) // it might wait for ever while the group has no generation
		if err := reader.CommitMessages(committing, batch...); err != nil {
			b.log.Warn("offsets are not committed", slog.Any("err", err))
		}
		cancel()
	}
}

// fetch waits for a record and takes what follows it closely. It commits nothing.
func fetch(ctx context.Context, reader *kafka.Reader) ([]kafka.Message, error) {
	first, err := reader.FetchMessage(ctx)
	if err != nil {
		return nil, err
	}
	batch := []kafka.Message{first}
	more, cancel := context.WithTimeout(ctx, batchWait)
	defer cancel()
	for len(batch) < batchMost {
		message, err := reader.FetchMessage(more)
		if err != nil {
			break // that of the time being over, or it comes up again
		}
		batch = append(batch, message)
	}
	return batch, nil
}

// enterAll enters a batch product by product, each in a transaction of its own: two processes that hold the same products never wait
// for each other in a circle. It tries until it succeeds, meets an errStop, or ctx ends; then it returns an error.
func enterAll(ctx context.Context, b *books, batch []kafka.Message) error {
	var products []string
	of := make(map[string][]event)
	for _, message := range batch {
		e, err := decode(message)
		if err != nil {
			return err
		}
		if of[e.Product] == nil {
			products = append(products, e.Product)
		}
		of[e.Product] = append(of[e.Product], e)
	}
	for _, product := range products {
		for {
			err := b.enter(ctx, product, of[product])
			if err == nil {
				break
			}
			if errors.Is(err, errStop) || ctx.Err() != nil {
				return err
			}
			b.log.Warn("enter is tried again", slog.String("product", product), slog.Any("err", err))
			pause(ctx, time.Second)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
