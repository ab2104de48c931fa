package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
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
	"hanjul/services/queue-api/internal/httpapi"
	"hanjul/services/queue-api/internal/live"
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
		beside(b, "join", shop, asked{http.MethodPost, path + "/queue", "", http.StatusCreated, 0.6, 1}, people[:calls])
		for _, p := range people { // they are admitted, and hold passes
			p.Join(b)
			shop.Admit(b, 500)
			p.Poll(b)
			if p.Pass == "" {
				b.Fatalf("%s holds no pass", p.User)
			}
		}
		most := beside(b, "order-accept", shop, asked{http.MethodPost, path + "/orders", `{"quantity":1}`, http.StatusAccepted, 0.4, 1}, people[:calls])
		atPace(b, shop.Handler, path+"/orders", most/2, people[calls:])
	}
}

// BenchmarkPoll is the status poll of people who wait, all over the line, beside the same router answering a constant to the same
// requests; a long line must cost what a short one does.
func BenchmarkPoll(b *testing.B) {
	for range b.N {
		for _, waiting := range []int{1_000, 100_000} {
			pollAt(b, waiting)
		}
	}
}

func pollAt(b *testing.B, waiting int) {
	b.Helper()
	shop := apitest.New(b, apitest.Options{
		Live:    live.Config{Every: 250 * time.Millisecond}, // as the service has it
		Surface: func(c *httpapi.Config) { c.PollExcess = 1000 },
	})
	people := make([]*apitest.Person, min(calls, waiting))
	var group sync.WaitGroup
	var next atomic.Int64
	for range callers { // every so many-th of those who join is one of the people who poll
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(waiting); i = next.Add(1) - 1 {
				person := shop.Person(product.UserID(fmt.Sprintf("user-%d", i)))
				if each := int64(waiting / len(people)); i%each == 0 && i/each < int64(len(people)) {
					person.Join(b)
					people[i/each] = person
				} else if _, err := shop.Room.Join(b.Context(), shop.Product, person.Hash(), nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	for len(people) < calls { // of a short line everybody polls more than once
		people = append(people, people[:min(len(people), calls-len(people))]...)
	}
	if a := people[0].Poll(b); a.Text("status") != "waiting" { // the snapshot is read
		b.Fatal(a)
	}
	count := &counter{}
	shop.Redis.AddHook(count)
	const rounds = 7
	beside(b, fmt.Sprintf("poll-%d", waiting), shop, asked{http.MethodGet, "/v1/products/" + string(shop.Product) + "/queue", "", http.StatusOK, 0.9, rounds}, people)
	request, response := bytesOf(b, shop, people[len(people)/2])
	fmt.Printf("bench poll-%d-bytes: %d sent by the caller, %d answered, heads included\n", waiting, request, response)
	fmt.Printf("bench poll-%d-redis: %.1f commands for 1,000 polls, aim 5\n", waiting, float64(count.n.Load())*1000/float64(rounds*len(people)))
}

// bytesOf is what a poll and its answer take on the wire, as HTTP/1.1 without TLS.
func bytesOf(b *testing.B, shop *apitest.Bundle, person *apitest.Person) (sent, answered int) {
	b.Helper()
	server := httptest.NewServer(shop.Handler)
	defer server.Close()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/v1/products/"+string(shop.Product)+"/queue", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range person.Header() {
		request.Header.Set(name, value)
	}
	head, err := httputil.DumpRequestOut(request, false)
	if err != nil {
		b.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	text, err := httputil.DumpResponse(response, true)
	if err != nil {
		b.Fatal(err)
	}
	return len(head), len(text)
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
				if status, err := call(b, client, http.MethodPost, server.URL+path, `{"quantity":1}`, people[i]); err != nil || status != http.StatusAccepted {
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

// asked is what a benchmark calls, and what it wants answered.
type asked struct {
	method, path, body string
	want               int
	aim                float64 // least ratio of calls per second
	rounds             int     // for calls that may be repeated; their medians are told
}

// beside prints the line of a benchmark, and one of the processor time that a call takes, which a busy machine changes less. Each
// round is the constant answer, then ours. It returns the calls per second.
func beside(b *testing.B, name string, shop *apitest.Bundle, a asked, people []*apitest.Person) float64 {
	b.Helper()
	constant := chi.NewRouter()
	constant.Method(a.method, "/v1/products/{product}/*", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.want)
		_, _ = io.WriteString(w, `{"status":"waiting"}`)
	}))
	var ceilings, rates, ratios, bare, own, redis []float64
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(len(people)) }
	for range max(1, a.rounds) {
		before, _ := spent(b, shop)
		ceiling := rate(b, constant, a, people)
		between, stored := spent(b, shop)
		ops := rate(b, shop.Handler, a, people)
		after, storedAfter := spent(b, shop)
		ceilings, rates, ratios = append(ceilings, ceiling), append(rates, ops), append(ratios, ops/ceiling)
		bare, own, redis = append(bare, each(between-before)), append(own, each(after-between)), append(redis, each(storedAfter-stored))
	}
	b.ReportMetric(median(ratios), name+"-ratio")
	fmt.Printf("bench %s: %.0f ops/s, ceiling %.0f ops/s, ratio %.2f, aim %.1f\n", name, median(rates), median(ceilings), median(ratios), a.aim)
	fmt.Printf("bench %s-processor: callers and queue-api %.0f us, Redis %.0f us, ceiling %.0f us for each call, ratio %.2f\n", name,
		median(own), median(redis), median(bare), median(bare)/(median(own)+median(redis)))
	return median(rates)
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// rate makes one call for each person and returns calls per second.
func rate(b *testing.B, handler http.Handler, a asked, people []*apitest.Person) float64 {
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
				if status, err := call(b, client, a.method, server.URL+a.path, a.body, people[i]); err != nil || status != a.want {
					b.Errorf("%s: %d, %v; want %d", a.path, status, err, a.want)
					return
				}
			}
		})
	}
	group.Wait()
	return float64(len(people)) / time.Since(begun).Seconds()
}

func call(b *testing.B, client *http.Client, method, url, body string, person *apitest.Person) (int, error) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
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
