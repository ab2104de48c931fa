package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// Unlimited is the Retention of a topic that never forgets by time.
const Unlimited time.Duration = -1

// TopicSpec says how a topic must be.
type TopicSpec struct {
	Name string
	// Partitions is the exact count. It never changes while the topic lives,
	// since keys would move.
	Partitions int
	// Replication and MinInsync are minima; zero means one replica, and no
	// demand on min.insync.replicas.
	Replication, MinInsync int
	// Retention is the minimum by time; zero means no demand, Unlimited that
	// nothing may be deleted.
	Retention time.Duration
}

// MinInsync is what min.insync.replicas ought to be for so many replicas where
// nobody says otherwise: one may be away, and of three none takes a write
// alone. 0 means no demand, for a topic of one replica.
func MinInsync(replication int) int { return max(0, min(2, replication-1)) }

// Settings of a topic that we set and check.
const (
	settingCleanup   = "cleanup.policy"
	settingRetention = "retention.ms"
	settingSize      = "retention.bytes"
	settingInsync    = "min.insync.replicas"
	settingTimestamp = "message.timestamp.type"

	wantCleanup   = "delete"
	wantTimestamp = "CreateTime"
)

func (s TopicSpec) create() kafkago.TopicConfig {
	settings := []kafkago.ConfigEntry{
		{ConfigName: settingCleanup, ConfigValue: wantCleanup},
		{ConfigName: settingTimestamp, ConfigValue: wantTimestamp},
	}

	if s.Retention != 0 {
		settings = append(settings, kafkago.ConfigEntry{ConfigName: settingRetention, ConfigValue: s.retention()})
	}

	if s.MinInsync > 0 {
		settings = append(settings, kafkago.ConfigEntry{ConfigName: settingInsync, ConfigValue: strconv.Itoa(s.MinInsync)})
	}

	return kafkago.TopicConfig{
		Topic:             s.Name,
		NumPartitions:     s.Partitions,
		ReplicationFactor: max(s.Replication, 1),
		ConfigEntries:     settings,
	}
}

func (s TopicSpec) retention() string {
	if s.Retention < 0 {
		return "-1"
	}

	return strconv.FormatInt(s.Retention.Milliseconds(), 10)
}

// CreateTopics creates the topics that are not there and returns when all of
// them have their partitions and leaders, as one broker sees it. A topic that is there with the same
// partition count is left as it is; with another count it is an error. Safe to
// repeat and to run in parallel.
func CreateTopics(ctx context.Context, cfg Config, specs []TopicSpec) error {
	return once(ctx, cfg.withTopics(names(specs)...), func(ctx context.Context, c *Client) error {
		if err := c.create(ctx, specs); err != nil {
			return err
		}

		var faults []error

		for _, spec := range specs {
			faults = append(faults, c.settle(ctx, spec))
		}

		return permanent(errors.Join(faults...))
	})
}

// create makes those that are not there; for the others no right to make topics
// is needed.
func (c *Client) create(ctx context.Context, specs []TopicSpec) error {
	var topics []kafkago.TopicConfig

	for _, spec := range specs {
		switch _, err := c.describe(ctx, spec.Name); {
		case err == nil:
		case errors.Is(err, ErrNoTopic), errors.Is(err, ErrRights): // Brokers hide also what is not there.
			topics = append(topics, spec.create())
		default:
			return err
		}
	}

	if len(topics) == 0 {
		return nil
	}

	answer, err := c.kafka.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: topics})
	if err != nil {
		return fmt.Errorf("create topics: %w", WithRight(err, "Create", "cluster", "kafka-cluster"))
	}

	var faults []error

	for _, topic := range topics {
		err := answer.Errors[topic.Topic]
		if err != nil && !isCode(err, kafkago.TopicAlreadyExists) {
			faults = append(faults, fmt.Errorf("create topic %s: %w", topic.Topic, WithRight(err, "Create", onTopic, topic.Topic)))
		}
	}

	return errors.Join(faults...)
}

func names(specs []TopicSpec) []string {
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Name
	}

	return names
}

// settle waits until the topic is known with all its leaders: a topic is
// created before every broker has heard of it.
func (c *Client) settle(ctx context.Context, spec TopicSpec) error {
	var backoff Backoff

	for {
		topic, err := c.describe(ctx, spec.Name)

		switch {
		case err == nil && len(topic.Partitions) != spec.Partitions:
			return wrongCount(spec, len(topic.Partitions))
		case err == nil && leaderless(topic) == 0:
			return nil
		case err == nil:
			err = fmt.Errorf("topic %s: %d partitions without a leader", spec.Name, leaderless(topic))
		case !Transient(err) && !errors.Is(err, ErrNoTopic):
			return err
		}

		if waitErr := backoff.Wait(ctx); waitErr != nil {
			return fmt.Errorf("%w: last try: %w", waitErr, err)
		}
	}
}

func wrongCount(spec TopicSpec, found int) error {
	return fmt.Errorf("topic %s: has %d partitions, configured are %d and the count must not change: set KAFKA_PARTITIONS to what it has, "+
		"or name a new topic: %w", spec.Name, found, spec.Partitions, ErrLayout)
}

func leaderless(topic kafkago.Topic) int {
	count := 0

	for _, p := range topic.Partitions {
		if p.Leader.Host == "" {
			count++
		}
	}

	return count
}
