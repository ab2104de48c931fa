package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/telemetry"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/streams"
	"hanjul/services/queue-api/internal/submit"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// build makes an app with the environment's changes; its ports are free ones.
func build(t *testing.T, changes ...string) *app {
	t.Helper()
	source := config.NewSource(environment(append(changes, "HANJUL_LISTEN=127.0.0.1:0", "HANJUL_ADMIN_LISTEN=127.0.0.1:0")...), service)
	cfg := loadConfig(source)
	if err := source.Err(); err != nil {
		t.Fatal(err)
	}
	a, err := newApp(slog.New(slog.DiscardHandler), cfg, telemetry.NewBuild("test", ""))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// orders makes a topic of three partitions on the shared broker and gives the settings that lead there.
func orders(t *testing.T) (brokers, topic string) {
	t.Helper()
	cfg, name := kafka.Config{Brokers: localtest.Kafka(t)}, localtest.Topic(t, "orders")
	if err := kafka.CreateTopics(t.Context(), cfg, []kafka.TopicSpec{{Name: name, Partitions: 3}}); err != nil {
		t.Fatal(err)
	}
	return "HANJUL_KAFKA_BROKERS=" + strings.Join(cfg.Brokers, ","), "HANJUL_TOPIC_ORDERS=" + name
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Hanjul-User", "a")
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestApp runs the whole process but for main on servers of its own, beside another that serves the same product, and stops it.
func TestApp(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	brokers, topic := orders(t)
	a := build(t, "HANJUL_REDIS_ADDRS="+strings.Join(fixture.Addrs, ","), "HANJUL_KEY_PREFIX="+fixture.Prefix,
		brokers, topic, "HANJUL_KAFKA_PARTITIONS=3", "HANJUL_SWEEP_EVERY=10ms")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.server.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	storefront, admin := "http://"+a.server.Addr().String(), "http://"+a.admin.Addr().String()
	apitest.Eventually(t, "ready", func() bool { code, _ := get(t, admin+"/readyz"); return code == http.StatusOK })
	if code, body := get(t, storefront+"/v1/products/shoe/queue"); code != http.StatusServiceUnavailable || !strings.Contains(body, "not-ready") {
		t.Fatal(code, body)
	}
	names := metricNames(t, a)
	for _, name := range []string{httpapi.MetricRequests, httpapi.MetricHopSeconds, submit.MetricSweepOK} {
		if !slices.Contains(names, name) {
			t.Errorf("no %s", name)
		}
	}
	// An order whose status is there, and somebody who waits for it until the process ends.
	owner := product.HashUser(a.cfg.Users, "a")
	id := order.DeriveID(a.cfg.Orders, "shoe", owner, product.MakePlace(1, 1), 1)
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: fixture.Addrs, Timeout: 20 * time.Second}))
	defer func() { _ = rdb.Close() }()
	status := order.Status{Version: order.VersionAccepted, State: order.StateAccepted, Product: "shoe", User: owner, Quantity: 1}
	if _, err := orderstatus.New(rdb, product.Keyspace{Prefix: fixture.Prefix}, orderstatus.Config{}).Put(ctx, id, status); err != nil {
		t.Fatal(err)
	}
	stream := make(chan string, 1)
	go func() {
		_, body := get(t, storefront+"/v1/orders/"+string(id)+"/events")
		stream <- body
	}()
	apitest.Eventually(t, "a stream", func() bool {
		_, body := get(t, admin+"/metrics")
		return strings.Contains(body, streams.MetricOpen+" 1\n")
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if body := <-stream; !strings.Contains(body, `"status":"accepted"`) || !strings.Contains(body, "event: reconnect\n") {
		t.Fatal(body)
	}
}

func metricNames(t *testing.T, a *app) []string {
	t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	return names
}

// TestAppWithoutStores starts and answers when to come again, ready all the while: nobody is served better by a port
// that is shut.
func TestAppWithoutStores(t *testing.T) {
	t.Parallel()
	a := build(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.server.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, "http://"+a.server.Addr().String()+"/v1/products/shoe"); code != http.StatusServiceUnavailable || !strings.Contains(body, "unavailable") {
		t.Fatal(code, body)
	}
	apitest.Eventually(t, "ready", func() bool {
		code, _ := get(t, "http://"+a.admin.Addr().String()+"/readyz")
		return code == http.StatusOK
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestAnotherPartitionCountIsRefused: keys would be placed wrongly.
func TestAnotherPartitionCountIsRefused(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	brokers, topic := orders(t)
	a := build(t, "HANJUL_REDIS_ADDRS="+strings.Join(fixture.Addrs, ","),
		brokers, topic, "HANJUL_KAFKA_PARTITIONS=4")
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "partitions") {
		t.Fatal(err)
	}
}

// TestFewerReplicasAreRefused: an order that was answered with 202 would die with one broker.
func TestFewerReplicasAreRefused(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	brokers, topic := orders(t)
	for setting, want := range map[string]string{
		"HANJUL_KAFKA_REPLICATION=2":                            "1 replicas, at least 2 are configured",
		"HANJUL_KAFKA_REPLICATION=3\nHANJUL_KAFKA_MIN_INSYNC=3": "min.insync.replicas is 1, must be at least 3",
	} {
		a := build(t, append(strings.Split(setting, "\n"), "HANJUL_REDIS_ADDRS="+strings.Join(fixture.Addrs, ","),
			brokers, topic, "HANJUL_KAFKA_PARTITIONS=3")...)
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatal(setting, err)
		}
	}
}

// TestMetrics pins the names that dashboards and docs/operations.md know.
func TestMetrics(t *testing.T) {
	t.Parallel()
	got := []string{
		httpapi.MetricRequests, httpapi.MetricHopSeconds, httpapi.MetricPolls, httpapi.MetricStreamEnds,
		streams.MetricOpen, streams.MetricRefused, streams.MetricChanges,
		submit.MetricSubmits, submit.MetricResent, submit.MetricStoreFaults, submit.MetricSweepOK,
	}
	want := []string{
		"hanjul_api_requests_total", "hanjul_api_hop_seconds", "hanjul_api_polls_total", "hanjul_api_stream_ends_total",
		"hanjul_api_streams", "hanjul_api_streams_refused_total", "hanjul_api_stream_changes_total",
		"hanjul_submit_outcomes_total", "hanjul_submit_resent_total", "hanjul_submit_store_faults_total", "hanjul_submit_sweep_ok",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}
