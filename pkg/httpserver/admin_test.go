package httpserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/httpserver"
)

func TestAdminHandler(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, handler http.Handler, path string) (int, string) {
		t.Helper()
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	holds := httpserver.Check{Name: "kafka", Check: func(context.Context) error { return nil }}
	fails := httpserver.Check{Name: "redis", Check: func(context.Context) error { return errors.New("connection refused") }}

	t.Run("HealthNeverLooksAtAStore", func(t *testing.T) {
		t.Parallel()
		if status, body := ask(t, httpserver.AdminHandler(prometheus.NewRegistry(), fails), "/healthz"); status != 200 || body != "ok\n" {
			t.Fatal(status, body)
		}
	})

	t.Run("ReadyWhenEveryCheckHolds", func(t *testing.T) {
		t.Parallel()
		status, body := ask(t, httpserver.AdminHandler(prometheus.NewRegistry(), holds), "/readyz")
		if status != 200 || body != `{"ready":true,"checks":{"kafka":"ok"}}`+"\n" {
			t.Fatal(status, body)
		}
	})

	t.Run("UnreadySaysWhichFailed", func(t *testing.T) {
		t.Parallel()
		status, body := ask(t, httpserver.AdminHandler(prometheus.NewRegistry(), holds, fails), "/readyz")
		if diff := cmp.Diff(`{"ready":false,"checks":{"kafka":"ok","redis":"connection refused"}}`+"\n", body); status != 503 || diff != "" {
			t.Fatal(status, diff)
		}
	})

	t.Run("MetricsAndProfilesAreThere", func(t *testing.T) {
		t.Parallel()
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "hanjul_test"}))
		handler := httpserver.AdminHandler(registry)
		for path, part := range map[string]string{"/metrics": "hanjul_test 0", "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "test"} {
			if status, body := ask(t, handler, path); status != 200 || !strings.Contains(body, part) {
				t.Fatal(path, status, body)
			}
		}
	})
}

func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := httpserver.NewGate(time.Minute)
		check := gate.Check().Check
		if err := check(t.Context()); !errors.Is(err, httpserver.ErrGate) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- gate.Run(ctx) }()
		synctest.Wait()
		if err := check(t.Context()); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if err := check(t.Context()); !errors.Is(err, httpserver.ErrGate) || len(result) != 0 {
			t.Fatal(err, "the rest must go on while the gate is closed")
		}
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	})
}
