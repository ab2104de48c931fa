package ledger

import (
	"testing"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Replayed is what the tables should hold after a log: the pure decision, one command after the other, without a database.
type Replayed struct {
	Orders   map[order.ID]OrderRow
	Commands map[string]CommandRow
	Letters  map[int64]Park // by offset
	Events   []order.Event  // of all products, in log order
	EventIDs []string
	Stock    map[product.ID]Stock
}

// Replay decides a log sequentially over products with these totals and one limit per user.
func Replay(t testing.TB, log []Input, totals map[product.ID]int64, limit int64) Replayed {
	t.Helper()
	m := newModel(limit, totals)
	for _, in := range log {
		m.judge(t, Batch{Commands: []Input{in}})
	}
	return Replayed{Orders: m.orders, Commands: m.commands, Letters: m.letters, Events: m.events, EventIDs: m.ids, Stock: shelves(m)}
}
