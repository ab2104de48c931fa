package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/ledger"
	"hanjul/pkg/postgres"
	"hanjul/pkg/redisconn"
)

// fitsPostgres looks for a subcommand, before it reads, whether a server and a schema are there that it can work with, so that it names the remedy
// instead of a table that is missing, or of nothing found. One that is read-only will do for reading.
func fitsPostgres(ctx context.Context, address postgres.Address) error {
	books, err := ledger.Open(ctx, address, ledger.Config{Pool: postgres.Config{Name: "order-consumer-look", MaxConns: 1}})
	if err != nil {
		return err
	}
	defer books.Close()
	if err := books.CheckSchema(ctx); !errors.Is(err, postgres.ErrReadOnly) {
		return err
	}
	return nil
}

// fitsRedis is the same for Redis. What passes by waiting is left to whoever calls it next.
func fitsRedis(ctx context.Context, rdb redis.UniversalClient, mode redisconn.Mode) error {
	if _, err := redisconn.Ready(ctx, rdb, mode); errors.Is(err, redisconn.ErrUnfit) {
		return err
	}
	return nil
}
