package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// lockSQL is the judge's one lock: always these rows, always in this order, so that two consumers never wait for each other and a
// zombie waits until it finds everything known. Whatever is read later in the transaction was committed before.
const lockSQL = `
SELECT s.product_id, s.total, s.sold, s.seq, coalesce((p.settings->>'user_limit')::bigint, $2)
FROM stock s JOIN products p ON p.id = s.product_id
WHERE s.product_id = ANY ($1::text[])
ORDER BY s.product_id
FOR UPDATE OF s`

// asked is what the batch must know about.
type asked struct {
	products map[product.ID]struct{}
	orders   map[order.ID]struct{}
	commands map[string]struct{}
	users    map[userOf]struct{}
	keys     map[keyOf]struct{}
	places   map[placeOf]struct{}
}

func ask(b Batch) asked {
	a := asked{
		map[product.ID]struct{}{},
		map[order.ID]struct{}{},
		map[string]struct{}{},
		map[userOf]struct{}{},
		map[keyOf]struct{}{},
		map[placeOf]struct{}{},
	}
	for _, in := range b.Commands {
		if in.Park != nil {
			if p := in.Park.usable(); p.OrderID != "" {
				a.orders[p.OrderID] = struct{}{}
			} else if p.CommandID != "" {
				a.commands[p.CommandID] = struct{}{}
			}
			continue
		}
		cmd := in.Command
		a.products[cmd.Product] = struct{}{}
		if concernsOrder(cmd.Kind) {
			a.orders[cmd.OrderID] = struct{}{}
		}
		if cmd.Kind != order.KindPlace {
			if storable(cmd.ID) {
				a.commands[cmd.ID] = struct{}{}
			}
			continue
		}
		who := userOf{cmd.Product, in.User}
		a.users[who] = struct{}{}
		if cmd.IdempotencyKey != "" && storable(cmd.IdempotencyKey) {
			a.keys[keyOf{who, cmd.IdempotencyKey}] = struct{}{}
		}
		if cmd.Place > 0 {
			a.places[placeOf{who, cmd.Place}] = struct{}{}
		}
	}
	return a
}

// readBooks takes the lock and reads, under it, all that the batch is judged by. The reads travel together.
func readBooks(ctx context.Context, tx pgx.Tx, b Batch) (books, error) {
	a := ask(b)
	s := books{
		shelves: map[product.ID]shelf{}, orders: map[order.ID]OrderRow{}, keys: map[keyOf]order.ID{}, places: map[placeOf]order.ID{},
		commands: map[string]CommandRow{}, units: map[userOf]int64{}, parkedO: map[order.ID]bool{}, parkedC: map[string]bool{},
		redriven: map[order.ID]time.Time{},
	}
	if err := lockStock(ctx, tx, a, s); err != nil {
		return books{}, err
	}
	reads := &pgx.Batch{}
	reads.Queue("SELECT clock_timestamp()").QueryRow(func(row pgx.Row) error { return row.Scan(&s.at) })
	s.queueOrders(reads, a)
	s.queueCommands(reads, a)
	s.queueUsers(reads, a)
	if err := tx.SendBatch(ctx, reads).Close(); err != nil {
		return books{}, fmt.Errorf("read what is known: %w", err)
	}
	s.at = s.at.Truncate(time.Microsecond)
	return s, nil
}

func lockStock(ctx context.Context, tx pgx.Tx, a asked, s books) error {
	if len(a.products) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, lockSQL, texts(slices.Sorted(maps.Keys(a.products))), product.DefaultSettings().UserLimit)
	if err != nil {
		return fmt.Errorf("lock stock: %w", err)
	}
	var p product.ID
	var at shelf
	if _, err := pgx.ForEachRow(rows, []any{&p, &at.Total, &at.Sold, &at.Seq, &at.userLimit}, func() error {
		s.shelves[p] = at
		return nil
	}); err != nil {
		return fmt.Errorf("lock stock: %w", err)
	}
	return nil
}

func (s books) queueOrders(reads *pgx.Batch, a asked) {
	if len(a.orders) == 0 {
		return
	}
	ids := texts(slices.Collect(maps.Keys(a.orders)))
	reads.Queue(`SELECT `+orderColumns+` FROM orders WHERE order_id = ANY ($1::text[]::uuid[])`, ids).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanOrder)
		for _, row := range found {
			s.orders[row.OrderID] = row
		}
		return err
	})
	reads.Queue(`SELECT order_id::text, state = 'redriven', recorded_at FROM dead_letters WHERE order_id = ANY ($1::text[]::uuid[])`, ids).
		Query(func(rows pgx.Rows) error {
			var id order.ID
			var redriven bool
			var first time.Time
			_, err := pgx.ForEachRow(rows, []any{&id, &redriven, &first}, func() error {
				if redriven {
					s.redriven[id] = first
				} else {
					s.parkedO[id] = true
				}
				return nil
			})
			return err
		})
}

func (s books) queueCommands(reads *pgx.Batch, a asked) {
	if len(a.commands) == 0 {
		return
	}
	ids := slices.Collect(maps.Keys(a.commands))
	reads.Queue(`SELECT `+commandColumns+` FROM commands WHERE command_id = ANY ($1::text[])`, ids).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanCommand)
		for _, row := range found {
			s.commands[row.CommandID] = row
		}
		return err
	})
	reads.Queue(`SELECT command_id FROM dead_letters WHERE command_id = ANY ($1::text[]) AND state <> 'redriven'`, ids).
		Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, pgx.RowTo[string])
			for _, id := range found {
				s.parkedC[id] = true
			}
			return err
		})
}

// queueUsers reads what the users of the batch hold, and which of their keys and places an order has. LATERAL keeps each a probe
// of one index, however large the table has grown since its last analyze.
func (s books) queueUsers(reads *pgx.Batch, a asked) {
	if len(a.users) == 0 {
		return
	}
	var products, users, keys []string
	var places []int64
	for u := range a.users {
		products, users = append(products, string(u.product)), append(users, string(u.user))
	}
	reads.Queue(`
SELECT r.p, r.u, c.units FROM unnest($1::text[], $2::text[]) AS r(p, u)
CROSS JOIN LATERAL (SELECT coalesce(sum(quantity), 0)::bigint AS units FROM orders
                    WHERE product_id = r.p AND user_hash = r.u AND status = 'confirmed') AS c`, products, users).
		Query(func(rows pgx.Rows) error {
			var u userOf
			var units int64
			_, err := pgx.ForEachRow(rows, []any{&u.product, &u.user, &units}, func() error {
				s.units[u] = units
				return nil
			})
			return err
		})
	if len(a.keys) > 0 {
		products, users = nil, nil
		for k := range a.keys {
			products, users, keys = append(products, string(k.product)), append(users, string(k.user)), append(keys, k.key)
		}
		reads.Queue(`
SELECT r.p, r.u, r.k, o.order_id::text FROM unnest($1::text[], $2::text[], $3::text[]) AS r(p, u, k)
CROSS JOIN LATERAL (SELECT order_id FROM orders WHERE product_id = r.p AND user_hash = r.u AND idem_key = r.k LIMIT 1) AS o`,
			products, users, keys).
			Query(func(rows pgx.Rows) error {
				var k keyOf
				var id order.ID
				_, err := pgx.ForEachRow(rows, []any{&k.product, &k.user, &k.key, &id}, func() error {
					s.keys[k] = id
					return nil
				})
				return err
			})
	}
	if len(a.places) > 0 {
		products, users = nil, nil
		for p := range a.places {
			products, users, places = append(products, string(p.product)), append(users, string(p.user)), append(places, int64(p.place))
		}
		reads.Queue(`
SELECT r.p, r.u, r.n, o.order_id::text FROM unnest($1::text[], $2::text[], $3::bigint[]) AS r(p, u, n)
CROSS JOIN LATERAL (SELECT order_id FROM orders WHERE product_id = r.p AND user_hash = r.u AND place = r.n LIMIT 1) AS o`,
			products, users, places).
			Query(func(rows pgx.Rows) error {
				var p placeOf
				var id order.ID
				_, err := pgx.ForEachRow(rows, []any{&p.product, &p.user, &p.place, &id}, func() error {
					s.places[p] = id
					return nil
				})
				return err
			})
	}
}

// texts is what the driver encodes as text[].
func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
