package httpserver_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hanjul/pkg/httpserver"
	"hanjul/pkg/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// running is a server that runs; stop asks it to stop and returns what Run did.
type running struct {
	url  string
	stop func() error
}

func start(t *testing.T, server *httpserver.Server) running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- server.Run(ctx) }()
	if server.Ready(t.Context()) != nil {
		t.Fatal("not ready")
	}
	stop := func() error {
		cancel()
		err := <-result
		result <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return running{url: "http://" + server.Addr().String(), stop: stop}
}

// get fetches a page over a connection of its own.
func get(t *testing.T, url string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func TestServer(t *testing.T) {
	t.Parallel()

	t.Run("AFreePortIsToldWhenReady", func(t *testing.T) {
		t.Parallel()
		server := httpserver.New(quiet(), httpserver.Config{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler()})
		if server.Addr() != nil {
			t.Fatal(server.Addr())
		}
		r := start(t, server)
		if status, _, err := get(t, r.url); err != nil || status != http.StatusNotFound {
			t.Fatal(status, err)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("ARequestInHandIsFinishedAndNoneIsTaken", func(t *testing.T) {
		t.Parallel()
		entered, leave := make(chan struct{}), make(chan struct{})
		r := start(t, httpserver.New(quiet(), httpserver.Config{
			Addr: "127.0.0.1:0",
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/slow" {
					return
				}
				close(entered)
				<-leave
				if r.Context().Err() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}),
		}))
		answered := make(chan int, 1)
		go func() {
			status, _, _ := get(t, r.url+"/slow")
			answered <- status
		}()
		<-entered
		stopped := make(chan error, 1)
		go func() { stopped <- r.stop() }()
		for { // until the listener is closed
			if _, _, err := get(t, r.url); err != nil {
				break
			}
		}
		close(leave)
		if status := <-answered; status != http.StatusOK {
			t.Fatal(status)
		}
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
	})

	t.Run("ARequestThatNeverEndsIsCut", func(t *testing.T) {
		t.Parallel()
		entered := make(chan struct{})
		r := start(t, httpserver.New(quiet(), httpserver.Config{
			Addr:  "127.0.0.1:0",
			Drain: time.Nanosecond,
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
			}),
		}))
		answered := make(chan error, 1)
		go func() {
			_, _, err := get(t, r.url)
			answered <- err
		}()
		<-entered
		if err := r.stop(); !errors.Is(err, httpserver.ErrCut) {
			t.Fatal(err)
		}
		if err := <-answered; err == nil {
			t.Fatal("an answer")
		}
	})

	t.Run("AnAddressInUseIsAnErrorWithTheAddress", func(t *testing.T) {
		t.Parallel()
		first := httpserver.New(quiet(), httpserver.Config{Addr: "127.0.0.1:0", Handler: http.NotFoundHandler()})
		start(t, first)
		addr := first.Addr().String()
		second := httpserver.New(quiet(), httpserver.Config{Addr: addr, Handler: http.NotFoundHandler()})
		err := lifecycle.Run(t.Context(), quiet(), second.Component("second"))
		if err == nil || !strings.Contains(err.Error(), "second: listen on "+addr) {
			t.Fatal(err)
		}
	})
}
