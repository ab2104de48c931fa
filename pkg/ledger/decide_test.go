package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// failer is what ends a test: rapid's and testing's own.
type failer interface {
	Fatalf(format string, args ...any)
}

// model is a ledger without a database: what decide wrote so far.
type model struct {
	books
	events  []order.Event
	ids     []string // of the events
	letters map[int64]Park
}

func newModel(limit int64, totals map[product.ID]int64) *model {
	m := &model{books: books{
		at: time.UnixMicro(1_800_000_000_000_000), shelves: map[product.ID]shelf{}, orders: map[order.ID]OrderRow{}, keys: map[keyOf]order.ID{},
		places: map[placeOf]order.ID{}, commands: map[string]CommandRow{}, units: map[userOf]int64{},
		parkedO: map[order.ID]bool{}, parkedC: map[string]bool{}, redriven: map[order.ID]time.Time{},
	}, letters: map[int64]Park{}}
	for p, total := range totals {
		m.shelves[p] = shelf{Stock: Stock{Total: total}, userLimit: limit}
	}
	return m
}

// restricted is what readBooks would find for the batch: nothing that the batch did not ask for.
func (m *model) restricted(b Batch) books {
	a := ask(b)
	s := books{
		at: m.at, shelves: map[product.ID]shelf{}, orders: map[order.ID]OrderRow{}, keys: map[keyOf]order.ID{},
		places: map[placeOf]order.ID{}, commands: map[string]CommandRow{}, units: map[userOf]int64{},
		parkedO: map[order.ID]bool{}, parkedC: map[string]bool{}, redriven: map[order.ID]time.Time{},
	}
	keep(s.redriven, m.redriven, a.orders)
	keep(s.shelves, m.shelves, a.products)
	keep(s.orders, m.orders, a.orders)
	keep(s.parkedO, m.parkedO, a.orders)
	keep(s.commands, m.commands, a.commands)
	keep(s.parkedC, m.parkedC, a.commands)
	keep(s.keys, m.keys, a.keys)
	keep(s.places, m.places, a.places)
	keep(s.units, m.units, a.users)
	return s
}

func keep[K comparable, V any](into, from map[K]V, asked map[K]struct{}) {
	for k := range asked {
		if v, found := from[k]; found {
			into[k] = v
		}
	}
}

// judge decides a batch on what it asked for, holds that against a decision on everything, and writes it down as the tables would.
func (m *model) judge(t failer, b Batch) Result {
	asked := m.restricted(b)
	before := fmt.Sprint(asked)
	d := decide(b, asked)
	if after := fmt.Sprint(asked); after != before {
		t.Fatalf("decide changed the books it was given:\n%s\n%s", before, after)
	}
	all := decide(b, m.books)
	if diff := cmp.Diff(all.result.Verdicts, d.result.Verdicts); diff != "" {
		t.Fatalf("the batch did not ask for all it is judged by:\n%s", diff)
	}
	for _, row := range d.inserts {
		if _, found := m.orders[row.OrderID]; found {
			t.Fatalf("order %s inserted twice", row.OrderID)
		}
		who := userOf{row.Product, row.User}
		if row.IdemKey != "" {
			if other, taken := m.keys[keyOf{who, row.IdemKey}]; taken {
				t.Fatalf("key %q of %s has order %s already", row.IdemKey, row.User, other)
			}
			m.keys[keyOf{who, row.IdemKey}] = row.OrderID
		}
		if row.Place > 0 {
			if other, taken := m.places[placeOf{who, row.Place}]; taken {
				t.Fatalf("place %d of %s has order %s already", row.Place, row.User, other)
			}
			m.places[placeOf{who, row.Place}] = row.OrderID
		}
		m.orders[row.OrderID] = row
	}
	for _, row := range d.cancels {
		if m.orders[row.OrderID].State != order.StateConfirmed {
			t.Fatalf("cancel of an order that is %s", m.orders[row.OrderID].State)
		}
		m.orders[row.OrderID] = row
	}
	for _, row := range d.commands {
		if _, found := m.commands[row.CommandID]; found {
			t.Fatalf("command %s inserted twice", row.CommandID)
		}
		m.commands[row.CommandID] = row
	}
	for _, f := range d.facts {
		m.events, m.ids = append(m.events, f.event), append(m.ids, f.id)
	}
	for _, l := range d.letters {
		offset := b.Commands[l.index].Offset
		if _, found := m.letters[offset]; found {
			continue // the table's unique key on the record
		}
		m.letters[offset] = l.Park
		if l.OrderID != "" {
			m.parkedO[l.OrderID] = true
		}
		if l.CommandID != "" {
			m.parkedC[l.CommandID] = true
		}
	}
	for _, p := range d.changed {
		m.shelves[p] = d.shelves[p]
	}
	m.recount()
	return d.result
}

// recount is the sum that the judge reads of the orders table.
func (m *model) recount() {
	clear(m.units)
	for _, row := range m.orders {
		if row.State == order.StateConfirmed {
			m.units[userOf{row.Product, row.User}] += int64(row.Quantity)
		}
	}
}

// check holds the model against the promises I1, I3, I5 and I9.
func (m *model) check(t *rapid.T) {
	sold := map[product.ID]int64{}
	for _, row := range m.orders {
		if row.State == order.StateConfirmed {
			sold[row.Product] += int64(row.Quantity)
		}
	}
	for p, s := range m.shelves {
		if s.Sold != sold[p] || s.Sold < 0 || s.Sold > s.Total {
			t.Fatalf("%s: sold %d of %d, confirmed %d", p, s.Sold, s.Total, sold[p])
		}
	}
	for who, n := range m.units {
		if n > m.shelves[who.product].userLimit {
			t.Fatalf("%s has %d units of %s", who.user, n, who.product)
		}
	}
	for id := range m.parkedO { // pending until an operator decides; only a cancel and a drop may
		if row, found := m.orders[id]; found && row.Reason != order.ReasonCancelledBefore && row.Reason != order.ReasonFailed {
			t.Fatalf("order %s is parked and %s(%s)", id, row.State, row.Reason)
		}
	}
	if ids := slices.Compact(slices.Sorted(slices.Values(m.ids))); len(ids) != len(m.ids) {
		t.Fatalf("an event id twice among %d", len(m.ids))
	}
	left, seq := map[product.ID]int64{}, map[product.ID]int64{}
	for p, total := range m.started() {
		left[p] = total
	}
	for _, e := range m.events {
		seq[e.Product]++
		switch e.Type {
		case order.Confirmed:
			left[e.Product] -= int64(*e.Quantity)
		case order.Cancelled:
			if *e.Reason == order.ReasonOperator {
				left[e.Product] += int64(*e.Quantity)
			}
		case order.StockAdjusted:
			left[e.Product] += *e.Delta
		}
		if e.Seq != seq[e.Product] || e.LeftAfter != left[e.Product] {
			t.Fatalf("event %+v: want seq %d, left %d", e, seq[e.Product], left[e.Product])
		}
	}
	for p, s := range m.shelves {
		if s.Seq != seq[p] || s.Left() != left[p] {
			t.Fatalf("%s: at seq %d with %d left; events say %d, %d", p, s.Seq, s.Left(), seq[p], left[p])
		}
	}
}

// started is the total of each product before its first event.
func (m *model) started() map[product.ID]int64 {
	totals := map[product.ID]int64{}
	for p, s := range m.shelves {
		totals[p] = s.Total
	}
	for _, e := range m.events {
		if e.Type == order.StockAdjusted {
			totals[e.Product] -= *e.Delta
		}
	}
	return totals
}

func orderID(n int) order.ID { return order.ID(fmt.Sprintf("00000000-0000-7000-8000-%012d", n)) }

// drawLog draws a log of one partition: two products with stock and one without, few users, few keys, copies of everything, cancels
// before and after their orders, voids, adjusts both ways, and records that do not verify.
func drawLog(t *rapid.T) []Input {
	base := time.UnixMilli(1_800_000_000_000)
	products := []product.ID{"p", "p", "p", "q", "none"}
	placeOfID := func(n int) order.Command { // an order id is a function of product, user and place, or key where there is no place
		user := product.UserID("u" + strconv.Itoa(n%4))
		c := order.Command{
			Version: 1, Kind: order.KindPlace, ID: string(orderID(n)), Product: products[n%5], OrderID: orderID(n), User: user,
			Place: product.Place(100 + n), Quantity: 1 + n%3, DeadlineMS: base.UnixMilli() + int64(n%7)*100,
			IdempotencyKey: []string{"", "", "a", "b", "zero\x00"}[n%11%5],
		}
		if c.IdempotencyKey != "" && n%2 == 0 {
			c.Place = 0
		}
		return c
	}
	hash := func(u product.UserID) product.UserHash { return product.UserHash("hash of " + u) }
	n := rapid.IntRange(1, 40).Draw(t, "length")
	log := make([]Input, 0, n)
	for i := range n {
		in := Input{Offset: int64(i), At: base.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "late")) * time.Millisecond)}
		about := placeOfID(rapid.IntRange(0, 30).Draw(t, "order"))
		id := fmt.Sprintf("c%d", rapid.IntRange(0, 20).Draw(t, "command"))
		switch rapid.SampledFrom([]string{"place", "place", "place", "place", "cancel", "void", "drop", "adjust", "load", "park", "clash", "foreign"}).Draw(t, "kind") {
		case "place":
			in.Command, in.User = about, hash(about.User)
		case "clash": // the same place under another order id
			about.Place = product.Place(100 + rapid.IntRange(0, 30).Draw(t, "place"))
			in.Command, in.User = about, hash(about.User)
		case "foreign": // an order id that another product has
			about.Product = "q"
			in.Command, in.User = about, hash(about.User)
		case "cancel":
			in.Command = order.Command{Kind: order.KindCancel, ID: "cancel " + id, Product: about.Product, OrderID: about.OrderID, User: about.User}
			in.User = hash(about.User)
		case "drop":
			in.Command = order.Command{Kind: order.KindDrop, ID: "drop " + id, Product: about.Product, OrderID: about.OrderID, User: about.User}
			in.User = hash(about.User)
		case "void":
			in.Command = order.Command{Kind: order.KindVoid, ID: order.VoidID(about.OrderID), Product: about.Product, OrderID: about.OrderID}
			in.User = hash(about.User)
		case "adjust":
			delta := int64(rapid.IntRange(-4, 6).Draw(t, "delta"))
			in.Command = order.Command{Kind: order.KindAdjust, ID: fmt.Sprintf("adjust %s %d", id, delta), Product: about.Product, Delta: delta}
		case "load":
			in.Command = order.Command{Kind: order.KindLoadStock, ID: "load " + id, Product: about.Product}
		case "park":
			in.Park = &Park{Reason: "test"}
			if rapid.Bool().Draw(t, "verified") {
				in.Park = &Park{Reason: "test", Product: about.Product, OrderID: about.OrderID}
			}
		}
		log = append(log, in)
	}
	return log
}

func drawModel(t *rapid.T) (*model, func() *model) {
	limit := int64(rapid.IntRange(1, 6).Draw(t, "limit"))
	p, q := int64(rapid.IntRange(0, 12).Draw(t, "p")), int64(rapid.IntRange(0, 3).Draw(t, "q"))
	fresh := func() *model { return newModel(limit, map[product.ID]int64{"p": p, "q": q}) }
	return fresh(), fresh
}

// One pass over any log, in batches cut anywhere, keeps the promises.
func TestDecideKeepsTheBooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, fresh := drawModel(t)
		log := drawLog(t)
		for rest := log; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			m.judge(t, Batch{Commands: rest[:n]})
			m.check(t)
			rest = rest[n:]
		}
		// How the log is cut into batches decides nothing.
		whole := fresh()
		whole.judge(t, Batch{Commands: log})
		same(t, whole, m)
	})
}

// Redelivery from any earlier offset, any number of times, changes nothing; neither do copies behind what they are copies of.
func TestDecideAbsorbsCopies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		once, fresh := drawModel(t)
		log := drawLog(t)
		once.judge(t, Batch{Commands: log})

		again := fresh()
		for at := 0; at < len(log); {
			from := rapid.IntRange(0, at).Draw(t, "redelivered from")
			to := rapid.IntRange(at+1, len(log)).Draw(t, "to")
			again.judge(t, Batch{Commands: log[from:to]})
			again.check(t)
			at = to
		}
		same(t, once, again)

		copies := rapid.Permutation(log).Draw(t, "copies")
		again.judge(t, Batch{Commands: copies})
		same(t, once, again)
	})
}

func same(t *rapid.T, want, got *model) {
	for _, pair := range [][2]any{
		{want.orders, got.orders},
		{want.commands, got.commands},
		{want.events, got.events},
		{want.ids, got.ids},
		{want.letters, got.letters},
		{shelves(want), shelves(got)},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Fatalf("books differ:\n%s", diff)
		}
	}
}

func shelves(m *model) map[product.ID]Stock {
	out := map[product.ID]Stock{}
	for p, s := range maps.All(m.shelves) {
		out[p] = s.Stock
	}
	return out
}
