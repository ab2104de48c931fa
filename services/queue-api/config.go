package main

import (
	"log/slog"
	"maps"
	"time"

	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/pass"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/telemetry"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/live"
)

// service is this service's word in the names of its settings.
const service = "API"

// Config is what queue-api is set up with, checked.
type Config struct {
	Listen, AdminListen string
	LogLevel            slog.Level

	Redis     redisconn.Config
	KeyPrefix string
	Breaker   redisconn.BreakerConfig
	FailOpen  float64

	Kafka           kafka.Config
	KafkaPartitions int
	// Least of every topic; 0 in sync is for kafka.MinInsync to say.
	KafkaReplication, KafkaMinInsync int
	TopicOrders                      string
	SendTimeout                      time.Duration
	SendQueue                        int

	Local   bool // identities are taken on trust, so a risky setting is a warning
	Orders  keyring.Key
	Users   keyring.Key
	Tickets keyring.Key
	Passes  *pass.Signer
	// Commands signs orders that carry no pass.
	Commands keyring.Key
	// What is taken beside the two.
	TicketsAlso keyring.Ring
	PassesAlso  pass.Verifier

	StreamMax, StreamNearest      int
	StreamReread, StreamHeartbeat time.Duration
	Leases                        bool

	Origins    httpapi.Origins
	Cadence    httpapi.Cadence
	PollExcess int
	Lines      live.Config
	SweepEvery time.Duration
	ReadyDrain time.Duration
	Drain      time.Duration
}

// loadConfig reads every setting from the source; the faults are the source's to tell.
func loadConfig(s *config.Source) Config {
	cadence := httpapi.DefaultCadence()
	poll := func(name string, def time.Duration, who string) time.Duration {
		return s.Duration(name, def, 10*time.Millisecond, time.Minute, "how long "+who+" are asked to wait before the next poll, ± 20 %")
	}
	c := Config{
		Listen:      s.Addr("LISTEN", ":8080", "where the storefront is served"),
		AdminListen: adminListen(s),

		Redis:     loadRedis(s),
		KeyPrefix: redisconn.ReadKeyPrefix(s),
		Breaker: redisconn.BreakerConfig{
			Failures: s.Int("BREAKER_FAILURES", 5, 1, 1_000_000, "tries in a row that a node of Redis leaves unanswered until calls of it are refused at once"),
			OpenFor:  s.Duration("BREAKER_OPEN", time.Second, 10*time.Millisecond, time.Minute, "how long they are refused, until a single call tries again"),
		},

		Kafka:            kafka.Settings(s, "queue-api"),
		KafkaPartitions:  s.Int("KAFKA_PARTITIONS", 12, 1, 10_000, "partitions of every topic; must be what the topics have"),
		KafkaReplication: s.Int("KAFKA_REPLICATION", 1, 1, 7, "least replicas of every topic"),
		KafkaMinInsync:   s.Int("KAFKA_MIN_INSYNC", 0, 0, 7, "least min.insync.replicas of every topic; 0 means one below KAFKA_REPLICATION and at most 2"),
		TopicOrders:      s.String("TOPIC_ORDERS", "orders", "a topic's name", "where commands go"),
		SendTimeout:      s.Duration("SEND_TIMEOUT", 5*time.Second, 10*time.Millisecond, 20*time.Second, "longest wait for Kafka's acknowledgement before an order is answered as unknown"),
		SendQueue:        s.Int("SEND_QUEUE", 10_000, 1, 1_000_000, "most orders that wait for Kafka; beyond them the answer is busy"),

		Cadence: httpapi.Cadence{
			Near: poll("POLL_NEAR", cadence.Near, "people within 100 of the head"),
			Mid:  poll("POLL_MID", cadence.Mid, "people within 1,000 of the head"),
			Far:  poll("POLL_FAR", cadence.Far, "people farther behind"),

			NearWithin: int64(s.Int("POLL_NEAR_WITHIN", int(cadence.NearWithin), 1, 1_000_000, "positions from the head that POLL_NEAR is for")),
			MidWithin:  int64(s.Int("POLL_MID_WITHIN", int(cadence.MidWithin), 1, 10_000_000, "positions from the head that POLL_MID is for")),
			Busy:       int64(s.Int("POLL_BUSY", int(cadence.Busy), 1, 1_000_000, "calls in hand from which on the pauses of people in line grow with the load")),
			Stretch:    int64(s.Int("POLL_STRETCH", int(cadence.Stretch), 1, 10, "how many times as long the pauses become under load, at most")),
		},
		PollExcess: s.Int("POLL_EXCESS", 5, 0, 1000, "how many times as often as asked a person may poll before the answer is too-many-polls; 0 lets everybody"),
		Lines: live.Config{
			Every:     s.Duration("LINE_REFRESH", 250*time.Millisecond, time.Millisecond, 10*time.Second, "age from which on the snapshot of a line is refreshed by the next poll, one call of Redis"),
			StaleFor:  s.Duration("LINE_STALE", time.Minute, time.Second, time.Hour, "how long polls are answered from the last snapshot, marked stale, while Redis does not answer"),
			Idle:      s.Duration("LINE_IDLE", time.Minute, time.Second, time.Hour, "time after which the snapshot of a line is dropped that nobody polls about"),
			Products:  s.Int("LINE_PRODUCTS", 1000, 1, 1_000_000, "snapshots held at once; people of other products are asked about at Redis"),
			PlacesMax: s.Int("LINE_PLACES", 5_000_000, 1, 1_000_000_000, "places of all snapshots held at once, eight to sixteen bytes each; people of a line that does not fit are asked about at Redis"),
		},
		StreamMax:       s.Int("STREAM_MAX", 10_000, 1, 1_000_000, "streams open at once, of orders and of lines together; beyond them the answer is streams-full, and nobody is offered one"),
		StreamNearest:   s.Int("STREAM_NEAREST", 1000, 0, 1_000_000, "position up to which people in line are offered a stream, beside those who hold a pass; the others poll; 0 offers none"),
		StreamReread:    s.Duration("STREAM_REREAD", 2*time.Second, 10*time.Millisecond, time.Minute, "time between two looks at every status that a stream waits for, in case the hint was lost"),
		StreamHeartbeat: s.Duration("STREAM_HEARTBEAT", 10*time.Second, 100*time.Millisecond, 10*time.Minute, "time between two signs of life of a stream, ± 20 %; below the idle limit of whatever stands in front"),
		SweepEvery:      s.Duration("SWEEP_EVERY", time.Second, 10*time.Millisecond, time.Minute, "time between two looks for orders that were bound and never acknowledged"),
		ReadyDrain:      s.Duration("READY_DRAIN", 0, 0, time.Minute, "how long to go on after /readyz turned away"),
		Drain:           s.Duration("DRAIN", 10*time.Second, 0, 5*time.Minute, "how long calls in hand may take at the end; longer than SEND_TIMEOUT"),
	}
	c.FailOpen = s.Float("FAIL_OPEN", 0, 0, 10_000, "people a second whom this process gives a pass by itself while Redis is away, such as 20, for shops that look at passes only; 0: nobody, they are asked to come again. "+
		"Such a pass has no place: neither first come, first served (I7) nor capacity and rate (I8) hold, evictions are not looked at, and it buys no order here")
	level, err := telemetry.ParseLevel(s.Choice("LOG_LEVEL", "info", "what is logged", "debug", "info", "warn", "error"))
	if err != nil {
		s.Fault("LOG_LEVEL", "%w", err)
	}
	c.LogLevel = level
	c.Leases = s.Choice("LEASES", "off", "whether a key is written for each pass that is handed out, for schedulers with the trigger keyspace", "on", "off") == "on"
	c.Local = s.Choice("IDENTITY", "", "how people are known; local trusts the header Hanjul-User and is for a machine of one's own", "local") == "local"
	if c.Origins, err = httpapi.NewOrigins(s.List("ORIGINS", "", "an origin such as https://shop.example", "other web origins whose pages may call from a browser; pages of the surface's own origin always may, programs too")); err != nil {
		s.Fault("ORIGINS", "%w", err)
	}
	c.Orders = key(s, "KEY_ORDER", "derives order ids; kept for the whole sale")
	c.Users = key(s, "KEY_USER", "hashes user ids; kept while a product lives")
	c.Tickets = key(s, "KEY_TICKET", "signs tickets")
	c.TicketsAlso = others(s, "KEY_TICKET_ALSO", "KEY_TICKET", c.Tickets)
	c.Commands = key(s, "KEY_COMMAND", "signs orders without a pass, which are taken while the queue is off")
	seed := key(s, "KEY_PASS", "signs passes; the secret is an Ed25519 seed")
	if !seed.IsZero() {
		if c.Passes, err = pass.NewSigner(seed); err != nil {
			s.Fault("KEY_PASS", "%w", err)
		}
	}
	c.PassesAlso = pass.Verifier{}
	for _, other := range others(s, "KEY_PASS_ALSO", "KEY_PASS", seed) {
		signer, err := pass.NewSigner(other)
		if err != nil {
			s.Fault("KEY_PASS_ALSO", "%w", err)
			continue
		}
		maps.Copy(c.PassesAlso, signer.Verifier())
	}
	if c.KafkaMinInsync > c.KafkaReplication {
		s.Fault("KAFKA_MIN_INSYNC", "expected at most KAFKA_REPLICATION (%d), found %d, with which no record would be taken", c.KafkaReplication, c.KafkaMinInsync)
	}
	if c.Drain <= c.SendTimeout {
		s.Fault("DRAIN", "expected longer than SEND_TIMEOUT (%s), so that no order in hand is cut", c.SendTimeout)
	}
	return c
}

// adminListen is read alone by the subcommand healthcheck.
func adminListen(s *config.Source) string {
	return s.Addr("ADMIN_LISTEN", ":9080", "health, metrics and profiles; reached by the deployment only")
}

// loadRedis reads how Redis is reached; people wait for its answers.
func loadRedis(s *config.Source) redisconn.Config {
	c := redisconn.Read(s)
	c.Timeout = s.Duration("REDIS_TIMEOUT", 400*time.Millisecond, 10*time.Millisecond, 10*time.Second, "longest wait for one answer of Redis")
	c.ClientName = "queue-api"
	return c
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
