package intake

import (
	"errors"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"hanjul/pkg/kafka"
)

func TestIntakeTopic(t *testing.T) {
	t.Parallel()

	t.Run("Missing", func(t *testing.T) {
		t.Parallel()

		b, c := faulty(t)
		m := b.start(t, nil, func(c *Config) { c.Topic = "typo" })

		if err := <-m.done; !errors.Is(err, kafka.ErrNoTopic) || !strings.Contains(err.Error(), "typo") {
			t.Errorf("error: %v", err)
		}

		if info := c.TopicInfo("typo"); info != nil {
			t.Errorf("the topic was made: %+v", info)
		}
	})

	t.Run("WrongCount", func(t *testing.T) {
		t.Parallel()

		b := bench(t)
		m := b.start(t, nil, func(c *Config) { c.Partitions = 6 })

		err := <-m.done
		if !errors.Is(err, ErrPartitions) || !strings.Contains(err.Error(), "has 3 partitions, configured are 6") {
			t.Errorf("error: %v", err)
		}
	})

	t.Run("GrowsMeanwhile", func(t *testing.T) {
		t.Parallel()

		b := bench(t)
		m := b.start(t, (&journal{}).handle, func(c *Config) {
			c.MetadataTTL, c.CheckEvery = 200*time.Millisecond, 20*time.Millisecond
		})
		m.ready(t)

		transport := &kafkago.Transport{}
		defer transport.CloseIdleConnections()

		client := &kafkago.Client{Addr: kafkago.TCP(b.kafka.Brokers...), Transport: transport, Timeout: patience}

		_, err := client.CreatePartitions(patient(t), &kafkago.CreatePartitionsRequest{
			Topics: []kafkago.TopicPartitionsConfig{{Name: b.topic, Count: partitions + 1}},
		})
		if err != nil {
			t.Fatal(err)
		}

		if err := <-m.done; !errors.Is(err, ErrPartitions) {
			t.Errorf("error: %v", err)
		}
	})
}
