package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"hanjul/deploy/local"
	"hanjul/pkg/kafka"
	"hanjul/pkg/outbox"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// TestAuditOfWhatIsKept makes the first half of a sale old, drops its outbox partition as the consumers do, and shortens both topics.
// The audit calls none of it a fault and none of it ok, and still finds what is wrong in the rest.
func TestAuditOfWhatIsKept(t *testing.T) {
	t.Parallel()
	stack := start(t, 1)
	const id = product.ID("kept")
	report := hold(t, stack, id, 60, 20, false, false)
	conn := ledgerOf(t, stack)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(want string, told ...string) {
		t.Helper()
		out := auditOf(t, stack, id, report.Journal)
		for _, line := range append(told, "audit: "+want+"\n") {
			if !strings.Contains(out, line) {
				t.Fatalf("the audit does not say %q:\n%s", line, out)
			}
		}
	}

	box, err := outbox.Open(t.Context(), postgres.At(stack.Setting("HANJUL_POSTGRES_URL")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	now := time.Now()
	if _, err := box.MakePartitions(t.Context(), now.AddDate(0, 0, -4), 2); err != nil {
		t.Fatal(err)
	}
	var seq int64
	if err := conn.QueryRow(t.Context(), `SELECT seq FROM stock WHERE product_id = $1`, string(id)).Scan(&seq); err != nil {
		t.Fatal(err)
	}
	exec(`UPDATE products SET created_at = created_at - interval '5 days' WHERE id = $1`, string(id))
	exec(`UPDATE outbox SET created_at = created_at - interval '3 days' WHERE product_id = $1 AND (seq <= $2 OR seq IS NULL)`, string(id), seq/2)
	ends("ok")
	dropped, err := box.DropPartitions(t.Context(), now.AddDate(0, 0, -1))
	if err != nil || len(dropped.Names) != 2 {
		t.Fatalf("dropped %+v: %v", dropped, err)
	}
	gone := fmt.Sprintf("seq 1 to %d", seq/2)
	ends("ok in what is kept", "I9 ok in what is kept:", "I10 ok in what is kept:", "not looked at: "+gone+" of the chain")

	shorten(t, stack, id, "HANJUL_TOPIC_ORDERS")
	shorten(t, stack, id, "HANJUL_TOPIC_EVENTS")
	ends("ok in what is kept", "I2 ok in what is kept:", "not looked at: commands before offset", "whose partition")

	exec(`UPDATE outbox SET left_after = left_after + 1 WHERE product_id = $1 AND seq = $2`, string(id), seq)
	ends("FAILED", "I10 FAILED:", gone)
	exec(`UPDATE outbox SET left_after = left_after - 1 WHERE product_id = $1 AND seq = $2`, string(id), seq)
	ends("ok in what is kept")
	exec(`DELETE FROM outbox WHERE product_id = $1 AND seq = $2`, string(id), seq-1)
	ends("FAILED", "I10 FAILED:", "I3 FAILED:")
}

// shorten takes away the first half of the product's partition of a topic, as retention does.
func shorten(t *testing.T, stack *local.Stack, id product.ID, setting string) {
	t.Helper()
	topic, partition := stack.Setting(setting), int32(kafka.Partition([]byte(id), local.DefaultPartitions)) //nolint:gosec // a small number
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, partition)
	var upTo kadm.Offsets
	upTo.Add(kadm.Offset{Topic: topic, Partition: partition, At: end.Offset / 2})
	answers, err := admin.DeleteRecords(t.Context(), upTo)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}
