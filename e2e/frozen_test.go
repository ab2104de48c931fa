package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// everyPartition names a product for each partition of the topic.
func everyPartition(prefix string) []product.ID {
	products := make([]product.ID, 0, local.DefaultPartitions)
	taken := map[int]bool{}
	for n := 0; len(products) < local.DefaultPartitions; n++ {
		id := product.ID(fmt.Sprintf("%s-%d", prefix, n))
		if partition := kafka.Partition([]byte(id), local.DefaultPartitions); !taken[partition] {
			taken[partition] = true
			products = append(products, id)
		}
	}
	return products
}

// TestFrozenConsumerDoesNoHarm freezes a consumer by SIGSTOP while every one of its partitions has a batch before the judge. The other takes
// the partitions over and judges what it can; then the first wakes, in the middle of its transactions, and commits no offset of what it
// holds no more. Each verdict is that of the log's order, and the books balance.
func TestFrozenConsumerDoesNoHarm(t *testing.T) {
	t.Parallel()
	const each, stock = 60, 25
	env, settings := sale.Quick(false)
	env["HANJUL_CONSUMER_BATCH_RECORDS"] = "20"
	stack := startIn(t, local.StackOptions{DataDir: localtest.Dir(t), PerService: 2, Env: env})
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	settings.OrderTTL = time.Hour
	products := everyPartition("frozen")
	names := make([]string, len(products))
	for i, id := range products {
		names[i] = string(id)
		if err := sale.Open(t.Context(), target, id, stock, settings); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	conn, keeper := ledgerOf(t, stack), ledgerOf(t, stack)

	// Nobody can judge while the stock rows are locked.
	tx, err := keeper.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM stock WHERE product_id = ANY ($1) ORDER BY product_id FOR UPDATE`, names); err != nil {
		t.Fatal(err)
	}
	if err := sale.Preload(ctx, stack, products, each); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "all partitions have a batch before the judge", func() (bool, error) {
		var waiting int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waiting)
		return waiting == len(products), err
	})
	consumers := stack.Processes(local.Consumer)
	frozen, other := consumers[0], consumers[1]
	if err := frozen.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the other has all partitions", func() (bool, error) {
		return counted(ctx, other, "hanjul_intake_assigned_partitions", "") == local.DefaultPartitions, nil
	})
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	// What the frozen one's transactions hold now, the other waits for; the rest it judges.
	count(t, conn, each)
	if err := frozen.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	count(t, conn, each*len(products))
	until(ctx, t, "the one that woke is told that its commits are late", func() (bool, error) {
		return counted(ctx, frozen, "hanjul_intake_commits_total", `result="late"`)+counted(ctx, frozen, "hanjul_intake_commits_total", `result="fenced"`) > 0, nil
	})
	if ok := counted(ctx, frozen, "hanjul_intake_commits_total", `result="failed"`); ok > 0 {
		t.Errorf("%v commits failed in another way", ok)
	}
	checkLogOrder(t, stack, conn, products, stock)
}

// checkLogOrder holds the verdicts of preloaded products against the order of the log, and the books against the promises.
func checkLogOrder(t *testing.T, stack *local.Stack, conn *pgx.Conn, products []product.ID, stock int) {
	t.Helper()
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

// until polls until the answer is yes.
func until(ctx context.Context, t *testing.T, what string, ask func() (bool, error)) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		yes, err := ask()
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, errors.Join(err, ctx.Err()))
		case <-ticker.C:
		}
	}
}

// counted reads a metric of a process, that of one label where it has them; 0 when it does not answer.
func counted(ctx context.Context, p *local.Process, name, label string) float64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.AdminAddr()+"/metrics", http.NoBody)
	if err != nil {
		return 0
	}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	if label != "" {
		name += "{" + label + "}"
	}
	for _, line := range strings.Split(string(text), "\n") {
		if value, found := strings.CutPrefix(line, name+" "); found {
			n, _ := strconv.ParseFloat(value, 64) // what is no number counts as none
			return n
		}
	}
	return 0
}
