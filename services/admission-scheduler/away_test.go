package main

import (
	"strings"
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/postgres"
)

// TestStoresAway starts without any store, gets them, and loses them again: the process lives all the while and ends for none of them.
// It is ready from the first look at products and Redis on: then it serves those operators whom a store that answers can serve.
func TestStoresAway(t *testing.T) {
	t.Parallel()
	redis, broker, database := localtest.PrivateRedis(t), localtest.PrivateKafka(t), localtest.PrivatePostgres(t)
	c := settings(t, "HANJUL_SCHEDULER_REDIS_ADDRS="+redis.Addr(), "HANJUL_SCHEDULER_KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","),
		"HANJUL_SCHEDULER_POSTGRES_URL="+database.URL("postgres"))
	if err := kafka.CreateTopics(t.Context(), kafka.Config{Brokers: broker.Addrs()}, []kafka.TopicSpec{{Name: c.TopicOrders, Partitions: partitions}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Migrate(t.Context(), postgres.At(database.URL("postgres"))); err != nil {
		t.Fatal(err)
	}
	away := func() {
		t.Helper()
		redis.Kill()
		database.Kill()
		if err := broker.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	away()
	app, stop := started(t, c)
	if err := app.desk.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	desk, admin := "http://"+app.desk.Addr().String(), "http://"+app.admin.Addr().String()
	up := func(value string) {
		t.Helper()
		get(t, "GET", admin+"/metrics", "", func(_ int, text string) bool {
			for _, store := range []string{"redis", "kafka", "postgres"} {
				if !strings.Contains(text, `hanjul_store_up{store="`+store+`"} `+value+"\n") {
					return false
				}
			}
			return true
		})
	}
	answers := func(path string, want int) {
		t.Helper()
		get(t, "GET", admin+path, "", func(status int, _ string) bool { return status == want })
	}
	up("0")
	answers("/healthz", 200)
	answers("/readyz", 503)
	get(t, "GET", desk+"/v1/products/p", "", func(status int, _ string) bool { return status == 503 })
	back := func() {
		t.Helper()
		if err := redis.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := broker.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := database.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		up("1")
	}
	back()
	answers("/readyz", 200)
	get(t, "PUT", desk+"/v1/products/p", `{"stock":5}`, func(status int, _ string) bool { return status == 201 })
	away()
	up("0")
	answers("/healthz", 200)
	answers("/readyz", 200)
	back()
	get(t, "GET", desk+"/v1/products/p", "", func(status int, _ string) bool { return status == 200 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
