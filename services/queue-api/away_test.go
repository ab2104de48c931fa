package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/services/queue-api/internal/apitest"
)

// TestStoresAway starts without Redis and Kafka, gets them, and loses them again: the process lives and is ready all the while, calls
// are answered with when to come again, and a metric says which store is away.
func TestStoresAway(t *testing.T) {
	t.Parallel()
	redis, broker := localtest.PrivateRedis(t), localtest.PrivateKafka(t)
	cfg, topic := kafka.Config{Brokers: broker.Addrs()}, localtest.Topic(t, "orders")
	if err := kafka.CreateTopics(t.Context(), cfg, []kafka.TopicSpec{{Name: topic, Partitions: 3}}); err != nil {
		t.Fatal(err)
	}
	a := build(t, "HANJUL_REDIS_ADDRS="+redis.Addr(), "HANJUL_KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","),
		"HANJUL_TOPIC_ORDERS="+topic, "HANJUL_KAFKA_PARTITIONS=3", "HANJUL_SWEEP_EVERY=10ms")
	away := func() {
		t.Helper()
		redis.Kill()
		if err := broker.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	away()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.admin.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	admin := "http://" + a.admin.Addr().String()
	lives := func() {
		t.Helper()
		if code, body := get(t, admin+"/healthz"); code != http.StatusOK {
			t.Fatal(code, body)
		}
	}
	up := func(store, value string) {
		t.Helper()
		apitest.Eventually(t, store+" is "+value, func() bool {
			_, body := get(t, admin+"/metrics")
			return strings.Contains(body, `hanjul_store_up{store="`+store+`"} `+value+"\n")
		})
	}
	ready := func() {
		t.Helper()
		if code, body := get(t, admin+"/readyz"); code != http.StatusOK {
			t.Fatal(code, body)
		}
	}
	lives() // before it serves
	if err := a.server.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	storefront := "http://" + a.server.Addr().String() + "/v1/products/shoe"
	apitest.Eventually(t, "ready", func() bool { code, _ := get(t, admin+"/readyz"); return code == http.StatusOK })
	up("redis", "0")
	up("kafka", "0")
	if code, body := get(t, storefront); code != http.StatusServiceUnavailable || !strings.Contains(body, "unavailable") {
		t.Fatal(code, body)
	}
	back := func() {
		t.Helper()
		if err := redis.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := broker.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		up("redis", "1")
		up("kafka", "1")
	}
	back()
	apitest.Eventually(t, "an answer of Redis", func() bool {
		code, body := get(t, storefront)
		return code == http.StatusServiceUnavailable && strings.Contains(body, "not-ready")
	})
	lives()
	ready()
	away()
	up("redis", "0")
	up("kafka", "0")
	lives()
	ready()
	back()
	ready()
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
