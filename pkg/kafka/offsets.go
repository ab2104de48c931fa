package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// Offsets returns for each partition of the topic the first offset that is in
// the log and the end, one past the last.
func Offsets(ctx context.Context, cfg Config, topic string) (first, end map[int]int64, err error) {
	err = once(ctx, cfg.withTopics(topic), func(ctx context.Context, c *Client) error {
		first, end, err = c.Offsets(ctx, topic)

		return err
	})

	return first, end, err
}

// Offsets is the function Offsets on connections that are there already. It
// asks once: an error may pass by itself.
func (c *Client) Offsets(ctx context.Context, topic string) (first, end map[int]int64, err error) {
	count, err := c.Partitions(ctx, topic)
	if err != nil {
		return nil, nil, err
	}

	partitions := make([]int, count)
	for p := range partitions {
		partitions[p] = p
	}

	return c.offsetsOf(ctx, topic, partitions...)
}

// Bounds returns the first offset in the log of one partition and its end. It
// asks once.
func (c *Client) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	firsts, ends, err := c.offsetsOf(ctx, topic, partition)
	if err != nil {
		return 0, 0, err
	}

	return firsts[partition], ends[partition], nil
}

func (c *Client) offsetsOf(ctx context.Context, topic string, partitions ...int) (first, end map[int]int64, err error) {
	requests := make([]kafkago.OffsetRequest, 0, 2*len(partitions))
	for _, p := range partitions {
		requests = append(requests, kafkago.FirstOffsetOf(p), kafkago.LastOffsetOf(p))
	}

	answer, err := c.kafka.ListOffsets(ctx, &kafkago.ListOffsetsRequest{
		Topics: map[string][]kafkago.OffsetRequest{topic: requests},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("offsets of %s: %w", topic, WithRight(err, "Describe", onTopic, topic))
	}

	first, end = make(map[int]int64, len(partitions)), make(map[int]int64, len(partitions))

	for _, p := range answer.Topics[topic] {
		// A request that failed leaves zeros or -1 beside its error.
		if p.Error != nil {
			return nil, nil, fmt.Errorf("offsets of %s/%d: %w", topic, p.Partition, WithRight(p.Error, "Describe", onTopic, topic))
		}

		first[p.Partition], end[p.Partition] = p.FirstOffset, p.LastOffset
	}

	if len(first) != len(partitions) {
		return nil, nil, fmt.Errorf("offsets of %s: %d of %d partitions answered", topic, len(first), len(partitions))
	}

	return first, end, nil
}

// Committed returns the group's committed offset for each partition of the
// topic; partitions without one are absent.
func Committed(ctx context.Context, cfg Config, group, topic string) (committed map[int]int64, err error) {
	err = once(ctx, cfg.withTopics(topic), func(ctx context.Context, c *Client) error {
		committed, err = c.Committed(ctx, group, topic)

		return err
	})

	return committed, err
}

// Committed is the function Committed on connections that are there already. It
// asks once: an error may pass by itself.
func (c *Client) Committed(ctx context.Context, group, topic string) (map[int]int64, error) {
	count, err := c.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}

	partitions := make([]int, count)
	for p := range partitions {
		partitions[p] = p
	}

	answer, err := c.kafka.OffsetFetch(ctx, &kafkago.OffsetFetchRequest{
		GroupID: group,
		Topics:  map[string][]int{topic: partitions},
	})
	if err == nil {
		err = answer.Error
	}

	if isCode(err, kafkago.GroupIdNotFound) { // Some brokers say so, others tell no offset.
		return map[int]int64{}, nil
	}

	if err != nil {
		return nil, fmt.Errorf("committed offsets of group %s: %w", group, WithRight(err, "Describe", onGroup, group))
	}

	committed := make(map[int]int64, count)

	for _, p := range answer.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("committed offset of group %s for %s/%d: %w", group, topic, p.Partition, WithRight(p.Error, "Describe", onTopic, topic))
		}

		if p.CommittedOffset >= 0 {
			committed[p.Partition] = p.CommittedOffset
		}
	}

	return committed, nil
}
