package main

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/httpserver"
	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/lifecycle"
	"hanjul/pkg/order"
	"hanjul/pkg/outbox"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/storewatch"
	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
	"hanjul/services/admission-scheduler/internal/operator"
)

// passSlack is what a pass must last beyond two polls (F36): delivering it, choosing, and sending the order.
const passSlack = 90 * time.Second

// How long the parts may take to stop, beside the gate and the servers, which know it themselves. Whatever is cut is done again by another
// scheduler.
const (
	stopSend  = time.Second
	stopSlack = time.Second
)

// App is the built process.
type App struct {
	logger      *slog.Logger
	desk, admin *httpserver.Server
	components  []lifecycle.Component
	close       []func()
}

// newApp builds everything and starts nothing; nothing is connected to yet.
func newApp(logger *slog.Logger, c Config, build telemetry.Build) (*App, error) {
	registry := telemetry.NewRegistry("admission-scheduler", build)
	app := &App{logger: logger}

	books, err := ledger.Open(context.Background(), c.Postgres, ledger.Config{
		// The restores at work at a time, the reading of the products, and operators beside them.
		Pool: postgres.Config{Name: "admission-scheduler", MaxConns: 8}, Topics: ledger.Topics{Orders: c.TopicOrders},
	})
	if err != nil {
		return nil, err
	}
	app.close = append(app.close, books.Close)

	box, err := outbox.Open(context.Background(), c.Postgres)
	if err != nil {
		app.end()
		return nil, err
	}
	app.close = append(app.close, box.Close)

	once := redisconn.OnceOptions(c.Redis)
	once.PoolSize = max(once.PoolSize, min(c.Concurrency, redisconn.ClientOptions(c.Redis).PoolSize))
	rdb, rdbOnce := redisconn.New(redisconn.ClientOptions(c.Redis)), redisconn.New(once)
	app.close = append(app.close, closer(rdb), closer(rdbOnce))
	keys := product.Keyspace{Prefix: c.KeyPrefix}
	room := waitingroom.New(rdb, keys)

	producer, err := kafka.NewProducer(kafka.ProducerConfig{
		Config: c.Kafka, Partitions: map[string]int{c.TopicOrders: c.KafkaPartitions},
		// Nothing waits for a load_stock: the next second asks again.
		DrainFor: stopSend, Registerer: registry, Logger: logger,
	})
	if err != nil {
		app.end()
		return nil, err
	}

	asking, err := kafka.NewClient(c.Kafka)
	if err != nil {
		app.end()
		return nil, err
	}
	app.close = append(app.close, asking.Close)
	var slots admit.Slots
	if slices.Contains(c.Triggers, admit.Stream) {
		// Each read waits on a connection, and acknowledging must not wait for one of them.
		reading := redisconn.ClientOptions(c.Redis)
		reading.PoolSize = c.StreamReaders + 2
		reader := redisconn.New(reading)
		app.close = append(app.close, closer(reader))
		slots = waitingroom.NewSlots(reader, keys)
	}
	loop, err := admit.New(logger, admit.Config{
		Room: room, Admitter: waitingroom.NewAdmitter(rdbOnce, keys), Ledger: books, Producer: producer,
		TopicOrders: c.TopicOrders, Commands: c.KeyCommand,
		Triggers: c.Triggers, Slots: slots, Readers: c.StreamReaders, Sources: map[admit.Trigger]admit.Source{
			admit.PubSub: room.Follow,
			admit.Keyspace: func(ctx context.Context, begun func(), hint func(product.ID)) error {
				return room.FollowLeases(ctx, c.KeyspaceSet, begun, hint)
			},
		},
		Lag:  lag(c, asking, box),
		Tick: c.Tick, Deadline: c.Deadline, Concurrency: c.Concurrency, Registerer: registry,
	})
	if err != nil {
		app.end()
		return nil, err
	}

	operators := operator.New(logger, operator.Config{
		Tokens: c.Tokens, Commands: c.KeyCommand, Users: c.KeyUser, Ledger: books, Live: live(room), Bound: bound(room),
		Replays: box, ReplayTopics: c.ReplayTopics,
		PassMin: 2*c.PollMax + passSlack, Trusting: c.Local, Changed: loop.Changed,
	})
	gate := httpserver.NewGate(c.ReadyDrain)
	app.desk = httpserver.New(logger, httpserver.Config{Addr: c.Listen, Handler: operators.Handler()})
	before := &preflight{
		logger: logger, ledger: books, rdb: rdb, mode: c.Redis.Mode, brokers: c.Kafka,
		topic: kafka.TopicSpec{
			Name: c.TopicOrders, Partitions: c.KafkaPartitions, Replication: c.KafkaReplication,
			MinInsync: cmp.Or(c.KafkaMinInsync, kafka.MinInsync(c.KafkaReplication)),
		},
	}
	// The desk and the loop wait for stores themselves, call by call, so nobody waits for the watch to be ready.
	stores, err := storewatch.New(storewatch.Config{Registerer: registry, Logger: logger}, before.stores(asking)...)
	if err != nil {
		app.end()
		return nil, err
	}
	watching := stores.Component()
	watching.Ready = nil
	app.admin = httpserver.NewAdmin(logger, c.AdminListen, registry, gate.Check(), httpserver.Check{Name: "line", Check: loop.Ready})

	// In the order of the flow: sources first, so that each stops before what it feeds.
	app.components = []lifecycle.Component{
		gate.Component(),
		app.desk.Component("operators"),
		{Name: "admit", Run: loop.Run, StopWithin: c.Deadline + stopSlack},
		watching,
		{Name: "producer", Run: producer.Run, StopWithin: stopSend + stopSlack},
		app.admin.Component("admin"),
	}
	return app, nil
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

// live reads what the desk shows of a line.
func live(room *waitingroom.Room) operator.Live {
	return func(ctx context.Context, p product.ID) (operator.Numbers, error) {
		v, err := room.View(ctx, p)
		return operator.Numbers{Waiting: v.Waiting + v.Away, Active: v.Active, Held: v.Held}, err
	}
}

func bound(room *waitingroom.Room) operator.Bound {
	return func(ctx context.Context, p product.ID, id order.ID) ([]byte, bool, error) {
		intent, found, err := room.IntentOf(ctx, p, id)
		return intent.Command, found, err
	}
}

// lag measures what consumers and relays have still to do. Both settings off: nothing is asked.
func lag(c Config, brokers *kafka.Client, box *outbox.Outbox) admit.Lag {
	g := admit.Lag{
		Records: c.LagRecords, Outbox: c.LagOutbox,
		PartitionOf: func(p product.ID) int { return kafka.Partition([]byte(p), c.KafkaPartitions) },
	}
	if c.LagRecords.High == 0 && c.LagOutbox.High == 0 {
		return g
	}
	g.Measure = func(ctx context.Context) (admit.Behind, error) {
		behind := admit.Behind{Records: make(map[int]int64, c.KafkaPartitions)}
		for partition := range c.KafkaPartitions {
			behind.Records[partition] = 0
		}
		if c.LagRecords.High > 0 {
			// Committed first: what is committed in between counts as behind, and nothing as ahead.
			committed, err := brokers.Committed(ctx, c.ConsumerGroup, c.TopicOrders)
			if err != nil {
				return behind, err
			}
			first, end, err := brokers.Offsets(ctx, c.TopicOrders)
			if err != nil {
				return behind, err
			}
			for partition := range behind.Records {
				behind.Records[partition] = max(0, end[partition]-max(first[partition], committed[partition]))
			}
		}
		if c.LagOutbox.High > 0 {
			backlog, err := box.Backlog(ctx)
			if err != nil {
				return behind, err
			}
			behind.Outbox = backlog.Rows
		}
		return behind, nil
	}
	return g
}
