package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/kafka"
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
	until(ctx, t, fmt.Sprintf("%d orders are judged", least), func() (bool, error) {
		n, err := judged(ctx, conn)
		return n >= least, err
	})
}

func judged(ctx context.Context, conn *pgx.Conn) (n int, err error) {
	err = conn.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&n)
	return n, err
}

// churnOrders asks for the long form of TestConsumersComeAndGo, of so many orders; `make churn` does.
const churnOrders = "HANJUL_CHURN_ORDERS"

// TestConsumersComeAndGo stops, kills and starts consumers again and again while many orders are judged: eight times in all, or, in
// the long form, every two seconds. Each verdict is the one of the log's order, as with a single consumer that nobody disturbs, and the
// books balance.
func TestConsumersComeAndGo(t *testing.T) {
	t.Parallel()
	const changes = 8
	each, stock, long := 750, 500, false
	if text := os.Getenv(churnOrders); text == "" {
		inKafka(t)
	} else {
		orders, err := strconv.Atoi(text)
		if err != nil || orders < 4 || orders > 200_000 {
			t.Fatalf("%s: expected a number of orders from 4 to 200000, got %q", churnOrders, text)
		}
		each, stock, long = orders/4, max(1, orders/6), true
	}
	total := 4 * each
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
	change := func(n int) {
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
	if long {
		t.Logf("%d changes", changeEvery(t, 2*time.Second, conn, total, change))
	} else {
		for n := range changes {
			count(t, conn, n*total/(changes+1))
			change(n)
		}
	}
	if err := away.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	count(t, conn, total)
	checkLogOrder(t, stack, conn, products, stock)
}

// changeEvery makes changes at a steady pace until everything is judged, and says how many.
func changeEvery(t *testing.T, pace time.Duration, conn *pgx.Conn, total int, change func(n int)) int {
	t.Helper()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for n := 0; ; n++ {
		done, err := judged(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		if done >= total {
			return n
		}
		t.Logf("%d of %d orders are judged, %d changes", done, total, n)
		change(n)
		<-ticker.C
	}
}
