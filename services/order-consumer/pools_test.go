package main

import (
	"fmt"
	"testing"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// P1: while every connection of the judge waits for a lock, statuses are looked up and rows are published all the same: each has
// connections of its own.
func TestAppWorksWhileTheJudgeWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code, _, stderr := call(t, w.environ(), "topics", "--create"); code != 0 {
		t.Fatalf("topics: %s", stderr)
	}
	const plum, fig = product.ID("plum"), product.ID("fig")
	c := w.client(t)
	ledgertest.Product(t, c.books, plum, 5)
	w.start(t, "HANJUL_CONSUMER_POSTGRES_CONNS=1", "HANJUL_CONSUMER_RELAY_POLL=20ms")
	first, one := c.place(plum, "ann", 1, 1)
	c.send(one)
	c.untilStatus(first, order.StateConfirmed, "")

	held, err := c.books.Pool().Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	defer func() { _ = held.Rollback(t.Context()) }()
	if _, err := held.Exec(t.Context(), `SELECT FROM stock WHERE product_id = $1 FOR UPDATE`, string(plum)); err != nil {
		t.Fatalf("lock: %v", err)
	}
	second, two := c.place(plum, "ben", 2, 1)
	c.send(two)
	untilCount := func(what string, want int, query string) {
		t.Helper()
		until(t, what, func() error {
			var n int
			err := c.books.Pool().QueryRow(t.Context(), query).Scan(&n)
			if err == nil && n != want {
				err = fmt.Errorf("%d of %d", n, want)
			}
			return err
		})
	}
	untilCount("the judge waits", 1, `SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'order-consumer' AND wait_event_type = 'Lock'`)

	// A status that Redis forgot.
	rdb := redisconn.New(redisconn.ClientOptions(redisconn.Config{Addrs: w.redis.Addrs}))
	defer func() { _ = rdb.Close() }()
	if n, err := rdb.Del(t.Context(), product.Keyspace{Prefix: w.redis.Prefix}.Status(string(first))).Result(); n != 1 || err != nil {
		t.Fatalf("forget: %d, %v", n, err)
	}
	user := product.HashUser(readKey(t, w.keys.User), "ann")
	if err := c.statuses.Want(t.Context(), orderstatus.Wanted{Product: plum, User: user, OrderID: first}); err != nil {
		t.Fatalf("want: %v", err)
	}
	c.untilStatus(first, order.StateConfirmed, "")

	// A row of the outbox.
	adjust, err := order.Command{Kind: order.KindAdjust, ID: "make-fig", Product: fig, Delta: 3}.Sign(readKey(t, w.keys.Command))
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	value, err := adjust.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	action := ledger.Action{RequestID: "make-fig", Operator: "test", Product: fig}
	if _, err := c.books.PutProduct(t.Context(), action, product.DefaultSettings(), &ledger.Movement{Delta: 3, Command: value}); err != nil {
		t.Fatalf("put product: %v", err)
	}
	untilCount("published", 1, `SELECT count(*) FROM outbox WHERE product_id = 'fig' AND published_at IS NOT NULL`)

	// Neither was done in a pause of the judge's, when a try of it had ended.
	untilCount("each has its own", 3, `SELECT count(DISTINCT application_name) FROM pg_stat_activity
WHERE datname = current_database() AND application_name IN ('order-consumer', 'order-consumer-reconcile', 'hanjul-relay')`)

	if known, err := c.books.OrdersByID(t.Context(), []order.ID{second}); err != nil || len(known) != 0 {
		t.Fatalf("judged although the lock is held: %v, %v", known, err)
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatalf("rollback: %v", err)
	}
	c.untilStatus(second, order.StateConfirmed, "")
}
