package httpapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/services/queue-api/internal/apitest"
)

// privateRedis is a Redis that a test may empty and pause.
type privateRedis struct {
	addrs  []string
	pause  func() error
	resume func() error
}

func ownRedis(t *testing.T) privateRedis {
	t.Helper()
	server := localtest.PrivateRedis(t)
	return privateRedis{[]string{server.Addr()}, server.Pause, server.Resume}
}

// flush makes it lose everything.
func (r privateRedis) flush(t *testing.T) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: r.addrs[0]})
	defer func() { _ = rdb.Close() }()
	if err := rdb.FlushAll(context.WithoutCancel(t.Context())).Err(); err != nil {
		t.Fatal(err)
	}
}

// ban writes a ban of an hour as the scheduler does.
func ban(t *testing.T, b *apitest.Bundle, p *apitest.Person) {
	t.Helper()
	until := time.Now().Add(time.Hour).UnixMilli()
	if err := b.Redis.HSet(t.Context(), b.Names.Product(b.Product).Bans, string(p.Hash()), until).Err(); err != nil {
		t.Fatal(err)
	}
}
