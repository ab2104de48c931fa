package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// newBooks gives books in a database of the test's own; what they tell goes to the test's log, and into told.
func newBooks(t *testing.T) (b *books, told *strings.Builder) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), localtest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	told = &strings.Builder{}
	b = &books{pool: pool, log: slog.New(slog.NewTextHandler(told, nil))}
	for range 2 {
		if err := b.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return b, told
}

// history makes events of one product as the ledger would: numbered, with sums that hold.
type history struct {
	product     product.ID
	events      []event
	total, sold int64
}

func (h *history) add(t *testing.T, e order.Event) event {
	t.Helper()
	e.Product, e.Seq = h.product, int64(len(h.events)+1)
	switch e.Type {
	case order.Confirmed:
		h.sold += int64(*e.Quantity)
	case order.Cancelled:
		if e.Quantity != nil {
			h.sold -= int64(*e.Quantity)
		}
	case order.StockAdjusted:
		h.total += *e.Delta
	case order.Rejected:
	}
	e.LeftAfter = h.total - h.sold
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	made, err := decodeData(fmt.Sprintf("%s-event-%d", h.product, e.Seq), data)
	if err != nil {
		t.Fatal(err)
	}
	h.events = append(h.events, made)
	return made
}

func (h *history) order(n int) *order.ID {
	id := order.ID(fmt.Sprintf("%s-order-%d", h.product, n))
	return &id
}

func (h *history) adjust(t *testing.T, delta int64) event {
	t.Helper()
	return h.add(t, order.Event{Type: order.StockAdjusted, Delta: &delta})
}

func (h *history) confirm(t *testing.T, n, quantity int) event {
	t.Helper()
	return h.add(t, order.Event{Type: order.Confirmed, OrderID: h.order(n), Quantity: &quantity})
}

func (h *history) reject(t *testing.T, n int) event {
	t.Helper()
	reason := order.ReasonSoldOut
	return h.add(t, order.Event{Type: order.Rejected, OrderID: h.order(n), Reason: &reason})
}

// cancel takes an order back; quantity 0 is a cancel that overtook its order.
func (h *history) cancel(t *testing.T, n, quantity int) event {
	t.Helper()
	e := order.Event{Type: order.Cancelled, OrderID: h.order(n)}
	reason := order.ReasonCancelledBefore
	if quantity > 0 {
		reason, e.Quantity = order.ReasonOperator, &quantity
	}
	e.Reason = &reason
	return h.add(t, e)
}

// sum is a product's row.
type sum struct{ Seq, Total, Sold int64 }

func sumOf(t *testing.T, b *books, product product.ID) (s sum) {
	t.Helper()
	row := b.pool.QueryRow(t.Context(), `SELECT seq, total, sold FROM bookkeeper.products WHERE product = $1`, string(product))
	if err := row.Scan(&s.Seq, &s.Total, &s.Sold); err != nil {
		t.Fatal(err)
	}
	return s
}

// ordersOf are a product's orders, each as "id state quantity".
func ordersOf(t *testing.T, b *books, product product.ID) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `
SELECT order_id || ' ' || state || ' ' || coalesce(quantity::text, '-') FROM bookkeeper.orders WHERE product = $1 ORDER BY order_id`, string(product))
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wanted is what a history comes to, read once from its first event to its last.
func (h *history) wanted() (sum, []string) {
	states := map[string]string{}
	for _, e := range h.events {
		quantity := "-"
		if e.Quantity != nil {
			quantity = fmt.Sprint(*e.Quantity)
		}
		switch e.Type {
		case confirmed:
			states[e.OrderID] = "confirmed " + quantity
		case rejected:
			states[e.OrderID] = "rejected " + quantity
		case cancelled:
			states[e.OrderID] = "cancelled " + quantity
		}
	}
	var list []string
	for id, state := range states {
		list = append(list, id+" "+state)
	}
	slices.Sort(list)
	return sum{int64(len(h.events)), h.total, h.sold}, list
}

func (h *history) check(t *testing.T, b *books) {
	t.Helper()
	total, orders := h.wanted()
	if diff := cmp.Diff(total, sumOf(t, b, h.product)); diff != "" {
		t.Errorf("sums of %s:\n%s", h.product, diff)
	}
	if diff := cmp.Diff(orders, ordersOf(t, b, h.product)); diff != "" {
		t.Errorf("orders of %s:\n%s", h.product, diff)
	}
}

func enter(t *testing.T, b *books, events ...event) {
	t.Helper()
	if err := b.enter(t.Context(), events[0].Product, events); err != nil {
		t.Fatal(err)
	}
}
