package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"
	kafkago "github.com/segmentio/kafka-go"

	"hanjul/deploy/local"
	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// eventually bounds what only has to happen at some time.
const eventually = 2 * time.Minute

// await polls until done says so.
func await(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		switch ok, err := done(ctx); {
		case err != nil:
			t.Fatalf("%s: %v", what, err)
		case ok:
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s: not yet", what)
		}
	}
}

// bookkeeper starts the example's process on a stack; its tables are in a schema beside the ledger's, so that one query compares them.
func bookkeeper(t *testing.T, stack *local.Stack, name, group string, args ...string) *local.Process {
	t.Helper()
	token, err := stack.OperatorToken()
	if err != nil {
		t.Fatal(err)
	}
	p, err := local.StartProcess(t.Context(), local.ProcessOptions{
		Name: name, Path: filepath.Join(binaries(t), "bookkeeper"), LogFile: filepath.Join(stack.Dir(), "logs", name),
		Args: append([]string{
			"-brokers", stack.Setting("HANJUL_KAFKA_BROKERS"), "-topic", stack.Setting("HANJUL_TOPIC_EVENTS"), "-group", group,
		}, args...),
		Env: []string{"BOOKKEEPER_POSTGRES_URL=" + stack.Setting("HANJUL_POSTGRES_URL"), "BOOKKEEPER_OPERATOR_TOKEN=" + token},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(context.Background()) })
	return p
}

// number is a query's one number; 0 while the bookkeeper has no tables.
func number(ctx context.Context, conn *pgx.Conn, query string, args ...any) (n int64, err error) {
	var there bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('bookkeeper.orders') IS NOT NULL`).Scan(&there); err != nil || !there {
		return 0, err
	}
	err = conn.QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}

// keptUp waits until the bookkeeper has the product's last event, and compares its tables with the ledger's.
func keptUp(t *testing.T, conn *pgx.Conn, p product.ID) {
	t.Helper()
	await(t, "the bookkeeper has the last event of "+string(p), func(ctx context.Context) (bool, error) {
		n, err := number(ctx, conn, `SELECT count(*) FROM bookkeeper.products b JOIN stock s USING (seq) WHERE b.product = $1 AND s.product_id = $1`, string(p))
		return n == 1, err
	})
	for what, query := range map[string]string{
		"sums": `SELECT count(*) FROM bookkeeper.products b JOIN stock s ON s.product_id = b.product
			WHERE b.product = $1 AND (b.seq, b.total, b.sold) IS DISTINCT FROM (s.seq, s.total, s.sold)`,
		"orders": `SELECT count(*) FROM (SELECT order_id::text, status, reason, quantity FROM orders WHERE product_id = $1) l
			FULL JOIN (SELECT order_id, state, reason, quantity FROM bookkeeper.orders WHERE product = $1) b USING (order_id)
			WHERE (l.status, l.reason, l.quantity) IS DISTINCT FROM (b.state, b.reason, b.quantity)`,
		"events entered twice or not at all": `SELECT abs(count(*) - max(seq)) FROM bookkeeper.entered WHERE product = $1`,
	} {
		n, err := number(t.Context(), conn, query, string(p))
		if err != nil || n != 0 {
			t.Errorf("%s of %s: %d differ, %v", what, p, n, err)
		}
	}
}

// readToTheEnd waits until the group has committed all that is on the topic of events.
func readToTheEnd(t *testing.T, stack *local.Stack, group string) {
	t.Helper()
	conf, topic := kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")}, stack.Setting("HANJUL_TOPIC_EVENTS")
	_, end, err := kafka.Offsets(t.Context(), conf, topic)
	if err != nil {
		t.Fatal(err)
	}
	await(t, group+" has read all", func(ctx context.Context) (bool, error) {
		committed, err := kafka.Committed(ctx, conf, group, topic)
		for partition, offset := range end {
			if offset > 0 && committed[partition] < offset {
				return false, err
			}
		}
		return true, err
	})
}

// operate makes an operator's change and returns the status of its answer.
func operate(t *testing.T, stack *local.Stack, path, key, body string) int {
	t.Helper()
	token, err := stack.OperatorToken()
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, stack.OperatorURLs()[0]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// soldOrder is a confirmed order of the product, the n-th by id.
func soldOrder(t *testing.T, conn *pgx.Conn, p product.ID, n int) string {
	t.Helper()
	var id string
	err := conn.QueryRow(t.Context(), `SELECT order_id::text FROM orders WHERE product_id = $1 AND status = 'confirmed' ORDER BY order_id LIMIT 1 OFFSET $2`,
		string(p), n).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// replay publishes every event of the product again, on the live topic unless the arguments say another.
func replay(t *testing.T, stack *local.Stack, p product.ID, args ...string) {
	t.Helper()
	var out bytes.Buffer
	args = append([]string{"outbox", "replay", "--product", string(p), "--operator", "test", "--yes"}, args...)
	if err := stack.Run(t.Context(), &out, &out, local.Consumer, args...); err != nil {
		t.Fatalf("replay: %v\n%s", err, out.String())
	}
}

// TestBookkeeper has two bookkeepers read a sale while one after the other is killed, then a replay of everything, then all of it again
// under another group, and from nothing off a topic of its own, which begins in the middle. Each time their tables are the ledger's. What
// was published passes docs/schema.
func TestBookkeeper(t *testing.T) {
	t.Parallel()
	const rebuilt = "order-events-for-the-bookkeeper"
	env := quick()
	env["HANJUL_CONSUMER_REPLAY_TOPICS"] = rebuilt
	stack := startIn(t, local.StackOptions{DataDir: t.TempDir(), PerService: 1, Env: env})
	conn := ledgerOf(t, stack)
	keepers := []*local.Process{bookkeeper(t, stack, "bookkeeper-1", "keepers", "-session", "6s"), bookkeeper(t, stack, "bookkeeper-2", "keepers", "-session", "6s")}
	members(t, stack, "keepers", len(keepers))

	const p = product.ID("kept")
	over := make(chan struct{})
	killed := make(chan int, 1)
	watch := ledgerOf(t, stack) // a connection serves one goroutine
	go func() { killed <- killAtProgress(t, watch, group(t, stack, "keepers"), keepers, over) }()
	hold(t, stack, p, 100, 30, false, false)
	close(over)
	n := <-killed
	t.Logf("%d bookkeepers were killed", n)
	if n == 0 {
		t.Error("no bookkeeper was killed")
	}
	path := "/v1/products/" + string(p)
	if status := operate(t, stack, path+"/restock", "more", `{"units": 3}`); status != http.StatusAccepted {
		t.Errorf("restock: %d", status)
	}
	if status := operate(t, stack, path+"/orders/"+soldOrder(t, conn, p, 0)+"/cancel", "back", `{}`); status != http.StatusAccepted {
		t.Errorf("cancel: %d", status)
	}
	await(t, "the cancel is judged", func(ctx context.Context) (bool, error) {
		n, err := number(ctx, conn, `SELECT count(*) FROM orders WHERE product_id = $1 AND status = 'cancelled'`, string(p))
		return n == 1, err
	})
	keptUp(t, conn, p)

	replay(t, stack, p)
	readToTheEnd(t, stack, "keepers")
	keptUp(t, conn, p)

	for _, keeper := range keepers {
		keeper.Kill()
	}
	anew := bookkeeper(t, stack, "bookkeeper-3", "from-the-beginning")
	readToTheEnd(t, stack, "from-the-beginning")
	keptUp(t, conn, p)
	anew.Stop(t.Context())
	if err := anew.Wait(); err != nil {
		t.Errorf("a bookkeeper that is asked to stop ends with %v", err)
	}

	if _, err := conn.Exec(t.Context(), `DROP SCHEMA bookkeeper CASCADE`); err != nil {
		t.Fatal(err)
	}
	conf := kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")}
	if err := kafka.CreateTopics(t.Context(), conf, []kafka.TopicSpec{{Name: rebuilt, Partitions: local.DefaultPartitions}}); err != nil {
		t.Fatal(err)
	}
	bookkeeper(t, stack, "bookkeeper-4", "from-nothing", "-topic", rebuilt)
	replay(t, stack, p, "--to-topic", rebuilt, "--from-seq", "5")
	await(t, "events wait behind the gap", func(ctx context.Context) (bool, error) {
		n, err := number(ctx, conn, `SELECT count(*) FROM bookkeeper.early WHERE product = $1`, string(p))
		return n > 0, err
	})
	replay(t, stack, p, "--to-topic", rebuilt, "--to-seq", "4")
	keptUp(t, conn, p)
	if n := validated(t, stack); n < 3 { // whether somebody is rejected is chance
		t.Errorf("events of %d types were published, expected 3 at least", n)
	}
}

// killAtProgress kills and starts one bookkeeper after the other, each time when something was entered since and their group has settled,
// until the sale is over.
func killAtProgress(
	t *testing.T, conn *pgx.Conn, group func(context.Context) (int, bool, error), keepers []*local.Process, over <-chan struct{},
) (killed int) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var last int64
	for {
		select {
		case <-over:
			return killed
		case <-ticker.C:
		}
		n, err := number(t.Context(), conn, `SELECT count(*) FROM bookkeeper.entered`)
		if err != nil {
			t.Errorf("watch the bookkeepers: %v", err)
			return killed
		}
		if n > last {
			members, stable, err := group(t.Context())
			if err != nil {
				t.Errorf("ask for the bookkeepers' group: %v", err)
				return killed
			}
			if !stable || members != len(keepers) {
				continue
			}
			last = n
			keeper := keepers[killed%len(keepers)]
			keeper.Kill()
			if err := keeper.Restart(t.Context()); err != nil {
				t.Errorf("start a bookkeeper again: %v", err)
				return killed
			}
			killed++
		}
	}
}

// validated holds every record on the topic of events against the schema of its type, and returns how many types there were.
func validated(t *testing.T, stack *local.Stack) int {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schemas := make(map[string]*jsonschema.Schema)
	for kind, name := range map[order.EventType]string{
		order.Confirmed: "confirmed", order.Rejected: "rejected", order.Cancelled: "cancelled", order.StockAdjusted: "adjusted",
	} {
		schema, err := compiler.Compile(filepath.Join("..", "docs", "schema", fmt.Sprintf("event_%s_v%d.json", name, order.EventVersion)))
		if err != nil {
			t.Fatal(err)
		}
		schemas[string(kind)] = schema
	}
	conf, topic := kafka.Config{Brokers: strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")}, stack.Setting("HANJUL_TOPIC_EVENTS")
	first, end, err := kafka.Offsets(t.Context(), conf, topic)
	if err != nil {
		t.Fatal(err)
	}
	met := make(map[string]bool)
	for partition := range end {
		err := kafka.Read(t.Context(), conf, topic, partition, first[partition], end[partition], func(m kafka.Message) error {
			headers := make(map[string]string)
			for _, h := range m.Headers {
				headers[h.Key] = string(h.Value)
			}
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Value))
			if err != nil {
				return err
			}
			kind := headers[order.HeaderType]
			met[kind] = true
			if schemas[kind] == nil {
				return fmt.Errorf("no schema for the type %q", kind)
			}
			event, err := order.DecodeEvent(m.Value)
			if err != nil {
				return err
			}
			subject := string(event.Product)
			if event.OrderID != nil {
				subject = string(*event.OrderID)
			}
			if headers[order.HeaderSubject] != subject || headers[order.HeaderSequence] != fmt.Sprint(event.Seq) || string(m.Key) != string(event.Product) {
				return fmt.Errorf("the headers %v do not fit %s", headers, m.Value)
			}
			return schemas[kind].Validate(value)
		})
		if err != nil {
			t.Errorf("%s/%d: %v", topic, partition, err)
		}
	}
	return len(met)
}

// group asks how many members a group has, and whether it has settled. Who is killed while it joins stays a member for ever on the broker inside
// our own process, and keeps its partitions, where Apache Kafka lets its session run out: so kill in a group that has settled.
func group(t *testing.T, stack *local.Stack, name string) func(context.Context) (members int, stable bool, err error) {
	t.Helper()
	transport := &kafkago.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := kafkago.Client{Addr: kafkago.TCP(strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")...), Transport: transport}
	return func(ctx context.Context) (int, bool, error) {
		answer, err := client.DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{name}})
		if err != nil || len(answer.Groups) != 1 {
			return 0, false, err
		}
		return len(answer.Groups[0].Members), answer.Groups[0].GroupState == "Stable", answer.Groups[0].Error
	}
}

// members waits until a group has settled with so many.
func members(t *testing.T, stack *local.Stack, name string, want int) {
	t.Helper()
	ask := group(t, stack, name)
	await(t, "the group "+name+" has settled", func(ctx context.Context) (bool, error) {
		n, stable, err := ask(ctx)
		return stable && n == want, err
	})
}
