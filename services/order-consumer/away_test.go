package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/ledger"
	"hanjul/pkg/postgres"
	"hanjul/pkg/telemetry"
)

// TestStoresAway starts without any store, gets them, and loses them again: the process lives all the while and ends for none of them.
// It is ready when it has a part in the group, which it waits for the stores to join, and only Kafka takes that away.
func TestStoresAway(t *testing.T) {
	t.Parallel()
	redis, broker, database := localtest.PrivateRedis(t), localtest.PrivateKafka(t), localtest.PrivatePostgres(t)
	w := newWorld(t)
	w.redis.Addrs, w.brokers, w.url = []string{redis.Addr()}, broker.Addrs(), database.URL("postgres")
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	if _, err := ledger.Migrate(t.Context(), postgres.At(w.url)); err != nil {
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
	source := config.NewSource(w.environ(), service)
	settings := loadConfig(source)
	if err := source.Err(); err != nil {
		t.Fatal(err)
	}
	app, err := newApp(slog.New(slog.DiscardHandler), settings, telemetry.NewBuild("", ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	defer cancel()
	if err := app.admin.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers := func(path string, code int, texts ...string) {
		t.Helper()
		until(t, path, func() error {
			status, body, err := get(t.Context(), "http://"+app.admin.Addr().String()+path)
			if err == nil && status != code {
				err = fmt.Errorf("%d: %s", status, body)
			}
			for _, text := range texts {
				if err == nil && !strings.Contains(body, text) {
					err = fmt.Errorf("no %q", text)
				}
			}
			return err
		})
	}
	up := func(value string) {
		t.Helper()
		answers("/metrics", http.StatusOK, `hanjul_store_up{store="redis"} `+value+"\n", `hanjul_store_up{store="kafka"} `+value+"\n", `hanjul_store_up{store="postgres"} `+value+"\n")
	}
	up("0")
	answers("/healthz", http.StatusOK)
	answers("/readyz", http.StatusServiceUnavailable)
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
		answers("/readyz", http.StatusOK)
	}
	back()
	redis.Kill()
	database.Kill()
	answers("/metrics", http.StatusOK, `hanjul_store_up{store="redis"} 0`+"\n", `hanjul_store_up{store="kafka"} 1`+"\n", `hanjul_store_up{store="postgres"} 0`+"\n")
	answers("/healthz", http.StatusOK)
	answers("/readyz", http.StatusOK)
	away()
	up("0")
	answers("/healthz", http.StatusOK)
	answers("/readyz", http.StatusServiceUnavailable)
	back()
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
