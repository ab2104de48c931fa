package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/telemetry"
)

const partitions = 3

// settings are a scheduler's on the test's own servers; the topic has partitions, whatever more says.
func settings(t *testing.T, more ...string) Config {
	t.Helper()
	redis, topic := localtest.Redis(t), localtest.Topic(t, "orders")
	brokers := kafka.Config{Brokers: localtest.Kafka(t)}
	if err := kafka.CreateTopics(t.Context(), brokers, []kafka.TopicSpec{{Name: topic, Partitions: partitions}}); err != nil {
		t.Fatal(err)
	}
	source := config.NewSource(append(more, environ(
		"HANJUL_SCHEDULER_REDIS_ADDRS="+strings.Join(redis.Addrs, ","), "HANJUL_KEY_PREFIX="+redis.Prefix,
		"HANJUL_SCHEDULER_KAFKA_BROKERS="+strings.Join(brokers.Brokers, ","), "HANJUL_KAFKA_PARTITIONS=3", "HANJUL_TOPIC_ORDERS="+topic,
		"HANJUL_SCHEDULER_POSTGRES_URL="+ledgertest.URL(t), "HANJUL_LISTEN=127.0.0.1:0", "HANJUL_ADMIN_LISTEN=127.0.0.1:0",
	)...), service)
	c := loadConfig(source)
	if err := source.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// started is a process at work; stop asks it to end and gives what it returned.
func started(t *testing.T, c Config) (app *App, stop func() error) {
	t.Helper()
	app, err := newApp(slog.New(slog.DiscardHandler), c, telemetry.NewBuild("", ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	return app, func() error {
		cancel()
		return <-done
	}
}

// get sends a request until fine says that its answer will do.
func get(t *testing.T, method, url, body string, fine func(status int, text string) bool) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	deadline := time.After(90 * time.Second)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer correct-horse-battery")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k-"+r.URL.Path)
		status, text := 0, ""
		if answer, err := client.Do(r); err != nil {
			text = err.Error()
		} else {
			raw, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			status, text = answer.StatusCode, string(raw)
		}
		if fine(status, text) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s %s: %d %s", method, url, status, text)
		}
	}
}

func TestAppFromStartToStop(t *testing.T) {
	t.Parallel()
	c := settings(t)
	app, stop := started(t, c)
	if err := app.desk.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	desk, admin := "http://"+app.desk.Addr().String(), "http://"+app.admin.Addr().String()
	get(t, "GET", admin+"/readyz", "", func(status int, _ string) bool { return status == 200 })
	get(t, "PUT", desk+"/v1/products/p", `{"stock":5}`, func(status int, _ string) bool { return status == 201 })
	get(t, "POST", desk+"/v1/products/p/open", ``, func(status int, _ string) bool { return status == 200 })

	// The line opens by itself and asks for its stock in the product's own partition.
	client, err := kafka.NewClient(c.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fetched := kafka.Fetched{}
	for deadline := time.Now().Add(30 * time.Second); len(fetched.Messages) == 0; {
		fetched, err = client.Fetch(t.Context(), kafka.FetchRequest{Topic: c.TopicOrders, Partition: kafka.Partition([]byte("p"), partitions), MaxWait: time.Second})
		if err != nil || time.Now().After(deadline) {
			t.Fatal("no command was sent", err)
		}
	}
	command, err := order.DecodeCommand(fetched.Messages[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Verify(keyring.Ring{c.KeyCommand}); err != nil || command.Kind != order.KindLoadStock || command.Product != "p" {
		t.Fatal(command, err)
	}

	get(t, "GET", desk+"/v1/products/p", "", func(status int, text string) bool {
		var answer struct {
			Line    *struct{ Waiting, Active, Held int64 }
			LineInc int `json:"line_inc"`
		}
		return status == 200 && json.Unmarshal([]byte(text), &answer) == nil && answer.Line != nil && answer.LineInc == 1
	})
	get(t, "GET", admin+"/metrics", "", func(status int, text string) bool {
		return status == 200 && strings.Contains(text, "hanjul_admit_products 1\n")
	})
	// What operators may do is not on the admin port, and the other way round.
	get(t, "GET", admin+"/v1/products/p", "", func(status int, _ string) bool { return status == 404 })
	get(t, "GET", desk+"/metrics", "", func(status int, _ string) bool { return status == 404 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAppRefusesATopicOfAnotherPartitionCount(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.KafkaPartitions = partitions + 1
	app, err := newApp(slog.New(slog.DiscardHandler), c, telemetry.NewBuild("", ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.TopicOrders) {
		t.Fatal(err)
	}
}

// One broker that dies must not take commands with it.
func TestAppRefusesATopicOfFewerReplicas(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"HANJUL_KAFKA_REPLICATION=2":                            "1 replicas, at least 2 are configured",
		"HANJUL_KAFKA_REPLICATION=3\nHANJUL_KAFKA_MIN_INSYNC=3": "min.insync.replicas is 1, must be at least 3",
	} {
		app, err := newApp(slog.New(slog.DiscardHandler), settings(t, strings.Split(setting, "\n")...), telemetry.NewBuild("", ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatal(setting, err)
		}
	}
}

func TestAppWaitsForServersThatAreAway(t *testing.T) {
	t.Parallel()
	source := config.NewSource(environ("HANJUL_LISTEN=127.0.0.1:0", "HANJUL_ADMIN_LISTEN=127.0.0.1:0"), service)
	c := loadConfig(source)
	if err := source.Err(); err != nil {
		t.Fatal(err)
	}
	app, stop := started(t, c)
	if err := app.desk.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	desk, admin := "http://"+app.desk.Addr().String(), "http://"+app.admin.Addr().String()
	get(t, "GET", admin+"/healthz", "", func(status int, _ string) bool { return status == 200 })
	get(t, "GET", admin+"/readyz", "", func(status int, text string) bool { return status == 503 && strings.Contains(text, "line") })
	get(t, "POST", desk+"/v1/products/p/open", "", func(status int, _ string) bool { return status == 503 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
