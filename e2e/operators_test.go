package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/e2e/sale"
	"hanjul/pkg/kafka"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// TestSaleWithOperators is a sale that operators have to help through. The product's stock row is lost for a while and a record that is
// no command gets into its log, so commands are parked; when the row is back, one parked order is dropped and the others are redriven.
// Two confirmed orders, a redriven one and one of before, are taken back, and their units are sold again.
func TestSaleWithOperators(t *testing.T) {
	t.Parallel()
	const (
		id       = product.ID("helped")
		stock    = 40
		buyers   = 150
		takeBack = 2
	)
	stack := start(t, 2)
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	help := &operators{stack: stack, target: target, conn: ledgerOf(t, stack), product: id}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	helped := make(chan error, 1)
	go func() {
		err := help.run(ctx, func(record kafka.Record) { produce(t, kafka.Config{Brokers: brokers(stack)}, record) })
		if err != nil {
			cancel() // the product is paused, perhaps: nobody would ever buy the rest
		}
		helped <- err
	}()
	report, err := sale.Run(ctx, target, sale.Config{
		Product: id, Buyers: buyers, Stock: stock, Seed: 20261201, Settings: settings(), Dir: t.TempDir(), Limit: 3 * time.Minute,
	})
	if err := errors.Join(<-helped, err); err != nil {
		t.Fatal(err)
	}
	show(t, report)
	if len(help.redriven) == 0 || report.Buyers.Verdicts["rejected: failed"] != 1 {
		t.Fatalf("%d redriven, verdicts told %v", len(help.redriven), report.Buyers.Verdicts)
	}
	states := func(condition string) (n int) {
		if err := help.conn.QueryRow(t.Context(), `SELECT count(*) FROM orders WHERE product_id = $1 AND `+condition, string(id)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if sold, back := states(`status = 'confirmed'`), states(`status = 'cancelled' AND reason = 'operator'`); sold != stock || back != takeBack {
		t.Fatalf("%d of %d units are sold and %d orders were taken back, want %d", sold, stock, back, takeBack)
	}
	out := auditOf(t, stack, id, report.Journal)
	for n := 1; n <= 10; n++ {
		if !strings.Contains(out, fmt.Sprintf("I%d ok: ", n)) {
			t.Errorf("I%d is not ok", n)
		}
	}
	if t.Failed() || strings.Contains(out, "note:") || !strings.HasSuffix(out, "audit: ok\n") {
		t.Fatal(out)
	}
}

func brokers(stack *local.Stack) []string {
	return strings.Split(stack.Setting("HANJUL_KAFKA_BROKERS"), ",")
}

// operators do what people do at the desk and at a shell while the sale runs.
type operators struct {
	stack    *local.Stack
	target   sale.Stack
	conn     *pgx.Conn
	product  product.ID
	redriven []order.ID
}

// parkedLetter is a row of `dead-letters list --json`.
type parkedLetter struct {
	ID      int64    `json:"id"`
	OrderID order.ID `json:"order_id"`
}

func (o *operators) run(ctx context.Context, send func(kafka.Record)) error {
	if err := o.until(ctx, `SELECT count(*) >= 5 FROM orders WHERE product_id = $1`); err != nil {
		return err
	}
	restore, err := o.loseStock(ctx)
	if err != nil {
		return err
	}
	send(kafka.Record{Topic: o.stack.Setting("HANJUL_TOPIC_ORDERS"), Key: []byte(o.product), Value: []byte("no command")})
	if err := o.until(ctx, `SELECT count(order_id) >= 3 AND count(*) > count(order_id) FROM dead_letters WHERE $1 <> ''`); err != nil {
		return err
	}
	if err := o.call(ctx, "pause"); err != nil {
		return err
	}
	if err := restore(); err != nil {
		return err
	}
	// What was in the judge's hands meanwhile is parked or judged when this, behind it in the log, is.
	if err := o.restock(ctx); err != nil {
		return err
	}
	if err := o.empty(ctx); err != nil {
		return err
	}
	if err := o.takeBack(ctx); err != nil {
		return err
	}
	return o.call(ctx, "resume")
}

// loseStock takes the product's stock row away, as a careless hand would, and returns what brings it back.
func (o *operators) loseStock(ctx context.Context) (restore func() error, err error) {
	var total, sold, seq int64
	if err := o.conn.QueryRow(ctx, `DELETE FROM stock WHERE product_id = $1 RETURNING total, sold, seq`, string(o.product)).Scan(&total, &sold, &seq); err != nil {
		return nil, fmt.Errorf("lose the stock row: %w", err)
	}
	return func() error {
		_, err := o.conn.Exec(ctx, `INSERT INTO stock (product_id, total, sold, seq) VALUES ($1, $2, $3, $4)`, string(o.product), total, sold, seq)
		if err != nil {
			return fmt.Errorf("bring the stock row back: %w", err)
		}
		return nil
	}, nil
}

// restock adds a unit and takes it away again, and waits until both are judged.
func (o *operators) restock(ctx context.Context) error {
	for _, units := range []int{1, -1} {
		if err := sale.Operate(ctx, o.target, http.MethodPost, "/v1/products/"+string(o.product)+"/restock", map[string]any{"units": units}); err != nil {
			return err
		}
	}
	return o.until(ctx, `SELECT count(*) = 3 FROM commands WHERE product_id = $1 AND kind = 'adjust' AND result = 'done'`)
}

// empty deals with every dead letter: the record that is no command and the first order are dropped, the others redriven.
func (o *operators) empty(ctx context.Context) error {
	letters, err := o.letters(ctx)
	if err != nil {
		return err
	}
	dropped := order.ID("")
	for _, l := range letters {
		verb := "redrive"
		if l.OrderID == "" || dropped == "" {
			verb = "drop"
		}
		if l.OrderID != "" {
			if verb == "drop" {
				dropped = l.OrderID
			} else {
				o.redriven = append(o.redriven, l.OrderID)
			}
		}
		if _, err := o.consumer(ctx, "dead-letters", verb, strconv.FormatInt(l.ID, 10), "--operator", "kim"); err != nil {
			return err
		}
	}
	if err := o.until(ctx, `SELECT count(*) = $2 FROM orders WHERE product_id = $1 AND order_id = ANY ($3::text[]::uuid[]) AND status = 'confirmed'`,
		len(o.redriven), o.redriven); err != nil {
		return fmt.Errorf("redriven: %w", err)
	}
	if err := o.until(ctx, `SELECT count(*) = 1 FROM orders WHERE product_id = $1 AND order_id = $2::text::uuid AND reason = 'failed'`, string(dropped)); err != nil {
		return fmt.Errorf("dropped: %w", err)
	}
	if left, err := o.letters(ctx); err != nil || len(left) > 0 {
		return fmt.Errorf("still parked: %v, %w", left, err)
	}
	return nil
}

// takeBack cancels a redriven order and the first confirmed one of before, each twice.
func (o *operators) takeBack(ctx context.Context) error {
	var first order.ID
	if err := o.conn.QueryRow(ctx, `SELECT order_id::text FROM orders WHERE product_id = $1 AND status = 'confirmed' ORDER BY seq LIMIT 1`,
		string(o.product)).Scan(&first); err != nil {
		return fmt.Errorf("find an order to take back: %w", err)
	}
	taken := []order.ID{first, o.redriven[0]}
	for _, id := range taken {
		path := "/v1/products/" + string(o.product) + "/orders/" + string(id) + "/cancel"
		for range 2 { // a second one, sent before the first is judged or refused after it, gives nothing back
			if err := sale.Operate(ctx, o.target, http.MethodPost, path, struct{}{}); err != nil && !strings.Contains(err.Error(), "status 409") {
				return err
			}
		}
	}
	return o.until(ctx, `SELECT count(*) = 2 FROM orders WHERE product_id = $1 AND order_id = ANY ($2::text[]::uuid[]) AND status = 'cancelled'`, taken)
}

func (o *operators) call(ctx context.Context, verb string) error {
	return sale.Operate(ctx, o.target, http.MethodPost, "/v1/products/"+string(o.product)+"/"+verb, struct{}{})
}

func (o *operators) letters(ctx context.Context) ([]parkedLetter, error) {
	out, err := o.consumer(ctx, "dead-letters", "list", "--json")
	if err != nil {
		return nil, err
	}
	var page struct {
		Letters []parkedLetter `json:"dead_letters"`
	}
	if err := json.Unmarshal(out, &page); err != nil {
		return nil, fmt.Errorf("dead-letters list: %w", err)
	}
	return page.Letters, nil
}

func (o *operators) consumer(ctx context.Context, args ...string) ([]byte, error) {
	var out, said bytes.Buffer
	if err := o.stack.Run(ctx, &out, &said, local.Consumer, args...); err != nil {
		return nil, fmt.Errorf("order-consumer %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return out.Bytes(), nil
}

// until polls a question about the product, its first parameter, until the answer is yes.
func (o *operators) until(ctx context.Context, question string, args ...any) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var yes bool
		if err := o.conn.QueryRow(ctx, question, append([]any{string(o.product)}, args...)...).Scan(&yes); err != nil {
			return fmt.Errorf("%s: %w", question, err)
		}
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", question, ctx.Err())
		case <-ticker.C:
		}
	}
}
