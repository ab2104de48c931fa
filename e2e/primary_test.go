package e2e

import (
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

// TestSaleWhileAPrimaryDies sells on a Redis Cluster while the primary that serves the line goes: once with a replica in step; once with
// a replica that lacks the last seconds, so that the joins, admissions, binds and verdicts of that time are lost to Redis; once so that it is
// back, empty, before its replica was promoted; and once it is only frozen until that was done. The ledger has decided; the line goes on, everybody is accounted for, and nobody meets an answer
// that the protocol does not have.
func TestSaleWhileAPrimaryDies(t *testing.T) {
	t.Parallel()
	inCluster(t)
	env, settings := sale.Quick(false)
	stack := startIn(t, local.StackOptions{DataDir: t.TempDir(), PerService: 2, RedisCluster: true, Env: env})
	for _, one := range []struct {
		id    product.ID
		fault func(*local.Stack, product.ID) (sale.Fault, error)
	}{
		{"in-step", sale.KillPrimary},
		{"rolled-back", func(stack *local.Stack, p product.ID) (sale.Fault, error) {
			return sale.LosePrimary(stack, p, 2*time.Second)
		}},
		{"emptied", sale.EmptyPrimary},
		{"frozen", sale.FreezePrimary},
	} {
		target, err := sale.Of(stack, false)
		if err != nil {
			t.Fatal(err)
		}
		fault, err := one.fault(stack, one.id)
		if err != nil {
			t.Fatal(err)
		}
		target.Faults = []sale.Fault{fault}
		report, err := sale.Run(t.Context(), target, sale.Config{
			Product: one.id, Buyers: 250, Stock: 180, Seed: 20261201, Settings: settings, Dir: t.TempDir(), Limit: 4 * time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		show(t, report)
		if len(report.Struck) != 1 || report.Accepted == 0 || report.Accepted > report.Judged {
			t.Fatalf("%s: struck %v, %d accepted, %d judged", one.id, report.Struck, report.Accepted, report.Judged)
		}
		if len(report.Buyers.Errors) > 0 {
			t.Errorf("%s: answers that the protocol does not have, or none: %v", one.id, report.Buyers.Errors)
		}
		if !strings.Contains(strings.Join(report.Audit.Notes, " "), "incarnation") {
			t.Errorf("%s: the audit does not say that Redis lost something: %v", one.id, report.Audit.Notes)
		}
	}
}
