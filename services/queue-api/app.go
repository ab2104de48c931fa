package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"hanjul/pkg/httpserver"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/lifecycle"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/streams"
	"hanjul/services/queue-api/internal/submit"
)

// storeCheck bounds the look at Redis at start-up, after which the service starts without it.
const storeCheck = 3 * time.Second

// app is the process, built and not running.
type app struct {
	cfg      Config
	logger   *slog.Logger
	registry *prometheus.Registry

	server, admin *httpserver.Server
	gate          *httpserver.Gate
	streams       *streams.Hub
	sweeper       *submit.Sweeper
	producer      *kafka.Producer
	redis         closer
	check         func(ctx context.Context) error
}

type closer interface{ Close() error }

// newApp builds everything and connects to nothing.
func newApp(logger *slog.Logger, cfg Config, build telemetry.Build) (*app, error) {
	registry := telemetry.NewRegistry("queue-api", build)
	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config: cfg.Kafka, Partitions: map[string]int{cfg.TopicOrders: cfg.KafkaPartitions},
		QueueRecords: cfg.SendQueue, Registerer: registry, Logger: logger,
	})
	if err != nil {
		return nil, fmt.Errorf("make the producer: %w", err)
	}
	submits, err := submit.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	calls, err := httpapi.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	opened, err := streams.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}

	rdb := redisconn.New(redisconn.ClientOptions(cfg.Redis))
	keys := product.Keyspace{Prefix: cfg.KeyPrefix}
	room, statuses := waitingroom.New(rdb, keys), orderstatus.New(rdb, keys, orderstatus.Config{})
	orders := submit.New(room, statuses, producer, logger, submits, submit.Config{Topic: cfg.TopicOrders, SendTimeout: cfg.SendTimeout})
	open := streams.New(statuses, logger, opened, streams.Config{Max: cfg.StreamMax, Reread: cfg.StreamReread})
	surface := httpapi.New(room, statuses, orders, open, httpapi.Keys{
		Orders: cfg.Orders, Users: cfg.Users, Tickets: keyring.Ring{cfg.Tickets}, Passes: cfg.Passes,
	}, logger, calls, httpapi.Config{Cadence: cfg.Cadence, Heartbeat: cfg.StreamHeartbeat, Advise: cfg.Local})

	gate := httpserver.NewGate(cfg.ReadyDrain)
	return &app{
		cfg: cfg, logger: logger, registry: registry,
		server: httpserver.New(logger, httpserver.Config{Addr: cfg.Listen, Handler: surface.Handler(), Drain: cfg.Drain}),
		// Not ready without Redis would take every replica away at once and turn a 503 that says when to come again into
		// a connection refused: a store that is away is a metric.
		admin:    httpserver.NewAdmin(logger, cfg.AdminListen, registry, gate.Check()),
		gate:     gate,
		streams:  open,
		sweeper:  submit.NewSweeper(orders, cfg.Users, cfg.SweepEvery),
		producer: producer,
		redis:    rdb,
		check: func(ctx context.Context) error {
			return errors.Join(checkRedis(ctx, logger, rdb), checkTopics(ctx, logger, cfg))
		},
	}, nil
}

// Run serves until ctx ends, then turns callers away, finishes the calls in hand, sends what waits, and lets go of Redis. What
// could not be sent is left to another replica's sweeper.
func (a *app) Run(ctx context.Context) error {
	defer func() { _ = a.redis.Close() }()
	if err := a.check(ctx); err != nil {
		return fmt.Errorf("check the stores: %w", err)
	}
	return lifecycle.Run(ctx, a.logger,
		a.gate.Component(),
		// Before the server: its streams would never end by themselves, and it waits for them.
		lifecycle.Component{Name: "streams", Run: a.streams.Run},
		a.server.Component("storefront"),
		lifecycle.Component{Name: "sweeper", Run: a.sweeper.Run},
		lifecycle.Component{Name: "producer", Run: a.producer.Run, StopWithin: 20 * time.Second},
		a.admin.Component("admin"),
	)
}

// checkRedis refuses a server that is too old. One that does not answer is no reason not to start.
func checkRedis(ctx context.Context, logger *slog.Logger, rdb redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, storeCheck)
	defer cancel()
	report, err := redisconn.Ready(ctx, rdb)
	switch {
	case errors.Is(err, redisconn.ErrVersion):
		return err
	case err != nil:
		logger.WarnContext(ctx, "redis is not checked", "err", err)
	}
	for _, warning := range report.Warnings {
		logger.WarnContext(ctx, "redis may lose data", "warning", warning)
	}
	return nil
}

// checkTopics refuses a topic with another partition count, since keys would be placed wrongly, and one with fewer replicas or a
// lower min.insync.replicas than configured, since what was answered with 202 would die with a single broker. Brokers that do not answer are no
// reason not to start; orders are answered as unknown until they do.
func checkTopics(ctx context.Context, logger *slog.Logger, cfg Config) error {
	warnings, err := kafka.CheckTopics(ctx, cfg.Kafka, []kafka.TopicSpec{{
		Name: cfg.TopicOrders, Partitions: cfg.KafkaPartitions, Replication: cfg.KafkaReplication,
		MinInsync: cmp.Or(cfg.KafkaMinInsync, kafka.MinInsync(cfg.KafkaReplication)),
	}})
	if err != nil && kafka.Transient(err) {
		logger.WarnContext(ctx, "topics are not checked", "err", err)
		err = nil
	}
	for _, warning := range warnings {
		logger.WarnContext(ctx, "topic setting", "warning", warning.String())
	}
	return err
}
