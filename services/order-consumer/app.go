package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/httpserver"
	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/lifecycle"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/outbox"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/storewatch"
	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
	"hanjul/services/order-consumer/internal/fulfil"
	"hanjul/services/order-consumer/internal/intake"
	"hanjul/services/order-consumer/internal/reconcile"
	"hanjul/services/order-consumer/internal/relay"
	"hanjul/services/order-consumer/internal/replay"
)

// How long each part may take to stop. When nothing is away a stop takes less than a second; when everything is, all of them together
// stay below the half minute that Kubernetes grants, and what is cut comes again.
const (
	stopIntake = 4 * time.Second
	stopRelay  = 2 * time.Second
	stopReplay = time.Second
	stopSend   = time.Second
	stopSlack  = 3 * time.Second
)

// App is the built process.
type App struct {
	logger     *slog.Logger
	components []lifecycle.Component
	admin      *httpserver.Server
	close      []func()
}

// newApp builds everything and starts nothing; nothing is connected to yet.
func newApp(logger *slog.Logger, c Config, build telemetry.Build) (_ *App, err error) {
	registry := telemetry.NewRegistry("order-consumer", build)
	app := &App{logger: logger}
	defer func() {
		if err != nil {
			app.end()
		}
	}()

	// The judge has a pool of its own, so that nobody who looks something up makes it wait.
	judging, err := app.openLedger(c, "order-consumer", c.Conns)
	if err != nil {
		return nil, err
	}
	reading, err := app.openLedger(c, "order-consumer-reconcile", 2)
	if err != nil {
		return nil, err
	}
	box, err := outbox.Open(context.Background(), c.Postgres)
	if err != nil {
		return nil, err
	}
	app.close = append(app.close, box.Close)

	rdb := redisconn.New(redisconn.ClientOptions(c.Redis))
	app.close = append(app.close, closer(rdb))
	keys := product.Keyspace{Prefix: c.KeyPrefix}
	units, statuses := stock.New(rdb, keys), orderstatus.New(rdb, keys, orderstatus.Config{TTL: c.StatusTTL})

	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config: c.Kafka.Client,
		Partitions: map[string]int{
			c.Kafka.Topics.Orders: c.Kafka.Partitions, c.Kafka.Topics.Events: c.Kafka.Partitions, c.Kafka.Topics.DeadLetters: c.Kafka.Partitions,
		},
		DrainFor: stopSend, Registerer: registry, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	publish, err := relay.New(relay.Config{
		Off: !c.RelayOn, Shards: c.RelayShards, Batch: c.RelayBatch, Idle: c.RelayPoll, Days: c.PartitionDays, Retention: c.Retention, Grace: stopRelay,
	}, box, producer, registry, logger)
	if err != nil {
		return nil, err
	}
	replays, err := replay.NewBackground(replay.BackgroundConfig{
		Most: c.Replays, Rate: c.ReplayRate, Topics: c.replayable(), Grace: stopReplay, Connect: c.Kafka.replayer,
	}, box, registry, logger)
	if err != nil {
		return nil, err
	}
	repair, err := reconcile.New(reconcile.Config{
		Ledger: reading, Stock: units, Status: statuses, Room: waitingroom.New(rdb, keys), Producer: producer,
		Orders: c.Kafka.Topics.Orders, Key: c.CommandKeys.Current(),
		VoidGrace: c.VoidGrace, WantedBatch: c.WantedBatch, Registerer: registry, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	till := fulfil.New(fulfil.Config{
		Ledger: hinting{judging, publish.Hint}, Stock: units, Status: statuses,
		Verifier:   fulfil.Verifier{Passes: c.Passes, Commands: c.CommandKeys, Users: c.UserKey},
		Registerer: registry, Logger: logger,
	})
	commands, err := intake.New(intake.Config{
		Config: c.Kafka.Client, Group: c.Group, Topic: c.Kafka.Topics.Orders, Partitions: c.Kafka.Partitions,
		MaxRecords: c.Batch, MaxBytes: c.Bytes, Window: c.Window, StuckAfter: c.Stuck, Session: c.Session, StopFor: stopIntake,
		Progress: progress(judging), Prepare: till.Prepare, Registerer: registry, Logger: logger,
	}, till.Judge)
	if err != nil {
		return nil, err
	}

	gate := httpserver.NewGate(c.ReadyDrain)
	asking, err := kafka.NewClient(c.Kafka.Client)
	if err != nil {
		return nil, err
	}
	app.close = append(app.close, asking.Close)
	before := &preflight{logger, reading, box, rdb, c.Redis.Mode, c.Kafka}
	stores, err := storewatch.New(storewatch.Config{Registerer: registry, Logger: logger}, before.stores(asking)...)
	if err != nil {
		return nil, err
	}
	app.admin = httpserver.NewAdmin(logger, c.AdminListen, registry,
		gate.Check(), httpserver.Check{Name: "group", Check: func(context.Context) error { return commands.Ready() }})
	// In the order of the flow: sources first, so that each stops before what it feeds.
	app.components = []lifecycle.Component{
		gate.Component(),
		{Name: "intake", Run: commands.Run, StopWithin: stopIntake + stopSlack},
		{Name: "reconcile", Run: repair.Run, StopWithin: stopSlack},
		{Name: "replays", Run: replays.Run, StopWithin: 2*stopReplay + stopSend + stopSlack},
		{Name: "relay", Run: publish.Run, StopWithin: stopRelay + stopSlack},
		stores.Component(),
		{Name: "producer", Run: producer.Run, StopWithin: stopSend + stopSlack},
		app.admin.Component("admin"),
	}
	return app, nil
}

func (a *App) openLedger(c Config, name string, conns int) (*ledger.Ledger, error) {
	l, err := ledger.Open(context.Background(), c.Postgres, ledger.Config{
		Pool: postgres.Config{Name: name, MaxConns: conns}, Topics: c.Kafka.Topics,
	})
	if err == nil {
		a.close = append(a.close, l.Close)
	}
	return l, err
}

// Run works until ctx ends or a part fails, then stops in order and closes what was opened.
func (a *App) Run(ctx context.Context) error {
	defer a.end()
	return lifecycle.Run(ctx, a.logger, a.components...)
}

func (a *App) end() {
	for i := len(a.close) - 1; i >= 0; i-- {
		a.close[i]()
	}
}

// closer ends a client; its connections are of no more use, so an error tells nothing.
func closer(rdb redis.UniversalClient) func() { return func() { _ = rdb.Close() } }

// hinting wakes the relay as soon as a batch is judged, while Redis is still being told.
type hinting struct {
	*ledger.Ledger
	hint func()
}

// Judge judges, then hints.
func (h hinting) Judge(ctx context.Context, b ledger.Batch) (ledger.Result, error) {
	result, err := h.Ledger.Judge(ctx, b)
	if err == nil {
		h.hint()
	}
	return result, err
}

// progress tells the intake where the ledger stands.
func progress(l *ledger.Ledger) intake.Progress {
	return func(ctx context.Context, topic string, partition int) (int64, bool, error) {
		all, err := l.Progress(ctx, topic)
		next, ok := all[partition]
		return next, ok, err
	}
}
