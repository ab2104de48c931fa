package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
	"hanjul/services/order-consumer/internal/audit"
)

// auditBooks reads with the service's own settings, so that it looks where the service writes.
func auditBooks(ctx context.Context, e environment, args []string) int {
	options, err := audit.ParseOptions(args, e.stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitUsage
	}
	source := config.NewSource(e.environ, service)
	c := loadConfig(source)
	if err := source.Err(); err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitUsage
	}
	if err := fitsPostgres(ctx, c.Postgres); err != nil {
		return fail(e, exitFailed, err)
	}
	books, err := ledger.Open(ctx, c.Postgres, ledger.Config{
		Pool: postgres.Config{Name: "order-consumer-audit", MaxConns: 2}, Topics: c.Kafka.Topics,
	})
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitFailed
	}
	defer books.Close()
	c.Redis.ClientName = "order-consumer-audit"
	rdb := redisconn.New(redisconn.ClientOptions(c.Redis))
	defer closer(rdb)()
	if err := fitsRedis(ctx, rdb, c.Redis.Mode); err != nil {
		return fail(e, exitFailed, err)
	}
	keys := product.Keyspace{Prefix: c.KeyPrefix}
	err = audit.Run(ctx, audit.Sources{
		Ledger: books, Room: waitingroom.New(rdb, keys), Status: orderstatus.New(rdb, keys, orderstatus.Config{TTL: c.StatusTTL}),
		Kafka: c.Kafka.Client, Group: c.Group, Topics: c.Kafka.Topics, Partitions: c.Kafka.Partitions,
		UserKey: c.UserKey, CommandKeys: c.CommandKeys, Passes: c.Passes,
	}, options, e.stdout)
	if err != nil {
		if !errors.Is(err, audit.ErrBroken) { // Else the report said it.
			_, _ = fmt.Fprintln(e.stderr, err)
		}
		return exitFailed
	}
	return 0
}
