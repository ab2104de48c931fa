package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"hanjul/pkg/kafka"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/storewatch"
)

// storePatience is how long the start waits for stores that are away. Then the service serves without them: nobody is served better by
// a port that is shut than by an answer that says when to come again. A store that turns out to be wrong later ends the process all the same.
const storePatience = 3 * time.Second

// watch looks at the stores of this service.
func watch(logger *slog.Logger, registry prometheus.Registerer, cfg Config, rdb redis.UniversalClient, asking *kafka.Client) (*storewatch.Watch, error) {
	return storewatch.New(storewatch.Config{Patience: storePatience, Registerer: registry, Logger: logger},
		storewatch.Store{
			Name: "redis",
			Check: func(ctx context.Context) (bool, error) {
				return checkRedis(redisconn.Unguarded(ctx), logger, rdb, cfg.Redis.Mode)
			},
			Ping: func(ctx context.Context) error { return redisconn.Ping(redisconn.Unguarded(ctx), rdb) },
		},
		storewatch.Store{
			Name:  "kafka",
			Check: func(ctx context.Context) (bool, error) { return checkTopics(ctx, logger, cfg) },
			Ping:  asking.Ping,
		},
	)
}

// checkRedis refuses a server that cannot be worked with.
func checkRedis(ctx context.Context, logger *slog.Logger, rdb redis.UniversalClient, mode redisconn.Mode) (away bool, err error) {
	report, err := redisconn.Ready(ctx, rdb, mode)
	for _, warning := range report.Warnings {
		logger.WarnContext(ctx, "redis may lose data", "warning", warning)
	}
	return !errors.Is(err, redisconn.ErrUnfit), err
}

// checkTopics refuses a topic with another partition count, since keys would be placed wrongly, and one with fewer replicas or a
// lower min.insync.replicas than configured, since what was answered with 202 would die with a single broker. Until brokers answer, orders are
// answered as unknown.
func checkTopics(ctx context.Context, logger *slog.Logger, cfg Config) (away bool, err error) {
	if err := kafka.CheckAPIVersions(ctx, cfg.Kafka); err != nil {
		return kafka.Transient(err), err
	}
	warnings, err := kafka.CheckTopics(ctx, cfg.Kafka, []kafka.TopicSpec{{
		Name: cfg.TopicOrders, Partitions: cfg.KafkaPartitions, Replication: cfg.KafkaReplication,
		MinInsync: cmp.Or(cfg.KafkaMinInsync, kafka.MinInsync(cfg.KafkaReplication)),
	}})
	for _, warning := range warnings {
		logger.WarnContext(ctx, "topic setting", "warning", warning.String())
	}
	return kafka.Transient(err), err
}
