package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/streams"
)

// TestStop stops one of two processes. It turns callers away before it stops serving; whoever waits on a stream there is told to come again,
// each at another time, and goes on at the other process behind the last event that was seen: nothing is missed, though the verdict fell
// into the moment when nobody listened.
func TestStop(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	brokers, topic := orders(t)
	serve := func(drain string) (storefront, admin string, stop func(), ended chan error) {
		t.Helper()
		a := build(t, "HANJUL_REDIS_ADDRS="+strings.Join(fixture.Addrs, ","), "HANJUL_KEY_PREFIX="+fixture.Prefix,
			brokers, topic, "HANJUL_KAFKA_PARTITIONS=3", "HANJUL_API_READY_DRAIN="+drain)
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		ended = make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		if err := a.server.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return "http://" + a.server.Addr().String(), "http://" + a.admin.Addr().String(), cancel, ended
	}
	first, admin, stop, ended := serve("10s")
	second, _, stopSecond, endedSecond := serve("0s")

	keys := build(t)
	owner := product.HashUser(keys.cfg.Users, "a")
	id := order.DeriveID(keys.cfg.Orders, "shoe", owner, product.MakePlace(1, 1), 1)
	keys.end()
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: fixture.Addrs, Timeout: 20 * time.Second}))
	defer func() { _ = rdb.Close() }()
	statuses := orderstatus.New(rdb, product.Keyspace{Prefix: fixture.Prefix}, orderstatus.Config{})
	put := func(version int, state order.State) {
		t.Helper()
		status := order.Status{Version: version, State: state, Product: "shoe", User: owner, Quantity: 1}
		if _, err := statuses.Put(t.Context(), id, status); err != nil {
			t.Fatal(err)
		}
	}
	put(order.VersionAccepted, order.StateAccepted)

	const watchers = 6
	told := make(chan string, watchers)
	for range watchers {
		go func() { told <- readStream(t, first, id, "") }()
	}
	apitest.Eventually(t, "streams", func() bool {
		_, body := get(t, admin+"/metrics")
		return strings.Contains(body, streams.MetricOpen+" 6\n")
	})
	stop()
	apitest.Eventually(t, "turned away", func() bool { code, _ := get(t, admin+"/readyz"); return code == http.StatusServiceUnavailable })
	if code, body := get(t, first+"/v1/products/shoe"); !strings.Contains(body, "not-ready") {
		t.Fatal("not served while callers are turned away:", code, body)
	}
	pauses := map[string]bool{}
	for range watchers {
		text := <-told
		said := regexp.MustCompile(`\nretry: (\d+)\nevent: reconnect\ndata: \{"retry_ms":(\d+)\}\n`).FindStringSubmatch(text)
		if !strings.Contains(text, "id: 1\nevent: order\n") || said == nil || said[1] != said[2] {
			t.Fatal(text)
		}
		pauses[said[1]] = true
	}
	if len(pauses) < 2 {
		t.Fatal("all come again at the same time:", pauses)
	}
	put(order.VersionVerdict, order.StateConfirmed)
	if text := readStream(t, second, id, "1"); strings.Contains(text, "id: 1\n") || !strings.Contains(text, "id: 2\nevent: order\n") || !strings.Contains(text, `"status":"confirmed"`) || !strings.Contains(text, "event: end\n") {
		t.Fatal(text)
	}
	stopSecond()
	for _, ended := range []chan error{ended, endedSecond} {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// TestStopWithALine: who reads a stream in line is told to come again, too, before the process is gone: nobody else waits for connections that
// are not the server's.
func TestStopWithALine(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	brokers, topic := orders(t)
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: fixture.Addrs, Timeout: 20 * time.Second}))
	defer func() { _ = rdb.Close() }()
	settings := product.DefaultSettings()
	settings.State = product.Open
	room := waitingroom.New(rdb, product.Keyspace{Prefix: fixture.Prefix})
	for _, err := range []error{
		room.PutCatalogue(t.Context(), []product.ID{"shoe"}),
		room.RestoreBegin(t.Context(), "shoe", "nonce"),
		room.RestoreCommit(t.Context(), "shoe", "nonce", waitingroom.LineSettings{Settings: settings, V: 1, OpenedUS: time.Now().UnixMicro()}, 1, 0, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := build(t, "HANJUL_REDIS_ADDRS="+strings.Join(fixture.Addrs, ","), "HANJUL_KEY_PREFIX="+fixture.Prefix, brokers, topic, "HANJUL_KAFKA_PARTITIONS=3")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.server.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	base := "http://" + a.server.Addr().String()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/products/shoe/queue", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Hanjul-User", "a")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	var joined struct {
		StreamURL string `json:"stream_url"`
	}
	err = json.NewDecoder(response.Body).Decode(&joined)
	if err := errors.Join(err, response.Body.Close()); err != nil || joined.StreamURL == "" {
		t.Fatal(response.Status, joined, err)
	}
	events, socket := apitest.WatchLine(t, base, joined.StreamURL, ""), apitest.WatchLineBySocket(t, base, joined.StreamURL, "")
	for _, s := range []*apitest.Stream{events, socket} {
		if e := s.Next(t); e.Data["status"] != "waiting" {
			t.Fatal(e)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, s := range []*apitest.Stream{events, socket} {
		e := s.Next(t)
		for e.Name == "standing" { // whatever changed meanwhile
			e = s.Next(t)
		}
		if e.Name != "reconnect" {
			t.Fatal(e)
		}
		s.End(t)
	}
}

// readStream reads a stream to its end.
func readStream(t *testing.T, storefront string, id order.ID, seen string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, storefront+"/v1/orders/"+string(id)+"/events", nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	request.Header.Set("Hanjul-User", "a")
	if seen != "" {
		request.Header.Set("Last-Event-ID", seen)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}
