package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// ledgerOf connects to a stack's database for the time of the test.
func ledgerOf(t *testing.T, stack *local.Stack) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), stack.Setting("HANJUL_POSTGRES_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// count polls how many orders are judged until there are so many.
func count(t *testing.T, conn *pgx.Conn, least int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var n int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&n); err != nil {
			t.Fatalf("%d orders are not judged yet, last %d: %v", least, n, err)
		}
		if n >= least {
			return
		}
		<-ticker.C
	}
}

// TestConsumersComeAndGo stops, kills and starts consumers again and again while thousands of orders are judged. Each verdict is the one
// of the log's order, as with a single consumer that nobody disturbs, and the books balance.
func TestConsumersComeAndGo(t *testing.T) {
	t.Parallel()
	const (
		each, stock, changes = 750, 500, 8
		total                = 4 * each
	)
	// Products of different partitions, so that every consumer has something to lose.
	var products []product.ID
	taken := map[int]bool{}
	for n := 0; len(products) < 4; n++ {
		id := product.ID(fmt.Sprintf("churn-%d", n))
		if partition := kafka.Partition([]byte(id), local.DefaultPartitions); !taken[partition] {
			taken[partition] = true
			products = append(products, id)
		}
	}
	env, settings := sale.Quick(false)
	env["HANJUL_CONSUMER_BATCH_RECORDS"], env["HANJUL_CONSUMER_WINDOW_RECORDS"] = "10", "40"
	stack := startIn(t, local.StackOptions{DataDir: localtest.Dir(t), PerService: 3, Env: env})
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	settings.OrderTTL = time.Hour
	for _, id := range products {
		if err := sale.Open(t.Context(), target, id, stock, settings); err != nil {
			t.Fatal(err)
		}
	}
	conn := ledgerOf(t, stack)
	if err := sale.Preload(t.Context(), stack, products, each); err != nil {
		t.Fatal(err)
	}
	consumers := stack.Processes(local.Consumer)
	var away *local.Process
	for n := range changes {
		count(t, conn, n*total/(changes+1))
		one := consumers[n%len(consumers)]
		if n%2 == 0 {
			one.Kill()
		} else {
			one.Stop(t.Context())
		}
		if away != nil {
			if err := away.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		away = one
	}
	if err := away.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	count(t, conn, total)

	for i, id := range products {
		rows, err := conn.Query(t.Context(), `SELECT order_id::text FROM orders WHERE product_id = $1 AND status = 'confirmed' ORDER BY seq`, string(id))
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[order.ID])
		if err != nil {
			t.Fatal(err)
		}
		want := make([]order.ID, stock)
		for n := range want {
			want[n] = sale.PreloadedID(i, n)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d are confirmed, and not the first %d of the log", id, len(got), stock)
		}
		if report := auditOf(t, stack, id, ""); !strings.HasSuffix(report, "audit: ok\n") {
			t.Errorf("%s:\n%s", id, report)
		}
	}
}
