package main

import (
	"log/slog"
	"time"

	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/postgres"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/telemetry"
	"hanjul/services/admission-scheduler/internal/admit"
	"hanjul/services/admission-scheduler/internal/operator"
	"hanjul/services/admission-scheduler/internal/pace"
)

// service is this service's word in the names of its settings.
const service = "SCHEDULER"

// Config is what the scheduler is set up with, checked.
type Config struct {
	Listen, AdminListen string
	LogLevel            slog.Level

	Redis     redisconn.Config
	KeyPrefix string

	Kafka           kafka.Config
	KafkaPartitions int
	// Least of every topic; 0 in sync is for kafka.MinInsync to say.
	KafkaReplication, KafkaMinInsync int
	TopicOrders                      string
	ReplayTopics                     []string // the live one first

	Postgres postgres.Address

	Local      bool // identities are taken on trust, so a risky setting is a warning
	KeyCommand keyring.Key
	KeyUser    keyring.Key
	Tokens     operator.Tokens

	StreamReaders int
	KeyspaceSet   bool
	Triggers      []admit.Trigger

	LagRecords, LagOutbox pace.Marks
	ConsumerGroup         string // whose offsets tell what is handled

	Tick        time.Duration
	Deadline    time.Duration
	Concurrency int
	PollMax     time.Duration
	ReadyDrain  time.Duration
}

// loadConfig reads every setting from the source; the faults are the source's to tell.
func loadConfig(s *config.Source) Config {
	c := Config{
		Listen:      s.Addr("LISTEN", ":8081", "where operators are served; never on a public network"),
		AdminListen: adminListen(s),

		Redis:     redisconn.Read(s),
		KeyPrefix: redisconn.ReadKeyPrefix(s),

		Kafka:            kafka.Settings(s, "admission-scheduler"),
		KafkaPartitions:  s.Int("KAFKA_PARTITIONS", 12, 1, 10_000, "partitions of every topic; must be what the topics have"),
		KafkaReplication: s.Int("KAFKA_REPLICATION", 1, 1, 7, "least replicas of every topic"),
		KafkaMinInsync:   s.Int("KAFKA_MIN_INSYNC", 0, 0, 7, "least min.insync.replicas of every topic; 0 means one below KAFKA_REPLICATION and at most 2"),
		TopicOrders:      s.String("TOPIC_ORDERS", "orders", "a topic's name", "where commands go"),

		Postgres: postgres.Read(s),

		Tick:        s.Duration("TICK", 100*time.Millisecond, time.Millisecond, 2*time.Second, "longest time between two looks at a line that may move, in which a batch is spread; without tick among SCHEDULER_TRIGGERS a second at least; pass time stands still where no look comes for 5 s"),
		Deadline:    s.Duration("DEADLINE", 2*time.Second, 10*time.Millisecond, time.Minute, "longest time one look may take; a product that overruns it waits longer and disturbs no other"),
		Concurrency: s.Int("CONCURRENCY", 32, 1, 10_000, "products looked at at the same time"),
		PollMax:     s.Duration("POLL_MAX", 18*time.Second, time.Second, time.Hour, "longest time between two polls of one person: POLL_FAR of queue-api, times its POLL_STRETCH, plus a fifth; a pass must outlive it (F36)"),
		ReadyDrain:  s.Duration("READY_DRAIN", 0, 0, time.Minute, "how long to go on after /readyz turned away"),
	}
	c.Redis.ClientName = "admission-scheduler"
	c.Triggers = triggers(s)
	c.StreamReaders = s.Int("STREAM_READERS", 16, 1, 1000, "with the trigger stream, lines held up by their capacity whose stream is read at the same time, each on a connection")
	c.KeyspaceSet = s.Choice("KEYSPACE_SET", "off", "with the trigger keyspace, whether notify-keyspace-events of Redis may be set where E and x are missing", "on", "off") == "on"
	c.LagRecords = marks(s, "LAG", 10_000, 100_000, "commands of a product's partition that consumers have still to handle")
	c.LagOutbox = marks(s, "LAG_OUTBOX", 20_000, 150_000, "rows of the outbox that are not published")
	c.ConsumerGroup = s.String("GROUP", "order-consumer", "a group's name", "the consumer group, whose offsets tell what is handled")
	c.ReplayTopics = replayTopics(s, c.TopicOrders)
	level, err := telemetry.ParseLevel(s.Choice("LOG_LEVEL", "info", "what is logged", "debug", "info", "warn", "error"))
	if err != nil {
		s.Fault("LOG_LEVEL", "%w", err)
	}
	c.LogLevel = level
	if c.KafkaMinInsync > c.KafkaReplication {
		s.Fault("KAFKA_MIN_INSYNC", "expected at most KAFKA_REPLICATION (%d), found %d, with which no record would be taken", c.KafkaReplication, c.KafkaMinInsync)
	}
	c.Local = s.Choice("IDENTITY", "", "how people are known to queue-api; local takes their word", "local") == "local"
	c.KeyCommand = key(s, "KEY_COMMAND", "signs commands that carry no pass")
	c.KeyUser = key(s, "KEY_USER", "hashes the ids of users who are evicted; the same as queue-api's, and kept while a product lives")
	tokens := s.Secret("OPERATOR_TOKENS", "name:token,name:token", "who may call the operators' desk")
	if !tokens.IsZero() {
		if c.Tokens, err = operator.ParseTokens(tokens.Reveal()); err != nil {
			s.Fault("OPERATOR_TOKENS", "%w", err)
		}
	}
	return c
}

// adminListen is read alone by the subcommand healthcheck.
func adminListen(s *config.Source) string {
	return s.Addr("ADMIN_LISTEN", ":9081", "health, metrics and profiles; reached by the deployment only")
}

// marks reads from where to where a backlog lowers the rate.
func marks(s *config.Source, name string, low, high int, what string) pace.Marks {
	m := pace.Marks{
		Low:  int64(s.Int(name+"_LOW", low, 0, 1_000_000_000, "up to so many "+what+" the whole rate is admitted")),
		High: int64(s.Int(name+"_HIGH", high, 0, 1_000_000_000, "from so many on a twentieth of it is, and evenly less between; 0 means never")),
	}
	if m.High > 0 && m.High <= m.Low {
		s.Fault(name+"_HIGH", "expected 0, or more than %s_LOW (%d), found %d", name, m.Low, m.High)
	}
	return m
}

// triggers reads what makes a scheduler look at a line.
func triggers(s *config.Source) []admit.Trigger {
	const name = "TRIGGERS"
	found, err := admit.ParseTriggers(s.List(name, "tick,pubsub", "tick, pubsub, keyspace, stream", "what makes a scheduler look at a line, in any combination; events are hints, so the tick goes on once a second without being named"))
	if err != nil {
		s.Fault(name, "%w", err)
	}
	return found
}

// replayTopics reads where operators may have events replayed to. Commands never: an event there would be read as something else (F31).
// order-consumer, which publishes them, has a list of its own and refuses what is not in that, dead letters among them.
func replayTopics(s *config.Source, orders string) []string {
	const events, others = "TOPIC_EVENTS", "REPLAY_TOPICS"
	topics := append([]string{s.String(events, "order-events", "a topic's name", "where events go, and are replayed to unless another topic is named")},
		s.List(others, "", "a topic's name", "topics that events may be replayed to, beside the topic of events; the same as order-consumer's")...)
	for i, topic := range topics {
		if topic == orders {
			s.Fault([]string{events, others}[min(i, 1)], "expected no topic of commands, found %s", topic)
		}
	}
	return topics
}

// key reads a secret that is one key line.
func key(s *config.Source, name, meaning string) keyring.Key {
	secret := s.Secret(name, "kid:base64url(32 bytes)", meaning)
	if secret.IsZero() {
		return keyring.Key{}
	}
	k, err := keyring.Parse(secret.Reveal())
	if err != nil {
		s.Fault(name, "%w", err)
	}
	return k
}
