package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

// hold runs a sale on a stack and fails the test unless it ends as promised.
func hold(t *testing.T, stack *local.Stack, id product.ID, buyers, stock int, chaos, empty bool) *sale.Report {
	t.Helper()
	target, err := sale.Of(stack, chaos)
	if err != nil {
		t.Fatal(err)
	}
	if !empty {
		target.Empty = nil
	}
	report, err := sale.Run(t.Context(), target, sale.Config{
		Product: id, Buyers: buyers, Stock: stock, Seed: 20261101, Settings: settings(), Dir: t.TempDir(), Limit: 3 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	show(t, report)
	return report
}

// show logs the table of a sale and fails the test unless the sale ended as promised.
func show(t *testing.T, report *sale.Report) {
	t.Helper()
	var table strings.Builder
	if err := report.Print(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	if !report.OK() {
		t.Fatalf("the sale did not end as promised; seed %d", report.Config.Seed)
	}
}

// TestKafkaSale is the main job on whichever Kafka the suite was given: joins, admissions, orders, verdicts, events, audit. Then
// everything is stopped and started again on the same data, a second product is sold, and the first one's books are still right. Every
// `make test` holds the main job as a newcomer does, in TestDemoEndsWithItsVerdict.
func TestKafkaSale(t *testing.T) {
	t.Parallel()
	inKafka(t)
	options := local.StackOptions{DataDir: localtest.Dir(t), Persist: true, PerService: 2}
	stack := startIn(t, options)
	first := hold(t, stack, "first", 120, 40, false, false)
	stop(t, stack)
	stack = startIn(t, options)
	hold(t, stack, "second", 60, 20, false, false)
	if again := auditOf(t, stack, "first", first.Journal); !strings.HasSuffix(again, "audit: ok\n") {
		t.Fatalf("after a restart and a second sale the first one's books are wrong:\n%s", again)
	}
}

// TestSaleSurvivesKills sends SIGKILL to one of each binary at seeded moments and starts it again. TestSaleSurvivesEmptiedRedis, which does
// that too, is the shorter one of its kind that every `make test` runs.
func TestSaleSurvivesKills(t *testing.T) {
	t.Parallel()
	inKafka(t)
	stack := start(t, 2)
	report := hold(t, stack, "killed", 300, 100, true, false)
	if len(report.Struck) != 3 {
		t.Fatalf("struck %v, want one of each binary", report.Struck)
	}
}

// TestSaleSurvivesEmptiedRedis does the same and takes everything from Redis in mid-sale. The audit says what began anew.
func TestSaleSurvivesEmptiedRedis(t *testing.T) {
	t.Parallel()
	stack := start(t, 2)
	report := hold(t, stack, "emptied", 200, 70, true, true)
	if len(report.Struck) != 4 {
		t.Fatalf("struck %v, want one of each binary and Redis", report.Struck)
	}
	if !strings.Contains(strings.Join(report.Audit.Notes, " "), "began anew") {
		t.Fatalf("the audit does not say what began anew: %v", report.Audit.Notes)
	}
}

// TestChaosRounds is a short `make chaos`: every kind of fault once, the processes' in the first round and the servers' in the second.
func TestChaosRounds(t *testing.T) {
	t.Parallel()
	inKafka(t)
	env, settings := sale.Quick(false)
	stack := startIn(t, local.StackOptions{DataDir: localtest.Dir(t), Persist: true, PerService: 2, Env: env})
	kinds := sale.Kinds()
	for n, some := range [][]string{kinds[:5], kinds[5:]} {
		report, err := sale.Round{
			Product: product.ID(fmt.Sprintf("round-%d", n)), Buyers: 200, Stock: 80, Seed: 20261129 + uint64(n), Kinds: some,
			Settings: settings, Dir: t.TempDir(),
		}.Hold(t.Context(), stack)
		if err != nil {
			t.Fatal(err)
		}
		show(t, report)
		if len(report.Struck) != len(some) {
			t.Fatalf("struck %v, want %v", report.Struck, some)
		}
	}
}

// TestDrawIsSeeded draws equal kinds for equal seeds, and every kind for some seed.
func TestDrawIsSeeded(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for seed := range uint64(30) {
		one, two := sale.Draw(seed, 4), sale.Draw(seed, 4)
		if len(one) != 4 || !slices.Equal(one, two) {
			t.Fatalf("seed %d draws %v and %v", seed, one, two)
		}
		for _, kind := range one {
			met[kind] = true
		}
	}
	if len(met) != len(sale.Kinds()) {
		t.Fatalf("only %v were drawn", met)
	}
}

// TestSaleWithoutUnits sells nothing to everyone and says so; then, on the same servers, another product without a queue.
func TestSaleWithoutUnits(t *testing.T) {
	t.Parallel()
	stack := start(t, 1)
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	report, err := sale.Run(t.Context(), target, sale.Config{
		Product: "nothing", Buyers: 40, Stock: 0, Seed: 1, Settings: settings(), Dir: t.TempDir(), Limit: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Buyers.Outcomes["confirmed"] != 0 || report.Buyers.Outcomes["sold out while waiting"] == 0 || !report.Audit.OK {
		t.Fatalf("outcomes %v, audit %+v", report.Buyers.Outcomes, report.Audit)
	}
	sellWithoutQueue(t, stack, target)
}

// TestSaleOfTheLastUnit is stock 1 with a crowd: exactly one is confirmed.
func TestSaleOfTheLastUnit(t *testing.T) {
	t.Parallel()
	stack := start(t, 1)
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	report, err := sale.Run(t.Context(), target, sale.Config{
		Product: "last", Buyers: 300, Stock: 1, Seed: 3, Settings: settings(), Dir: t.TempDir(), Limit: 2 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Buyers.Outcomes["confirmed"] != 1 || !report.Buyers.Accounted() || !report.Audit.OK {
		t.Fatalf("outcomes %v, audit %+v", report.Buyers.Outcomes, report.Audit)
	}
}
