package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// auditOf runs the subcommand and returns what it printed; a broken promise is no error here.
func auditOf(t *testing.T, stack *local.Stack, id product.ID, journal string) string {
	t.Helper()
	args := []string{"audit", "--product", string(id), "--wait", "20s"}
	if journal != "" {
		args = append(args, "--journal", journal)
	}
	var out bytes.Buffer
	err := stack.Run(t.Context(), &out, t.Output(), local.Consumer, args...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String()
}

// TestAuditNamesWhatIsBroken holds a real sale, then breaks its books in the stores one thing at a time: the audit must end in
// FAILED and name the promise. What can be undone is undone, and the audit must be content again.
func TestAuditNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	stack := start(t, 1)
	report := hold(t, stack, "books", 60, 20, false, false)
	const id = product.ID("books")

	conn, err := pgx.Connect(t.Context(), stack.Setting("HANJUL_POSTGRES_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(stack.Setting("HANJUL_REDIS_ADDRS"), ",")})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	keys := product.Keyspace{Prefix: stack.Setting("HANJUL_KEY_PREFIX")}.Product(id)
	sql := func(statement string) func() error {
		return func() error {
			_, err := conn.Exec(t.Context(), statement)
			return err
		}
	}
	stockBy := func(n int64) func() error {
		return func() error { return rdb.HIncrBy(t.Context(), keys.Stock, "base", n).Err() }
	}
	journalWith := func(change func(string) string) string {
		text, err := os.ReadFile(report.Journal)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "journal.jsonl")
		if err := os.WriteFile(file, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cases := []struct {
		what, promise string
		break_, mend  func() error
		journal       string
	}{
		{"sold raised", "I1", sql(`UPDATE stock SET sold = sold - 1 WHERE product_id = 'books'`), sql(`UPDATE stock SET sold = sold + 1 WHERE product_id = 'books'`), ""},
		{"unit added in Redis", "I10", stockBy(1), stockBy(-1), ""},
		{
			"order row gone", "I2",
			sql(`CREATE TABLE kept AS SELECT * FROM orders WHERE product_id = 'books' ORDER BY order_id LIMIT 1; DELETE FROM orders USING kept WHERE orders.order_id = kept.order_id`),
			sql(`INSERT INTO orders SELECT * FROM kept; DROP TABLE kept`), "",
		},
		{
			"outbox row doubled", "I3",
			sql(`INSERT INTO outbox (id, created_at, topic, product_id, seq, aggregatetype, aggregateid, type, payload, left_after)
				SELECT gen_random_uuid(), created_at + interval '1 ms', topic, product_id, seq, aggregatetype, aggregateid, type, payload, left_after
				FROM outbox WHERE product_id = 'books' AND type = 'hanjul.order.confirmed' ORDER BY seq LIMIT 1`),
			sql(`DELETE FROM outbox WHERE product_id = 'books' AND id IN (SELECT id FROM outbox o WHERE product_id = 'books' AND seq IS NOT NULL
				AND EXISTS (SELECT 1 FROM outbox p WHERE p.product_id = o.product_id AND p.seq = o.seq AND p.created_at < o.created_at))`), "",
		},
		{
			"limit lowered below what a user holds", "I5",
			sql(`UPDATE products SET settings = jsonb_set(settings, '{user_limit}', '0') WHERE id = 'books'`),
			sql(`UPDATE products SET settings = jsonb_set(settings, '{user_limit}', '4') WHERE id = 'books'`), "",
		},
		{
			"user in two sets", "I6",
			func() error {
				users, err := rdb.HKeys(t.Context(), keys.Who).Result()
				if err != nil {
					return err
				}
				return rdb.ZAdd(t.Context(), keys.Waiting, redis.Z{Score: 1, Member: users[0]}).Err()
			},
			func() error { return rdb.ZRemRangeByScore(t.Context(), keys.Waiting, "1", "1").Err() }, "",
		},
		{
			"two buyers told one place", "I7", nil, nil,
			journalWith(func(text string) string {
				lines := strings.SplitN(text, "\n", 2)
				return strings.Replace(lines[0], `"buyer":"buyer-`, `"buyer":"twin-`, 1) + "\n" + text
			}),
		},
		{
			"an order answered with another id", "I4", nil, nil,
			journalWith(func(text string) string {
				var out []string
				for _, line := range strings.Split(text, "\n") {
					if strings.Contains(line, `"call":"order"`) && strings.Contains(line, `"status":202`) {
						at := strings.Index(line, `"order_id":"`) + len(`"order_id":"`)
						line = line[:at] + "00000000-0000-7000-8000-000000000000" + line[at+36:]
					}
					out = append(out, line)
				}
				return strings.Join(out, "\n")
			}),
		},
		{
			"capacity and rate lowered below what happened", "I8",
			sql(`UPDATE products SET settings = jsonb_set(jsonb_set(settings, '{rate}', '0.5'), '{burst}', '1') WHERE id = 'books'`),
			sql(`UPDATE products SET settings = jsonb_set(jsonb_set(settings, '{rate}', '60'), '{burst}', '6') WHERE id = 'books'`), "",
		},
	}
	for _, c := range cases {
		t.Run(c.promise+" "+c.what, func(t *testing.T) {
			journal := c.journal
			if journal == "" {
				journal = report.Journal
			}
			if c.break_ != nil {
				if err := c.break_(); err != nil {
					t.Fatal(err)
				}
			}
			out := auditOf(t, stack, id, journal)
			if c.mend != nil {
				if err := c.mend(); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(out, c.promise+" FAILED:") || !strings.HasSuffix(out, "audit: FAILED\n") {
				t.Fatalf("the audit does not name %s:\n%s", c.promise, out)
			}
		})
	}
	if out := auditOf(t, stack, id, report.Journal); !strings.HasSuffix(out, "audit: ok\n") {
		t.Fatalf("after everything was mended:\n%s", out)
	}

	// The log cannot be mended: last, an event of the product is published again as if it were another.
	t.Run("I9 event under another id", func(t *testing.T) {
		topic := stack.Setting("HANJUL_TOPIC_EVENTS")
		conf := kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")}
		partition := kafka.Partition([]byte(id), local.DefaultPartitions)
		first, end, err := kafka.Offsets(t.Context(), conf, topic)
		if err != nil {
			t.Fatal(err)
		}
		var again kafka.Record
		if err := kafka.Read(t.Context(), conf, topic, partition, first[partition], end[partition], func(m kafka.Message) error {
			if string(m.Key) == string(id) && again.Value == nil {
				again = kafka.Record{Topic: topic, Key: m.Key, Value: m.Value, Headers: []kafka.Header{{Key: order.HeaderID, Value: []byte("another")}}}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		produce(t, conf, again)
		if out := auditOf(t, stack, id, report.Journal); !strings.Contains(out, "I9 FAILED:") {
			t.Fatalf("the audit does not name I9:\n%s", out)
		}
	})
}

// produce writes one record.
func produce(t *testing.T, conf kafka.Config, record kafka.Record) {
	t.Helper()
	producer, err := kafka.NewProducer(kafka.ProducerConfig{Config: conf, Partitions: map[string]int{record.Topic: local.DefaultPartitions}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- producer.Run(ctx) }()
	if result := producer.Produce(t.Context(), []kafka.Record{record})[0]; result.Outcome != kafka.Accepted {
		t.Errorf("produce: %s: %v", result.Outcome, result.Err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
