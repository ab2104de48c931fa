package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/apitest"
)

const (
	calls   = 4_000 // of each kind; every call is another person's
	callers = 128   // at once, each with a connection of its own
)

// BenchmarkAccept is joining a line and ordering with a pass, over HTTP on the loopback, each beside the same router answering a
// constant to the same requests.
func BenchmarkAccept(b *testing.B) {
	for range b.N {
		shop := apitest.New(b, apitest.Options{Stock: 2 * calls, Settings: func(s *product.Settings) { s.InflightMax = 2 * calls }})
		people := make([]*apitest.Person, calls)
		for i := range people {
			people[i] = shop.Person(product.UserID(fmt.Sprintf("user-%d", i)))
		}
		path := "/v1/products/" + string(shop.Product)
		beside(b, "join", shop.Handler, path+"/queue", "", http.StatusCreated, people)
		for _, p := range people { // they are admitted, and hold passes
			shop.Admit(b, 500)
			p.Join(b)
			p.Poll(b)
			if p.Pass == "" {
				b.Fatalf("%s holds no pass", p.User)
			}
		}
		beside(b, "order-accept", shop.Handler, path+"/orders", `{"quantity":1}`, http.StatusAccepted, people)
	}
}

// beside prints the line of a benchmark.
func beside(b *testing.B, name string, handler http.Handler, path, body string, want int, people []*apitest.Person) {
	b.Helper()
	constant := chi.NewRouter()
	constant.Post("/v1/products/{product}/*", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(want)
		_, _ = io.WriteString(w, `{"status":"waiting"}`)
	})
	ceiling := rate(b, constant, path, body, want, people)
	ops := rate(b, handler, path, body, want, people)
	b.ReportMetric(ops/ceiling, name+"-ratio")
	fmt.Printf("bench %s: %.0f ops/s, ceiling %.0f ops/s, ratio %.2f\n", name, ops, ceiling, ops/ceiling)
}

// rate makes one call for each person and returns calls per second.
func rate(b *testing.B, handler http.Handler, path, body string, want int, people []*apitest.Person) float64 {
	b.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
	for range callers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(people)); i = next.Add(1) - 1 {
				if status, err := call(b, client, server.URL+path, body, people[i]); err != nil || status != want {
					b.Errorf("%s: %d, %v; want %d", path, status, err, want)
					return
				}
			}
		})
	}
	group.Wait()
	return float64(len(people)) / time.Since(begun).Seconds()
}

func call(b *testing.B, client *http.Client, url, body string, person *apitest.Person) (int, error) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range person.Header() {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := response.Body.Close(); err != nil {
		return 0, err
	}
	return response.StatusCode, err
}
