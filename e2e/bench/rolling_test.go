package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

// BenchmarkRollingRestart restarts three consumers one after the other, by SIGTERM and each when the one before is ready, while orders of
// several products are judged, and tells the longest pause between two verdicts of one product.
func BenchmarkRollingRestart(b *testing.B) {
	stack, err := local.StartStack(b.Context(), local.StackOptions{
		DataDir: b.TempDir(), BinDir: build(b), PerService: 3, Log: os.Stderr,
		Env: map[string]string{"HANJUL_CONSUMER_BATCH_RECORDS": "2"}, // slow enough that there is work all the time
	})
	localtest.Need(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			b.Error(err)
		}
	})
	target, err := sale.Of(stack, false)
	if err != nil {
		b.Fatal(err)
	}
	const each = 5000
	var products []product.ID
	for n := range 4 {
		products = append(products, product.ID(fmt.Sprintf("rolling-%d", n)))
		settings := sale.Settings{Rate: 1, Burst: 1, Capacity: 1, PassLife: time.Minute, OrderTTL: time.Hour}
		if err := sale.Open(b.Context(), target, products[n], each, settings); err != nil {
			b.Fatal(err)
		}
	}
	if err := sale.Preload(b.Context(), stack, products, each); err != nil {
		b.Fatal(err)
	}
	for _, consumer := range stack.Processes(local.Consumer) {
		if err := consumer.Restart(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := consumer.WaitReady(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	ended := time.Now()
	conn, err := pgx.Connect(b.Context(), stack.Setting("HANJUL_POSTGRES_URL"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // it only reads
	var pause float64
	if err := conn.QueryRow(b.Context(), `
		SELECT extract(epoch FROM max(gap))::float8 FROM (
			SELECT judged_at - lag(judged_at) OVER (PARTITION BY product_id ORDER BY seq) AS gap FROM orders WHERE judged_at < $1) gaps`,
		ended).Scan(&pause); err != nil {
		b.Fatal(err)
	}
	var left int
	if err := conn.QueryRow(b.Context(), `SELECT $1 - count(*) FROM orders WHERE judged_at < $2`, each*len(products), ended).Scan(&left); err != nil {
		b.Fatal(err)
	}
	if left == 0 {
		b.Fatal("the orders ended before the restarts: nothing was measured")
	}
	b.ReportMetric(pause, "s-pause")
	fmt.Printf("bench rolling-restart: three consumers one after the other, longest pause of a product %.2f s\n", pause)
}
