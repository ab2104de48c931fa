package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/lifecycle"
	"hanjul/pkg/outbox"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/telemetry"
)

const (
	preflightEvery  = 2 * time.Second
	preflightWithin = 15 * time.Second
)

// preflight looks once at each server this process needs, as soon as it answers, before anything is consumed: a server that is away
// is waited for, one that is set up wrongly ends the process, because nothing good can come of going on.
type preflight struct {
	logger *slog.Logger
	ledger *ledger.Ledger
	box    *outbox.Outbox
	rdb    redis.UniversalClient
	kafka  KafkaConfig
	passed chan struct{}
}

func newPreflight(logger *slog.Logger, l *ledger.Ledger, box *outbox.Outbox, rdb redis.UniversalClient, k KafkaConfig) *preflight {
	return &preflight{logger, l, box, rdb, k, make(chan struct{})}
}

func (p *preflight) component() lifecycle.Component {
	return lifecycle.Component{Name: "preflight", Run: p.run, Ready: p.ready}
}

// ready waits until every check has passed.
func (p *preflight) ready(ctx context.Context) error {
	select {
	case <-p.passed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run checks until every check has passed, then waits for the end of ctx.
func (p *preflight) run(ctx context.Context) error {
	repeats := telemetry.NewRepeats(p.logger, 30*time.Second)
	checks := []func(context.Context) (waits bool, err error){p.postgres, p.redis, p.versions, p.topics}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for len(checks) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		left := checks[:0]
		for _, check := range checks {
			within, cancel := context.WithTimeout(ctx, preflightWithin)
			waits, err := check(within)
			cancel()
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return nil
			case !waits:
				return err
			default:
				repeats.Warn(ctx, "a server does not answer yet", slog.Any("err", err))
				left = append(left, check)
			}
		}
		checks = left
		timer.Reset(preflightEvery)
	}
	close(p.passed)
	<-ctx.Done()
	return nil
}

func (p *preflight) postgres(ctx context.Context) (bool, error) {
	err := p.ledger.CheckSchema(ctx)
	if err == nil {
		err = p.box.CheckDirect(ctx)
	}
	return errors.Is(err, ledger.ErrTransient) || errors.Is(err, context.DeadlineExceeded), err
}

func (p *preflight) redis(ctx context.Context) (bool, error) {
	report, err := redisconn.Ready(ctx, p.rdb)
	for _, warning := range report.Warnings {
		p.logger.LogAttrs(ctx, slog.LevelWarn, "redis may lose data", slog.String("warning", warning))
	}
	return !errors.Is(err, redisconn.ErrVersion), err
}

func (p *preflight) versions(ctx context.Context) (bool, error) {
	err := kafka.CheckAPIVersions(ctx, p.kafka.Client)
	return kafka.Transient(err), err
}

func (p *preflight) topics(ctx context.Context) (bool, error) {
	warnings, err := kafka.CheckTopics(ctx, p.kafka.Client, p.kafka.specs())
	for _, warning := range warnings {
		p.logger.LogAttrs(ctx, slog.LevelWarn, "topic not as expected", slog.String("warning", warning.String()))
	}
	// A topic that is missing is still being made.
	return kafka.Transient(err) || errors.Is(err, kafka.ErrNoTopic), err
}
