package main

import (
	"cmp"
	"log/slog"
	"os"
	"time"

	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/outbox"
	"hanjul/pkg/pass"
	"hanjul/pkg/postgres"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/telemetry"
)

// service is this service's word in the names of its settings.
const service = "CONSUMER"

// Config is what order-consumer is set up with, checked.
type Config struct {
	AdminListen string
	LogLevel    slog.Level

	Redis     redisconn.Config
	KeyPrefix string
	StatusTTL time.Duration

	Kafka    KafkaConfig
	Group    string
	Session  time.Duration
	Batch    int
	Bytes    int
	Window   int
	Stuck    time.Duration
	Postgres postgres.Address
	Conns    int

	UserKey     keyring.Key
	CommandKeys keyring.Ring
	Passes      pass.Verifier

	RelayOn       bool
	RelayShards   int
	RelayBatch    int
	RelayPoll     time.Duration
	PartitionDays int
	Retention     time.Duration
	ReplayTopics  []string
	Replays       int
	ReplayRate    int
	VoidGrace     time.Duration
	WantedBatch   int
	ReadyDrain    time.Duration
}

// KafkaConfig is what must be known of the cluster and its topics.
type KafkaConfig struct {
	Client      kafka.Config
	Partitions  int
	Replication int
	MinInsync   int
	Topics      ledger.Topics
	Retention   time.Duration
}

// loadConfig reads every setting from the source; the faults are the source's to tell.
func loadConfig(s *config.Source) Config {
	c := Config{
		AdminListen: adminListen(s),
		LogLevel:    logLevel(s),

		Redis:     loadRedis(s),
		KeyPrefix: redisconn.ReadKeyPrefix(s),
		StatusTTL: s.Duration("STATUS_TTL", 7*24*time.Hour, time.Minute, 365*24*time.Hour, "how long Redis keeps an order's status; one that is gone comes back when it is asked for"),

		Kafka:   loadKafka(s),
		Group:   groupName(s),
		Session: s.Duration("SESSION", 10*time.Second, time.Second, 5*time.Minute, "how long the partitions of a process that died stand idle"),
		Batch:   s.Int("BATCH_RECORDS", 500, 1, 5_000, "most commands of one judge transaction"),
		Bytes:   s.Int("BATCH_BYTES", 1<<20, 1<<12, 64<<20, "most bytes of commands that are fetched at once"),
		Window:  s.Int("WINDOW_RECORDS", 2_000, 1, 100_000, "commands read ahead among which products take turns, so that the only order of one is not behind the many of another"),
		Stuck:   s.Duration("STUCK_AFTER", time.Minute, time.Second, time.Hour, "how long a partition's worker may give no sign of life, waiting for no store, before it is taken out of the group"),

		Postgres: postgres.Read(s),
		Conns:    s.Int("POSTGRES_CONNS", 8, 1, 1_000, "most connections of the judge; five more are for the relay and for reconciling, and one for each replay that runs"),

		UserKey: key(s, "KEY_USER", "hashes user ids; kept while a product lives"),
		Passes:  passKeys(s),

		RelayOn:       s.Choice("RELAY", "on", "whether this process publishes the outbox; off for all where something else does, such as Debezium", "on", "off") == "on",
		RelayShards:   s.Int("RELAY_SHARDS", 8, 1, outbox.MaxShards, "parts into which the outbox is shared out between processes; the same for all"),
		RelayBatch:    s.Int("RELAY_BATCH", 1_000, 1, 10_000, "most outbox rows of one pass of the relay"),
		RelayPoll:     s.Duration("RELAY_POLL", 250*time.Millisecond, time.Millisecond, time.Minute, "how often the relay looks for rows that no hint told it of"),
		PartitionDays: s.Int("PARTITION_DAYS", 8, 1, 60, "days, today included, for which the outbox has partitions ready"),
		Retention:     s.Duration("OUTBOX_RETENTION", 14*24*time.Hour, time.Hour, 3650*24*time.Hour, "how long published outbox rows are kept after their day, and can be replayed"),
		Replays:       s.Int("REPLAYS", 2, 0, 100, "replays asked for at the operators' desk that this process runs at the same time; 0: none"),
		ReplayRate:    s.Int("REPLAY_RATE", 2_000, 1, outbox.RateMax, "most events per second of each of them, whatever it asks for"),
		VoidGrace:     s.Duration("VOID_GRACE", time.Minute, time.Millisecond, time.Hour, "how long after its deadline an order that nobody can account for is rejected, when its user asks"),
		WantedBatch:   s.Int("WANTED_BATCH", 200, 1, 500, "most orders that are looked up at once because Redis forgot them"),
		ReadyDrain:    s.Duration("READY_DRAIN", 0, 0, time.Minute, "how long to go on after /readyz turned away"),
	}
	c.ReplayTopics = replayTopics(s, c.Kafka)
	c.CommandKeys = commandKeys(s)
	return c
}

// loadKafka reads what the topics need, for the service and for the subcommand topics.
func loadKafka(s *config.Source) KafkaConfig {
	const day = 24 * time.Hour
	k := KafkaConfig{
		Client:      kafka.Settings(s, "order-consumer"),
		Partitions:  s.Int("KAFKA_PARTITIONS", 12, 1, 10_000, "partitions of every topic; never changed once a topic was made"),
		Replication: s.Int("KAFKA_REPLICATION", 1, 1, 7, "least replicas of every topic"),
		MinInsync:   s.Int("KAFKA_MIN_INSYNC", 0, 0, 7, "least min.insync.replicas of every topic; 0 means one below KAFKA_REPLICATION and at most 2"),
		Topics: ledger.Topics{
			Orders:      topicOrders(s),
			Events:      s.String("TOPIC_EVENTS", "order-events", "a topic's name", "where events go"),
			DeadLetters: s.String("TOPIC_DEAD_LETTERS", "orders.dead-letters", "a topic's name", "where commands go that cannot be judged"),
		},
		Retention: s.Duration("ORDERS_RETENTION", 7*day, time.Hour, 365*day, "least retention of the topic of commands; an outage of Postgres that lasts longer loses orders"),
	}
	if k.MinInsync > k.Replication {
		s.Fault("KAFKA_MIN_INSYNC", "expected at most KAFKA_REPLICATION (%d), found %d, with which no record would be taken", k.Replication, k.MinInsync)
	}
	k.MinInsync = cmp.Or(k.MinInsync, kafka.MinInsync(k.Replication))
	return k
}

// replayTopics reads where events may be replayed to, beside the topic of events. Commands and dead letters never: an event there would
// be read as something else (F31).
func replayTopics(s *config.Source, k KafkaConfig) []string {
	const name = "REPLAY_TOPICS"
	topics := s.List(name, "", "a topic's name", "topics that events may be replayed to, beside the topic of events")
	for _, topic := range topics {
		if topic == k.Topics.Orders || topic == k.Topics.DeadLetters {
			s.Fault(name, "expected no topic of commands or dead letters, found %s", topic)
		}
	}
	return topics
}

// replayable are the topics that events may be replayed to, the live one first.
func (c Config) replayable() []string {
	return append([]string{c.Kafka.Topics.Events}, c.ReplayTopics...)
}

// adminListen is read alone by the subcommand healthcheck.
func adminListen(s *config.Source) string {
	return s.Addr("ADMIN_LISTEN", ":9082", "health, metrics and profiles; reached by the deployment only")
}

func groupName(s *config.Source) string {
	return s.String("GROUP", "order-consumer", "a group's name", "the consumer group")
}

func topicOrders(s *config.Source) string {
	return s.String("TOPIC_ORDERS", "orders", "a topic's name", "where commands come from")
}

// specs says how the topics must be.
func (k KafkaConfig) specs() []kafka.TopicSpec {
	spec := kafka.TopicSpec{Partitions: k.Partitions, Replication: k.Replication, MinInsync: k.MinInsync}
	orders, events, letters := spec, spec, spec
	orders.Name, orders.Retention = k.Topics.Orders, k.Retention
	events.Name, letters.Name = k.Topics.Events, k.Topics.DeadLetters
	return []kafka.TopicSpec{orders, events, letters}
}

// loadRedis reads how Redis is reached, for the service and for the subcommands that look there.
func loadRedis(s *config.Source) redisconn.Config {
	c := redisconn.Read(s)
	c.Timeout = s.Duration("REDIS_TIMEOUT", time.Second, 10*time.Millisecond, 30*time.Second, "longest wait for one answer of Redis")
	c.ClientName = "order-consumer"
	return c
}

// commandKeys reads the key that signs, and those that are taken beside it.
func commandKeys(s *config.Source) keyring.Ring {
	command := key(s, "KEY_COMMAND", "signs and verifies commands that carry no pass")
	also := others(s, "KEY_COMMAND_ALSO", "KEY_COMMAND", command)
	if command.IsZero() {
		return nil // A fault, which was told.
	}
	return append(keyring.Ring{command}, also...)
}

func logLevel(s *config.Source) slog.Level {
	level, err := telemetry.ParseLevel(s.Choice("LOG_LEVEL", "info", "what is logged", "debug", "info", "warn", "error"))
	if err != nil {
		s.Fault("LOG_LEVEL", "%w", err)
	}
	return level
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

// passKeys reads the public keys of passes.
func passKeys(s *config.Source) pass.Verifier {
	const name = "PASS_JWKS_FILE"
	path := s.Required(name, "a file with a JWK set", "the public keys that passes are verified with")
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		s.Fault(name, "%w", err)
		return nil
	}
	keys, err := pass.ParseJWKS(text)
	if err != nil {
		s.Fault(name, "%w", err)
	}
	return keys
}

// others reads the keys that verify beside the one that signs: the next one before it signs, the last one until nothing that it signed
// is left.
func others(s *config.Source, name, of string, signs keyring.Key) keyring.Ring {
	secret := s.OptionalSecret(name, "kid:base64url(32 bytes), one or more, separated by commas or line ends", "keys that are taken beside "+of+", which alone signs: the next one, or the last one")
	if secret.IsZero() {
		return nil
	}
	ring, err := keyring.ParseRing(secret.Reveal())
	if err != nil {
		s.Fault(name, "%w", err)
	}
	if _, err := ring.Find(signs.ID()); err == nil {
		s.Fault(name, "expected other key ids than that of %s, found %s", of, signs.ID())
	}
	return ring
}
