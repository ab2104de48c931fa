package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	"hanjul/services/queue-api/internal/live"
	"hanjul/services/queue-api/internal/streams"
	"hanjul/services/queue-api/internal/submit"
)

// How long the parts may take to stop, beside the gate and the servers, which know it themselves. What the sweeper and the producer leave
// behind is sent by another process.
const (
	stopStreams = 2 * time.Second
	stopSweeper = 2 * time.Second
	stopSend    = 3 * time.Second
	stopSlack   = time.Second
)

// app is the process, built and not running.
type app struct {
	cfg      Config
	logger   *slog.Logger
	registry *prometheus.Registry

	server, admin *httpserver.Server
	gate          *httpserver.Gate
	streams       *streams.Hub
	components    []lifecycle.Component
	close         []func()
}

// newApp builds everything and connects to nothing.
func newApp(logger *slog.Logger, cfg Config, build telemetry.Build) (*app, error) {
	registry := telemetry.NewRegistry("queue-api", build)
	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config: cfg.Kafka, Partitions: map[string]int{cfg.TopicOrders: cfg.KafkaPartitions},
		QueueRecords: cfg.SendQueue, DrainFor: stopSend, Registerer: registry, Logger: logger,
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

	snapshots, err := live.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}

	options := redisconn.ClientOptions(cfg.Redis)
	options.DialerRetries = 1 // calls are repeated, and the breaker is to know soon
	rdb := redisconn.New(options)
	keys := product.Keyspace{Prefix: cfg.KeyPrefix}
	shared := redisconn.Share(rdb)
	cfg.Breaker.Registerer, cfg.Breaker.Logger = registry, logger
	if err := shared.Guard(cfg.Breaker); err != nil {
		return nil, fmt.Errorf("guard redis: %w", err)
	}
	room, statuses := waitingroom.New(shared, keys), orderstatus.New(shared, keys, orderstatus.Config{})
	orders := submit.New(room, statuses, producer, logger, submits, submit.Config{Topic: cfg.TopicOrders, Commands: cfg.Commands, SendTimeout: cfg.SendTimeout})
	open := streams.New(statuses, logger, opened, streams.Config{Max: cfg.StreamMax, Reread: cfg.StreamReread})
	lines := live.New(room, room, logger, snapshots, cfg.Lines)
	surface := httpapi.New(room, lines, statuses, orders, open, httpapi.Keys{
		Orders: cfg.Orders, Users: cfg.Users, Tickets: append(keyring.Ring{cfg.Tickets}, cfg.TicketsAlso...), Passes: cfg.Passes, PassesAlso: cfg.PassesAlso,
	}, logger, calls, httpapi.Config{Cadence: cfg.Cadence, PollExcess: cfg.PollExcess, Heartbeat: cfg.StreamHeartbeat, StreamNearest: int64(cfg.StreamNearest), Leases: cfg.Leases, Origins: cfg.Origins, FailOpen: cfg.FailOpen, Advise: cfg.Local})

	asking, err := kafka.NewClient(cfg.Kafka)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kafka: %w", err)
	}
	stores, err := watch(logger, registry, cfg, rdb, asking)
	if err != nil {
		return nil, err
	}

	gate := httpserver.NewGate(cfg.ReadyDrain)
	a := &app{
		cfg: cfg, logger: logger, registry: registry,
		server: httpserver.New(logger, httpserver.Config{Addr: cfg.Listen, Handler: surface.Handler(), Drain: cfg.Drain}),
		// Not ready without Redis would take every replica away at once and turn a 503 that says when to come again into
		// a connection refused: a store that is away is a metric.
		admin:   httpserver.NewAdmin(logger, cfg.AdminListen, registry, gate.Check()),
		gate:    gate,
		streams: open,
		close:   []func(){func() { _ = shared.Close() }, asking.Close},
	}
	// In the order of the flow: sources first, so that each stops before what it feeds.
	a.components = []lifecycle.Component{
		gate.Component(),
		// Past the breaker: a line whose people are not heard must not wait for the next try.
		beating(logger, beatEvery, cfg.Redis.Timeout, func(ctx context.Context) error { return room.Beat(redisconn.Unguarded(ctx)) }),
		// Before the server: its streams would never end by themselves, and it waits for them.
		{Name: "streams", Run: beside(open.Run, beside(surface.Run, lines.Run)), StopWithin: stopStreams},
		a.server.Component("storefront"),
		{Name: "sweeper", Run: submit.NewSweeper(orders, cfg.Users, cfg.SweepEvery).Run, StopWithin: stopSweeper},
		stores.Component(),
		{Name: "producer", Run: producer.Run, StopWithin: stopSend + stopSlack},
		a.admin.Component("admin"),
	}
	return a, nil
}

// beside runs one as long as the other, for what needs no time of its own to stop.
func beside(run, other func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- other(ctx) }()
		err := run(ctx)
		cancel()
		return errors.Join(err, <-ended)
	}
}

// Run serves until ctx ends, then turns callers away, finishes the calls in hand, sends what waits, and lets go of Redis. What
// could not be sent is left to another replica's sweeper.
func (a *app) Run(ctx context.Context) error {
	defer a.end()
	return lifecycle.Run(ctx, a.logger, a.components...)
}

// end closes what was opened.
func (a *app) end() {
	for _, end := range a.close {
		end()
	}
}
