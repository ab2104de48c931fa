package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
)

// Warning is something about a topic that could not be checked or may be meant.
type Warning struct {
	Topic   string
	Message string
}

// String returns topic and message.
func (w Warning) String() string { return "topic " + w.Topic + ": " + w.Message }

// CheckTopics compares the topics of the cluster with their specifications and
// joins all faults: a topic that is missing, has another partition count, too
// few replicas, or settings under which records would be lost, compacted,
// stamped by the broker or never taken. Replicas count while their broker is away.
// Settings that the cluster does not tell are warnings.
func CheckTopics(ctx context.Context, cfg Config, specs []TopicSpec) (warnings []Warning, err error) {
	err = once(ctx, cfg.withTopics(names(specs)...), func(ctx context.Context, c *Client) error {
		var faults []error

		warnings = nil

		for _, spec := range specs {
			topic, err := c.describe(ctx, spec.Name)
			if err != nil {
				if Transient(err) || errors.Is(err, ErrLogin) {
					return err
				}

				faults = append(faults, err)

				continue
			}

			faults = append(faults, checkLayout(spec, topic))

			w, err := c.checkSettings(ctx, spec, topic)
			warnings = append(warnings, w...)
			faults = append(faults, err)
		}

		if found := errors.Join(faults...); found != nil {
			return permanent(errors.Join(ErrLayout, found))
		}

		return nil
	})

	return warnings, err
}

func checkLayout(spec TopicSpec, topic kafkago.Topic) error {
	var faults []error

	if found := len(topic.Partitions); found != spec.Partitions {
		faults = append(faults, wrongCount(spec, found))
	}

	for _, p := range topic.Partitions {
		if len(p.Replicas) < spec.Replication {
			faults = append(faults, fmt.Errorf("topic %s: partition %d has %d replicas, at least %d are configured: add some (kafka-reassign-partitions.sh), or lower KAFKA_REPLICATION",
				spec.Name, p.ID, len(p.Replicas), spec.Replication))

			break // They were made together; one line is enough.
		}
	}

	return errors.Join(faults...)
}

func (c *Client) checkSettings(ctx context.Context, spec TopicSpec, topic kafkago.Topic) ([]Warning, error) {
	settings, err := c.settings(ctx, spec.Name)
	if err != nil {
		return []Warning{{Topic: spec.Name, Message: "settings are not checked: " + err.Error()}}, nil //nolint:nilerr // brokers may deny the look; that is told, not fatal
	}

	var (
		warnings []Warning
		faults   []error
	)

	check := func(name string, demand bool, ok func(string) bool, want string) {
		value, told := settings[name]

		switch {
		case !demand:
		case !told:
			warnings = append(warnings, Warning{Topic: spec.Name, Message: name + " is not told and not checked"})
		case !ok(value):
			faults = append(faults, fmt.Errorf("topic %s: %s is %s, must be %s: change it with kafka-configs.sh --alter --topic %s --add-config", spec.Name, name, value, want, spec.Name))
		}
	}

	check(settingCleanup, true, func(v string) bool { return v == wantCleanup }, wantCleanup)
	check(settingTimestamp, true, func(v string) bool { return strings.EqualFold(v, wantTimestamp) }, wantTimestamp)
	check(settingInsync, spec.MinInsync > 0, func(v string) bool {
		n, err := strconv.Atoi(v)

		return err == nil && n >= spec.MinInsync
	}, "at least "+strconv.Itoa(spec.MinInsync))
	// A replica that is away is still counted here.
	if replicas, insync := fewest(topic), settings[settingInsync]; replicas > 1 && insync == strconv.Itoa(replicas) {
		warnings = append(warnings, Warning{
			Topic:   spec.Name,
			Message: settingInsync + " is " + insync + " of as many replicas: while one is away no record is taken",
		})
	} else if n, err := strconv.Atoi(insync); err == nil && replicas > 0 && n > replicas {
		faults = append(faults, fmt.Errorf("topic %s: %s is %s and a partition has %d replicas, so no record is ever taken",
			spec.Name, settingInsync, insync, replicas))
	}

	check(settingRetention, spec.Retention != 0, func(v string) bool {
		ms, err := strconv.ParseInt(v, 10, 64)

		return err == nil && (ms == -1 || spec.Retention > 0 && ms >= spec.Retention.Milliseconds())
	}, "at least "+spec.retention()+" (-1 is unlimited)")

	if size, told := settings[settingSize]; told && size != "-1" && spec.Retention != 0 {
		warnings = append(warnings, Warning{
			Topic:   spec.Name,
			Message: settingSize + " is " + size + " and may delete records before their time",
		})
	}

	return warnings, errors.Join(faults...)
}

// fewest is the replica count of the partition that has the fewest.
func fewest(topic kafkago.Topic) int {
	count := 0

	for i, p := range topic.Partitions {
		if i == 0 || len(p.Replicas) < count {
			count = len(p.Replicas)
		}
	}

	return count
}

func (c *Client) settings(ctx context.Context, topic string) (map[string]string, error) {
	answer, err := c.kafka.DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{
		Resources: []kafkago.DescribeConfigRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic,
			ResourceName: topic,
			ConfigNames:  []string{settingCleanup, settingRetention, settingSize, settingInsync, settingTimestamp},
		}},
	})
	if err != nil {
		return nil, err
	}

	settings := make(map[string]string)

	for _, resource := range answer.Resources {
		if resource.Error != nil {
			return nil, WithRight(resource.Error, "DescribeConfigs", onTopic, topic)
		}

		for _, entry := range resource.ConfigEntries {
			settings[entry.ConfigName] = entry.ConfigValue
		}
	}

	return settings, nil
}
