package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/apitest"
)

const (
	calls   = 4_000 // of each kind; every call is another person's
	paced   = 1_000 // orders at half of the most that were taken, for their latency
	callers = 128   // at once, each with a connection of its own
)

// BenchmarkAccept is joining a line and ordering with a pass, over HTTP on the loopback, each beside the same router answering a
// constant to the same requests.
func BenchmarkAccept(b *testing.B) {
	for range b.N {
		shop := apitest.New(b, apitest.Options{Stock: 2 * calls, Settings: func(s *product.Settings) { s.InflightMax = 2 * calls }})
		people := make([]*apitest.Person, calls+paced)
		for i := range people {
			people[i] = shop.Person(product.UserID(fmt.Sprintf("user-%d", i)))
		}
		path := "/v1/products/" + string(shop.Product)
		beside(b, "join", shop, path+"/queue", "", http.StatusCreated, people[:calls])
		for _, p := range people { // they are admitted, and hold passes
			p.Join(b)
			shop.Admit(b, 500)
			p.Poll(b)
			if p.Pass == "" {
				b.Fatalf("%s holds no pass", p.User)
			}
		}
		most := beside(b, "order-accept", shop, path+"/orders", `{"quantity":1}`, http.StatusAccepted, people[:calls])
		atPace(b, shop.Handler, path+"/orders", most/2, people[calls:])
	}
}

// atPace prints the latency of orders that come at a pace, each counted from the moment at which it was to be sent.
func atPace(b *testing.B, handler http.Handler, path string, pace float64, people []*apitest.Person) {
	b.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	took := make([]time.Duration, len(people))
	var next atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
	for range callers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(people)); i = next.Add(1) - 1 {
				due := begun.Add(time.Duration(float64(i) / pace * float64(time.Second)))
				<-time.After(time.Until(due))
				if status, err := call(b, client, server.URL+path, `{"quantity":1}`, people[i]); err != nil || status != http.StatusAccepted {
					b.Errorf("%s: %d, %v", path, status, err)
					return
				}
				took[i] = time.Since(due)
			}
		})
	}
	group.Wait()
	slices.Sort(took)
	fmt.Printf("bench order-accept-at-half: %.0f ops/s, p50 %.1f ms, p99 %.1f ms, aim 25 ms\n", pace,
		float64(took[len(took)/2].Microseconds())/1000, float64(took[len(took)*99/100].Microseconds())/1000)
}

// spent is the processor time of this process, in which callers and queue-api are, and of Redis.
func spent(b *testing.B, shop *apitest.Bundle) (own, store time.Duration) {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	text, err := shop.Redis.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && (name == "used_cpu_sys" || name == "used_cpu_user") {
			store += time.Duration(seconds * float64(time.Second))
		}
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), store
}

// beside prints the line of a benchmark, and one of the processor time that a call takes, which a busy machine changes less. It
// returns the calls per second.
func beside(b *testing.B, name string, shop *apitest.Bundle, path, body string, want int, people []*apitest.Person) float64 {
	b.Helper()
	constant := chi.NewRouter()
	constant.Post("/v1/products/{product}/*", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(want)
		_, _ = io.WriteString(w, `{"status":"waiting"}`)
	})
	before, _ := spent(b, shop)
	ceiling := rate(b, constant, path, body, want, people)
	between, stored := spent(b, shop)
	ops := rate(b, shop.Handler, path, body, want, people)
	after, storedAfter := spent(b, shop)
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(len(people)) }
	b.ReportMetric(ops/ceiling, name+"-ratio")
	fmt.Printf("bench %s: %.0f ops/s, ceiling %.0f ops/s, ratio %.2f\n", name, ops, ceiling, ops/ceiling)
	fmt.Printf("bench %s-processor: callers and queue-api %.0f us, Redis %.0f us, ceiling %.0f us for each call\n", name,
		each(after-between), each(storedAfter-stored), each(between-before))
	return ops
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
