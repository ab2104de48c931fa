package kafka

import (
	"context"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// Client asks brokers for offsets, records and metadata over connections of its
// own. It is safe for concurrent use. A request occupies a connection until its
// answer is there, so a client that waits for new records must not be shared
// with work that is in a hurry; the producer therefore keeps its own.
type Client struct {
	cfg       Config
	kafka     *kafkago.Client
	transport *kafkago.Transport
	conns     *Conns
	cancel    context.CancelFunc
}

// NewClient returns a client; it opens no connection before the first request.
// Close it.
func NewClient(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}

	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())

	conns, err := NewConns(cfg)
	if err != nil {
		cancel()

		return nil, err
	}

	transport := &kafkago.Transport{
		Dial:           conns.DialContext,
		DialTimeout:    cfg.Timeout,
		MetadataTTL:    cfg.MetadataTTL,
		MetadataTopics: cfg.Topics,
		ClientID:       cfg.ClientID,
		Context:        ctx,
	}

	return &Client{
		cfg: cfg,
		kafka: &kafkago.Client{
			Addr: kafkago.TCP(cfg.Brokers...),
			// Never zero: the library then tells brokers to give up after
			// half a second, and no request would have a deadline.
			Timeout:   cfg.Timeout,
			Transport: transport,
		},
		transport: transport,
		conns:     conns,
		cancel:    cancel,
	}, nil
}

// Close ends every connection and the goroutines behind them, requests in
// flight included. It may be repeated.
func (c *Client) Close() {
	c.cancel()
	c.transport.CloseIdleConnections()
	c.conns.Close()
}

// Partitions returns how many partitions the topic has; ErrNoTopic when the
// cluster does not have it.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	found, err := c.describe(ctx, topic)
	if err != nil {
		return 0, err
	}

	return len(found.Partitions), nil
}

func (c *Client) describe(ctx context.Context, topic string) (kafkago.Topic, error) {
	answer, err := c.kafka.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return kafkago.Topic{}, fmt.Errorf("metadata of topic %s: %w", topic, err)
	}

	for _, t := range answer.Topics {
		if t.Name != topic {
			continue
		}

		if isCode(t.Error, kafkago.UnknownTopicOrPartition) {
			return kafkago.Topic{}, noTopic(topic)
		}

		if t.Error != nil {
			return kafkago.Topic{}, fmt.Errorf("metadata of topic %s: %w", topic, WithRight(t.Error, "Describe", onTopic, topic))
		}

		return t, nil
	}

	return kafkago.Topic{}, noTopic(topic)
}

func noTopic(topic string) error {
	return fmt.Errorf("topic %s: %w: make it (`order-consumer topics --create` makes the three topics of its settings), or name one that is there",
		topic, ErrNoTopic)
}
