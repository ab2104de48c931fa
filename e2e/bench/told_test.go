package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

// toldStreams is how many of the buyers of BenchmarkVerdictTold wait on a stream.
const toldStreams = 500

// toldRate is how many orders a second arrive where they do not all wait already.
const toldRate = 1_000

// BenchmarkVerdictTold is the way of a verdict from the ledger to the person: some of those who order hold a stream open, and for each of
// them the time from the judge transaction's own clock, read before its commit, to the line's arrival is taken. Once orders arrive
// steadily, which is what the aim of a p99 below 250 ms is for, and once all of them wait in the log when the consumer starts, which then
// works with full batches and without a pause.
func BenchmarkVerdictTold(b *testing.B) {
	stack := start(b, build(b))
	for n := range b.N {
		told(b, flow{stack: stack, first: 2 * n, ids: []product.ID{product.ID(fmt.Sprintf("steady-%d", n))}, each: hotOrders}, "steady")
		told(b, flow{stack: stack, first: 2*n + 1, ids: []product.ID{product.ID(fmt.Sprintf("burst-%d", n))}, each: hotOrders}, "burst")
	}
}

func told(b *testing.B, f flow, kind string) {
	b.Helper()
	f.open(b)
	consumer := f.stack.Processes(local.Consumer)[0]
	records, passes := f.sign(b)
	if kind == "burst" {
		consumer.Stop(b.Context())
		f.send(b, records, 0)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	arrived := make(map[string]time.Time, toldStreams)
	var (
		mu          sync.Mutex
		open, ended sync.WaitGroup
	)
	for n := 0; n < hotOrders; n += hotOrders / toldStreams {
		order := string(sale.PreloadedID(f.first, n))
		open.Add(1)
		ended.Go(func() {
			var once sync.Once
			defer once.Do(open.Done)
			at, err := verdict(ctx, f.stack.APIs()[0], order, string(sale.PreloadedUser(n)), passes[n], func() { once.Do(open.Done) })
			if err != nil {
				b.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			arrived[order] = at
		})
	}
	open.Wait()
	if kind == "burst" {
		if err := consumer.Restart(b.Context()); err != nil {
			b.Fatal(err)
		}
	} else {
		f.send(b, records, toldRate)
	}
	ended.Wait()
	var took []time.Duration
	for order, at := range judged(b, f.stack.Setting("HANJUL_POSTGRES_URL"), f.ids[0]) {
		if came, found := arrived[order]; found {
			took = append(took, came.Sub(at))
		}
	}
	if len(took) != toldStreams {
		b.Fatalf("%d of %d verdicts were told", len(took), toldStreams)
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	b.ReportMetric(float64(p99.Milliseconds()), kind+"-p99-ms")
	fmt.Printf("bench verdict-told-%s: %d streams, p50 %s, p99 %s, aim 250ms\n", kind, len(took), p50.Round(time.Millisecond), p99.Round(time.Millisecond))
}

// verdict waits on a stream and returns when the judged status arrived; opened is called when the stream is open.
func verdict(ctx context.Context, base, order, user, pass string, opened func()) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/orders/"+order+"/events", nil)
	if err != nil {
		return time.Time{}, err
	}
	request.Header.Set("Hanjul-User", user)
	request.Header.Set("Hanjul-Pass", pass)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return time.Time{}, fmt.Errorf("stream of %s: %s", order, response.Status)
	}
	opened()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "id: 2") {
			return time.Now(), nil
		}
	}
	return time.Time{}, fmt.Errorf("stream of %s ended without a verdict", order)
}

// judged reads when each order was judged.
func judged(b *testing.B, url string, id product.ID) map[string]time.Time {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	rows, err := conn.Query(b.Context(), `SELECT order_id::text, judged_at FROM orders WHERE product_id = $1`, string(id))
	if err != nil {
		b.Fatal(err)
	}
	all := make(map[string]time.Time)
	var (
		order string
		at    time.Time
	)
	if _, err := pgx.ForEachRow(rows, []any{&order, &at}, func() error { all[order] = at; return nil }); err != nil {
		b.Fatal(err)
	}
	return all
}
