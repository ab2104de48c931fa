package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/deploy/local"
	"hanjul/pkg/product"
)

// TestPaymentRecipe sells, has half of the orders paid (each payment told twice, and one beside it), and lets the time of the others be over
// while two tills chase them and one after the other is killed. Unpaid orders end cancelled and their units are back once, paid ones stay; late payments
// are to be given back; a replay cancels nothing twice; read again into tables that kept the payments only, the bills are the same.
func TestPaymentRecipe(t *testing.T) {
	t.Parallel()
	inKafka(t)
	stack := start(t, 1)
	conn := ledgerOf(t, stack)
	const p = product.ID("billed")
	report := hold(t, stack, p, 60, 20, false, false)

	ports := []string{freePort(t), freePort(t)}
	flags := func(n int) []string {
		return []string{"-session", "6s", "-pay-within", "1h", "-listen", ports[n], "-operator", stack.OperatorURLs()[0]}
	}
	tills := []*local.Process{bookkeeper(t, stack, "till-1", "tills", flags(0)...), bookkeeper(t, stack, "till-2", "tills", flags(1)...)}
	keptUp(t, conn, p)
	rows, err := conn.Query(t.Context(), `SELECT order_id::text FROM orders WHERE product_id = $1 AND status = 'confirmed' ORDER BY order_id`, string(p))
	if err != nil {
		t.Fatal(err)
	}
	orders, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(orders) < 10 {
		t.Fatalf("%d orders are confirmed: %v", len(orders), err)
	}
	paid, unpaid := orders[:len(orders)/2], orders[len(orders)/2:]
	for n, order := range paid {
		for range 2 {
			tell(t, ports[n%2], order, "payment-of-"+order, "taken")
		}
	}
	tell(t, ports[0], paid[0], "another", "refund")

	if _, err := conn.Exec(t.Context(), `UPDATE bookkeeper.bills SET due = now() WHERE state = 'unpaid'`); err != nil {
		t.Fatal(err)
	}
	for n, till := range []*local.Process{tills[0], tills[1], tills[0]} {
		await(t, "some more are asked for", func(ctx context.Context) (bool, error) {
			asked, err := number(ctx, conn, `SELECT count(*) FROM operator_actions WHERE product_id = $1 AND action = 'cancel'`, string(p))
			return asked > int64(n), err
		})
		till.Kill()
		if err := till.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		members(t, stack, "tills", len(tills))
	}
	settled := func() {
		t.Helper()
		await(t, "every bill is paid or cancelled", func(ctx context.Context) (bool, error) {
			open, err := number(ctx, conn, `SELECT $1 - count(*) FROM bookkeeper.bills WHERE state IN ('paid', 'cancelled')`, len(orders))
			return open == 0, err
		})
		keptUp(t, conn, p)
		for what, c := range map[string]struct {
			want  int
			query string
		}{
			"orders of the ledger that stand":           {len(paid), `SELECT count(*) FROM orders WHERE product_id = $1 AND status = 'confirmed' AND order_id::text = ANY ($2)`},
			"cancels that the operators' port took":     {len(unpaid), `SELECT count(*) FROM operator_actions WHERE product_id = $1 AND action = 'cancel' AND $2::text[] IS NOT NULL`},
			"cancelled events":                          {len(unpaid), `SELECT count(*) FROM outbox WHERE product_id = $1 AND type = 'hanjul.order.cancelled' AND $2::text[] IS NOT NULL`},
			"paid bills":                                {len(paid), `SELECT count(*) FROM bookkeeper.bills WHERE product = $1 AND state = 'paid' AND order_id = ANY ($2)`},
			"payments that were taken":                  {len(paid), `SELECT count(*) FROM bookkeeper.payments WHERE $1 <> '' AND state = 'taken' AND order_id = ANY ($2)`},
			"units that are sold, beyond those of paid": {0, `SELECT sold - (SELECT sum(quantity) FROM orders WHERE order_id::text = ANY ($2)) FROM stock WHERE product_id = $1`},
		} {
			if n, err := number(t.Context(), conn, c.query, string(p), paid); err != nil || n != int64(c.want) {
				t.Errorf("%s: %d, %v, expected %d", what, n, err, c.want)
			}
		}
	}
	settled()
	tell(t, ports[1], unpaid[0], "late", "refund")
	if out := auditOf(t, stack, p, report.Journal); !strings.HasSuffix(out, "audit: ok\n") {
		t.Errorf("the books after the cancels:\n%s", out)
	}

	replay(t, stack, p)
	readToTheEnd(t, stack, "tills")
	settled()

	for _, till := range tills {
		till.Stop(t.Context())
	}
	if _, err := conn.Exec(t.Context(), `TRUNCATE bookkeeper.products, bookkeeper.entered, bookkeeper.orders, bookkeeper.bills`); err != nil {
		t.Fatal(err)
	}
	bookkeeper(t, stack, "till-3", "tills-anew", flags(0)...)
	readToTheEnd(t, stack, "tills-anew")
	settled()
}

// freePort is an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// tell tells a till of a payment, as a provider does: until it is answered.
func tell(t *testing.T, addr, order, payment, want string) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	await(t, "payment "+payment+" is answered", func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+addr+"/orders/"+order+"/payments/"+payment, nil)
		if err != nil {
			return false, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return false, nil // away: told again
		}
		defer func() { _ = resp.Body.Close() }() // read as far as it matters
		var answer struct {
			State string `json:"state"`
		}
		if resp.StatusCode != http.StatusOK {
			return false, nil
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return false, err
		}
		if answer.State != want {
			return false, fmt.Errorf("it is %q, expected %q", answer.State, want)
		}
		return true, nil
	})
}
