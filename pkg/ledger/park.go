package ledger

import (
	"strings"
	"unicode/utf8"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// foreign parks a command about an order that is another product's. A copy of one that was met before that order was keeps what it
// came to then, else a redelivery would park what the first delivery had not.
func (c *court) foreign(i int, cmd order.Command) Verdict {
	if c.parked(cmd) {
		return Verdict{Outcome: StillParked, Kind: cmd.Kind, Product: cmd.Product}
	}
	if row, found := c.commands[cmd.ID]; found && cmd.Kind != order.KindPlace {
		return Verdict{Outcome: Known, Kind: cmd.Kind, Product: cmd.Product, Command: &row}
	}
	return c.park(i, Park{Reason: ParkForeign, Product: cmd.Product})
}

// parked says whether a copy of the command waits for an operator.
func (c *court) parked(cmd order.Command) bool {
	if cmd.Kind == order.KindPlace {
		return c.parkedO[cmd.OrderID]
	}
	return c.parkedC[cmd.ID]
}

// parkUnlessKnown parks a record that the caller could not let through; a copy of what was judged or parked before changes nothing.
func (c *court) parkUnlessKnown(i int, p Park) Verdict {
	if row, found := c.orders[p.OrderID]; found && p.OrderID != "" {
		return Verdict{Outcome: Known, Kind: order.KindPlace, Product: row.Product, Order: &row}
	}
	if row, found := c.commands[p.CommandID]; found && p.CommandID != "" {
		return Verdict{Outcome: Known, Kind: row.Kind, Product: row.Product, Command: &row}
	}
	if p.OrderID != "" && c.parkedO[p.OrderID] || p.CommandID != "" && c.parkedC[p.CommandID] {
		return Verdict{Outcome: StillParked, Product: p.Product}
	}
	return c.park(i, p)
}

func (c *court) park(i int, p Park) Verdict {
	if p.OrderID != "" {
		c.parkedO[p.OrderID] = true
	}
	if p.CommandID != "" {
		c.parkedC[p.CommandID] = true
	}
	c.letters = append(c.letters, letter{i, p})
	return Verdict{Outcome: Parked, Product: p.Product, Park: p.Reason}
}

// under parks a verified command under its own id.
func under(cmd order.Command, reason string) Park {
	if cmd.Kind == order.KindPlace {
		return Park{Reason: reason, Product: cmd.Product, OrderID: cmd.OrderID}
	}
	return Park{Reason: reason, Product: cmd.Product, CommandID: cmd.ID}
}

// usable drops ids that the ledger could not keep: such a record is parked without one.
func (p Park) usable() Park {
	if _, err := order.ParseID(string(p.OrderID)); err != nil {
		p.OrderID = ""
	}
	if len(p.CommandID) > 128 || !storable(p.CommandID) {
		p.CommandID = ""
	}
	if _, err := product.ParseID(string(p.Product)); err != nil {
		p.Product = ""
	}
	return p
}

// unstorable finds a text that Postgres cannot hold, before the transaction would fail on it and hold up everything behind: a zero
// byte, or bytes that are no UTF-8. named says that the command's own id can be held.
func unstorable(cmd order.Command) (reason string, named bool) {
	named = storable(cmd.ID)
	if named && storable(cmd.IdempotencyKey) && storable(string(cmd.User)) {
		return "", true
	}
	return ParkUnstorable, named
}

func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
