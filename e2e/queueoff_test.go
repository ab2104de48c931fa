package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/e2e/sale"
	"hanjul/pkg/kafka"
)

// placed is what one try of an order was answered.
type placed struct {
	Status  int    `json:"-"`
	OrderID string `json:"order_id"`
	State   any    `json:"status"` // of the order; of a problem it is the number
}

// place sends an order without a pass.
func place(ctx context.Context, api, user, key string) (placed, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, api+"/v1/products/direct/orders", strings.NewReader(`{"quantity":1}`))
	if err != nil {
		return placed{}, err
	}
	for name, value := range map[string]string{"Hanjul-User": user, "Idempotency-Key": key, "Content-Type": "application/json"} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return placed{}, err
	}
	defer func() { _ = response.Body.Close() }() // read to its end, or the error tells
	p := placed{Status: response.StatusCode}
	if err := json.NewDecoder(response.Body).Decode(&p); err != nil {
		return p, err
	}
	return p, nil
}

// sellWithoutQueue switches the queue off while nobody is served, sells everything to people who have no pass and try until they know, and
// switches it on again: each key is one order, the units are sold once, and the books balance.
func sellWithoutQueue(t *testing.T, stack *local.Stack, target sale.Stack) {
	t.Helper()
	const people, stock = 60, 40
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	operate := func(path string) {
		t.Helper()
		if err := sale.Operate(ctx, target, http.MethodPost, "/v1/products/direct/"+path, struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := sale.Open(ctx, target, "direct", stock, settings()); err != nil {
		t.Fatal(err)
	}
	api := target.APIs[0]
	if p, err := place(ctx, api, "early", "k"); err != nil || p.Status != http.StatusUnauthorized {
		t.Fatal(p, err) // the queue is on
	}
	operate("queue-off")
	verdicts, ids := map[string]int{}, map[string]bool{}
	var mu sync.Mutex
	var buying sync.WaitGroup
	for n := range people {
		buying.Go(func() {
			id, pause := "", kafka.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}
			for ctx.Err() == nil {
				p, err := place(ctx, api, fmt.Sprint("buyer-", n), "k")
				if p.OrderID != "" && id != "" && p.OrderID != id {
					t.Errorf("order %s, then %s", id, p.OrderID)
				}
				id = p.OrderID
				switch {
				case err != nil:
					t.Error(err)
					return
				case p.Status == http.StatusOK, p.Status == http.StatusConflict:
					mu.Lock()
					defer mu.Unlock()
					verdicts[fmt.Sprint(p.Status, " ", p.State)]++
					ids[id] = true
					return
				}
				if err := pause.Wait(ctx); err != nil { // until the settings are there, and the verdict
					return
				}
			}
		})
	}
	buying.Wait()
	operate("queue-on")
	if ctx.Err() != nil || verdicts["200 confirmed"] != stock || len(ids) != people {
		t.Fatalf("%v, %d ids", verdicts, len(ids))
	}
	if out := auditOf(t, stack, "direct", ""); !strings.HasSuffix(out, "audit: ok\n") {
		t.Fatal(out)
	}
}
