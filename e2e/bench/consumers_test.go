package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
)

// backlog is how many orders wait over twelve products when the consumers of BenchmarkConsumers begin.
const backlog = 48_000

// BenchmarkConsumers is a product on each of twelve partitions and a backlog of orders, taken by one, two and four consumers that share
// the partitions. Each line has its ceiling beside it: as many rows put into a table of the ledger's own form by as many writers. The last line is what two and
// four gain over one, of ours and of the bare writers.
func BenchmarkConsumers(b *testing.B) {
	stack, err := local.StartStack(b.Context(), local.StackOptions{DataDir: b.TempDir(), BinDir: build(b), PerService: 4, Log: os.Stderr})
	localtest.Need(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			b.Error(err)
		}
	})
	for _, name := range []string{local.QueueAPI, local.Scheduler} {
		for _, idle := range stack.Processes(name)[1:] {
			idle.Stop(b.Context())
		}
	}
	round := 0
	for range b.N {
		var ours, bare []string
		var one, oneBare float64
		for _, n := range []int{1, 2, 4} {
			f := flow{stack: stack, first: round * local.DefaultPartitions, ids: spread(round), each: backlog / local.DefaultPartitions}
			round++
			got := f.shared(b, stack.Processes(local.Consumer), n)
			ceiling := bareInserts(b, stack.Setting("HANJUL_POSTGRES_URL"), backlog, n)
			report(b, fmt.Sprintf("consumers-%d", n), got, ceiling)
			if n == 1 {
				one, oneBare = got, ceiling
			}
			ours, bare = append(ours, fmt.Sprintf("%.2f", got/one)), append(bare, fmt.Sprintf("%.2f", ceiling/oneBare))
		}
		fmt.Printf("bench consumers-gain: 1, 2 and 4 consumers %s, as many bare writers %s\n", strings.Join(ours, ", "), strings.Join(bare, ", "))
	}
}

// shared gives the orders per second of the first n consumers. They have shared the partitions before the first order is there, and are frozen while the
// log is filled, so that neither their joins nor the filling are measured.
func (f flow) shared(b *testing.B, consumers []*local.Process, n int) float64 {
	b.Helper()
	f.open(b)
	for _, consumer := range consumers {
		consumer.Stop(b.Context())
	}
	for _, consumer := range consumers[:n] {
		if err := consumer.Restart(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := consumer.WaitReady(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for limit := time.Now().Add(time.Minute); ; {
		sharing := 0
		for _, consumer := range consumers[:n] {
			if sale.Gauge(b.Context(), consumer.AdminAddr(), "hanjul_intake_assigned_partitions") == float64(local.DefaultPartitions/n) {
				sharing++
			}
		}
		if sharing == n {
			break
		}
		if time.Now().After(limit) {
			b.Fatalf("%d of %d consumers have their share", sharing, n)
		}
		time.Sleep(100 * time.Millisecond)
	}
	records, _ := f.sign(b)
	from := f.ends(b)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, consumer := range consumers[:n] {
			if err := consumer.Signal(sig); err != nil {
				b.Fatal(err)
			}
		}
		if sig == syscall.SIGSTOP {
			f.send(b, records, 0)
		}
	}
	f.await(b, from)
	first, last := f.span(b, from)
	return float64(f.orders()) / last.Sub(first).Seconds()
}
