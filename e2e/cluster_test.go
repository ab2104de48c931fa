package e2e

import (
	"context"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
	"hanjul/pkg/product"
)

// TestKafkaClusterLosesItsLeader sells on three nodes while the one that leads the product's partition is killed, stays away while people
// order on, and comes back; then it sells again while that happens to the one that coordinates the consumers. The books balance, and every
// order that was accepted is judged. Last one of each binary is restarted while a node is away: their look at the topics counts its replicas.
func TestKafkaClusterLosesItsLeader(t *testing.T) {
	t.Parallel()
	localtest.Jars(t) // else skipped
	env, settings := sale.Quick(true)
	stack := startIn(t, local.StackOptions{DataDir: t.TempDir(), PerService: 2, KafkaNodes: 3, Env: env})
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	leader, err := sale.KillLeader(stack, target, "led", settings, 5)
	if err != nil {
		t.Fatal(err)
	}
	coordinator, err := sale.KillCoordinator(stack, target, "coordinated", settings, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []product.ID{"led", "coordinated"} {
		target.Faults = []sale.Fault{[]sale.Fault{leader, coordinator}[i]}
		report, err := sale.Run(t.Context(), target, sale.Config{
			Product: id, Buyers: 400, Stock: 200, Seed: 20261131, Settings: settings, Dir: t.TempDir(), Limit: 4 * time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		show(t, report)
		if len(report.Struck) != 1 || report.Accepted == 0 || report.Accepted > report.Judged {
			t.Fatalf("struck %v, %d accepted, %d judged", report.Struck, report.Accepted, report.Judged)
		}
	}
	check := func() error { return stack.Run(t.Context(), nil, nil, local.Consumer, "topics", "--check") }
	if err := check(); err != nil {
		t.Fatal(err)
	}
	stack.KafkaCluster().Node(1).Kill()
	if err := check(); err != nil {
		t.Fatal(err)
	}
	ready, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, name := range []string{local.Consumer, local.Scheduler, local.QueueAPI} {
		one := stack.Processes(name)[0]
		if err := one.Restart(ready); err != nil {
			t.Fatal(err)
		}
		if err := one.WaitReady(ready); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKafkaClusterRolls sells on three nodes while each of them is restarted in its turn, gracefully, as for an upgrade. Nothing is lost, and nobody is
// told anything but to wait.
func TestKafkaClusterRolls(t *testing.T) {
	t.Parallel()
	localtest.Jars(t) // else skipped
	env, settings := sale.Quick(true)
	stack := startIn(t, local.StackOptions{DataDir: t.TempDir(), PerService: 2, KafkaNodes: 3, Env: env})
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	roll, err := sale.RollBrokers(stack, target, "rolled", settings, 2)
	if err != nil {
		t.Fatal(err)
	}
	target.Faults = []sale.Fault{roll}
	report, err := sale.Run(t.Context(), target, sale.Config{
		Product: "rolled", Buyers: 500, Stock: 400, Seed: 20261202, Settings: settings, Dir: t.TempDir(), Limit: 4 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	show(t, report)
	if len(report.Struck) != 1 || report.Accepted == 0 || report.Accepted > report.Judged {
		t.Fatalf("struck %v, %d accepted, %d judged", report.Struck, report.Accepted, report.Judged)
	}
	if len(report.Buyers.Errors) > 0 {
		t.Errorf("answers that the protocol does not have, or none: %v", report.Buyers.Errors)
	}
}
