package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/storewatch"
)

// preflight looks at each server this process needs: one that is away is waited for, one that is set up wrongly ends the process.
type preflight struct {
	logger  *slog.Logger
	ledger  *ledger.Ledger
	rdb     redis.UniversalClient
	mode    redisconn.Mode
	brokers kafka.Config
	topic   kafka.TopicSpec
}

// stores are the servers, as the watch looks at them.
func (p *preflight) stores(asking *kafka.Client) []storewatch.Store {
	return []storewatch.Store{
		{Name: "postgres", Check: p.postgres, Ping: p.ledger.CheckSchema},
		{Name: "redis", Check: p.redis, Ping: func(ctx context.Context) error { return redisconn.Ping(ctx, p.rdb) }},
		{Name: "kafka", Check: p.kafka, Ping: asking.Ping},
	}
}

func (p *preflight) postgres(ctx context.Context) (bool, error) {
	err := p.ledger.CheckSchema(ctx)
	return errors.Is(err, ledger.ErrTransient) || errors.Is(err, context.DeadlineExceeded), err
}

func (p *preflight) redis(ctx context.Context) (bool, error) {
	report, err := redisconn.Ready(ctx, p.rdb, p.mode)
	for _, warning := range report.Warnings {
		p.logger.LogAttrs(ctx, slog.LevelWarn, "redis may lose data", slog.String("warning", warning))
	}
	return !errors.Is(err, redisconn.ErrUnfit), err
}

func (p *preflight) kafka(ctx context.Context) (bool, error) {
	if err := kafka.CheckAPIVersions(ctx, p.brokers); err != nil {
		return kafka.Transient(err), err
	}
	warnings, err := kafka.CheckTopics(ctx, p.brokers, []kafka.TopicSpec{p.topic})
	for _, warning := range warnings {
		p.logger.LogAttrs(ctx, slog.LevelWarn, "topic not as expected", slog.String("warning", warning.String()))
	}
	// A topic that is missing is still being made.
	return kafka.Transient(err) || errors.Is(err, kafka.ErrNoTopic), err
}
