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

// ban puts a person out of the line for an hour.
func ban(t *testing.T, b *apitest.Bundle, p *apitest.Person) {
	t.Helper()
	b.Evict(t, p, time.Now().Add(time.Hour))
}

// counted sums up a counter: what it counted under one label, or all of it where that is empty.
func counted(t *testing.T, b *apitest.Bundle, name, label string) (sum float64) {
	t.Helper()
	families, err := b.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
