package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	defaultFetchBytes = 1 << 20
	defaultFetchWait  = 500 * time.Millisecond
	// idleFetches is how often in a row a broker may answer without a step
	// forward although the log goes on.
	idleFetches = 20
)

// FetchRequest asks for the records of a partition from Offset on. Zero bounds
// mean the defaults: at most 1 MiB, which one larger batch may exceed, and at
// most 500 ms of waiting for a first record; MaxWait has no effect beyond half
// of Config.Timeout.
type FetchRequest struct {
	Topic     string
	Partition int
	Offset    int64
	MaxBytes  int
	MaxWait   time.Duration
}

// Fetched is the answer to a FetchRequest.
type Fetched struct {
	Messages []Message // In order, none below the offset asked for; offsets may have gaps.
	Next     int64     // Where to go on: behind the last message and behind what carries none.
	// HighWater is one past the last readable offset, LogStart the first that
	// is still there.
	HighWater, LogStart int64
}

// Fetch reads once. ErrOffsetOutOfRange tells that the offset is below or above
// the log, and Offsets which of both; other errors may pass by themselves.
func (c *Client) Fetch(ctx context.Context, req FetchRequest) (Fetched, error) {
	answer, err := c.kafka.Fetch(ctx, &kafkago.FetchRequest{
		Topic:     req.Topic,
		Partition: req.Partition,
		Offset:    req.Offset,
		MinBytes:  1, // With zero a broker answers at once and we would spin.
		MaxBytes:  int64(orDefault(req.MaxBytes, defaultFetchBytes)),
		MaxWait:   orDefault(req.MaxWait, defaultFetchWait),
	})
	if err == nil {
		err = answer.Error // The partition's own error travels in the answer.
	}

	if isCode(err, kafkago.OffsetOutOfRange) {
		err = fmt.Errorf("%w: %w", ErrOffsetOutOfRange, err)
	}

	if err != nil {
		err = c.lacking(ctx, err, "Read", req.Topic)

		return Fetched{}, fmt.Errorf("fetch %s/%d from %d: %w", req.Topic, req.Partition, req.Offset, err)
	}

	fetched := Fetched{Next: req.Offset, HighWater: answer.HighWatermark, LogStart: answer.LogStartOffset}

	if err := fetched.read(req, answer.Records); err != nil {
		// What came before the fault is good; the next fetch meets it again.
		if len(fetched.Messages) == 0 {
			return Fetched{}, fmt.Errorf("read %s/%d from %d: %w", req.Topic, req.Partition, req.Offset, err)
		}
	}

	return fetched, nil
}

// lacking names the right that is missing, where one is. Brokers hide a topic
// from those who have none on it, and the library then knows only that it knows
// nothing of the topic.
func (c *Client) lacking(ctx context.Context, err error, right, topic string) error {
	var (
		topicError     *protocol.TopicError
		partitionError *protocol.TopicPartitionError
	)
	if !errors.As(err, &topicError) && !errors.As(err, &partitionError) {
		return WithRight(err, right, onTopic, topic)
	}

	// That is what was last heard of it, and costs no request.
	if _, found := c.describe(ctx, topic); errors.Is(found, ErrRights) {
		return fmt.Errorf("%w: %s on %s %s: %w", ErrRights, right, onTopic, topic, err)
	}

	return err
}

// read takes the records out of all batches of an answer. The library's own
// reader passes over batches without records for us, such as the markers of
// transactions, and so would hide that the log goes on behind them.
func (f *Fetched) read(req FetchRequest, records kafkago.RecordReader) error {
	stream, ok := records.(*protocol.RecordStream)
	if !ok {
		return f.readBatch(req, records)
	}

	for _, batch := range stream.Records {
		switch b := batch.(type) {
		case *protocol.ControlBatch:
			f.Next = max(f.Next, b.BaseOffset+1)

			continue
		case *protocol.RecordBatch:
			f.Next = max(f.Next, b.BaseOffset+1) // Holds when it turns out to be empty.
		}

		if err := f.readBatch(req, batch); err != nil {
			return err
		}
	}

	return nil
}

func (f *Fetched) readBatch(req FetchRequest, records kafkago.RecordReader) error {
	for {
		record, err := records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}

		message, err := f.message(req, record)
		if err != nil {
			return err
		}

		// Brokers answer in whole batches, so the first ones may be older than asked.
		if message.Offset < req.Offset {
			continue
		}

		f.Messages = append(f.Messages, message)
		f.Next = message.Offset + 1
	}
}

func (f *Fetched) message(req FetchRequest, record *kafkago.Record) (Message, error) {
	key, keyErr := readBytes(record.Key)
	value, valueErr := readBytes(record.Value)

	if err := errors.Join(keyErr, valueErr); err != nil {
		return Message{}, err
	}

	message := Message{
		Topic:     req.Topic,
		Partition: req.Partition,
		Offset:    record.Offset,
		Time:      record.Time,
		Key:       key,
		Value:     value,
	}

	for _, h := range record.Headers {
		message.Headers = append(message.Headers, Header{Key: h.Key, Value: h.Value})
	}

	return message, nil
}

func readBytes(b kafkago.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}

	data, err := protocol.ReadAll(b)

	return data, errors.Join(err, b.Close())
}

// Read calls fn for each message of the partition with from <= offset < to, in
// order, and returns the first error of fn. Errors of the cluster that may pass
// are waited out until ctx ends; so is the arrival of records that are not in
// the log yet. ErrOffsetOutOfRange when from is not in the log, ErrNoProgress
// when the log goes on but nothing more can be read.
func Read(ctx context.Context, cfg Config, topic string, partition int, from, to int64, fn func(Message) error) error {
	client, err := NewClient(cfg.withTopics(topic))
	if err != nil {
		return err
	}
	defer client.Close()

	var (
		backoff Backoff
		idle    int
	)

	for next := from; next < to; {
		fetched, err := client.Fetch(ctx, FetchRequest{Topic: topic, Partition: partition, Offset: next})

		switch {
		case err == nil:
			backoff.Reset()
		case !Transient(err):
			return err
		default:
			if waitErr := backoff.Wait(ctx); waitErr != nil {
				return fmt.Errorf("%w: last try: %w", waitErr, err)
			}

			continue
		}

		for _, message := range fetched.Messages {
			if message.Offset >= to {
				return nil
			}

			if err := fn(message); err != nil {
				return err
			}
		}

		if idle++; fetched.Next > next || fetched.HighWater <= next {
			idle = 0
		}

		if idle == idleFetches {
			return fmt.Errorf("read %s/%d at %d of %d: %w", topic, partition, next, fetched.HighWater, ErrNoProgress)
		}

		next = fetched.Next
	}

	return nil
}

// Transient reports whether an error of this package may pass by itself, so
// that the same request makes sense again. Errors of a context do not count.
func Transient(err error) bool {
	switch {
	case err == nil,
		errors.Is(err, ErrNoTopic),
		errors.Is(err, ErrLayout),
		errors.Is(err, ErrVersions),
		errors.Is(err, ErrLogin),
		errors.Is(err, ErrRights),
		errors.Is(err, ErrOffsetOutOfRange),
		errors.Is(err, ErrNoProgress),
		errors.Is(err, context.Canceled):
		return false
	default:
		return !isCode(err,
			kafkago.TopicAuthorizationFailed,
			kafkago.GroupAuthorizationFailed,
			kafkago.ClusterAuthorizationFailed,
			kafkago.TransactionalIDAuthorizationFailed,
			kafkago.InvalidTopic,
			kafkago.InvalidGroupId,
			kafkago.InvalidPartitionNumber,
			kafkago.InvalidReplicationFactor,
			kafkago.InvalidConfiguration,
			kafkago.InvalidRequest,
			kafkago.PolicyViolation,
			kafkago.UnsupportedVersion,
		)
	}
}
