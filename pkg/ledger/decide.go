package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// books is what the judge read under the lock of the batch's products.
type books struct {
	at       time.Time // by the database's clock
	shelves  map[product.ID]shelf
	orders   map[order.ID]OrderRow
	keys     map[keyOf]order.ID
	places   map[placeOf]order.ID
	commands map[string]CommandRow
	units    map[userOf]int64       // confirmed units
	parkedO  map[order.ID]bool      // dead letters that wait for an operator or were dropped by one, by order id
	parkedC  map[string]bool        // and by command id
	redriven map[order.ID]time.Time // dead letters that were sent again, with the time of their first record
}

// shelf is a product's stock with what is judged beside it.
type shelf struct {
	Stock
	userLimit int64
}

type userOf struct {
	product product.ID
	user    product.UserHash
}

type keyOf struct {
	userOf
	key string
}

type placeOf struct {
	userOf
	place product.Place
}

// fact is an event with the id of its outbox row.
type fact struct {
	id          string
	event       order.Event
	traceparent string
}

// letter is a record that goes to the dead letters, with its index in the batch.
type letter struct {
	index int
	Park
}

// decision is what a batch changes and answers.
type decision struct {
	inserts  []OrderRow
	cancels  []OrderRow
	commands []CommandRow
	facts    []fact
	letters  []letter
	changed  []product.ID // products whose shelf differs, sorted
	shelves  map[product.ID]shelf
	result   Result
}

// court is a batch on its way through decide: the books as they stand after the commands so far.
type court struct {
	books
	fresh   map[order.ID]bool // rows to insert
	updated map[order.ID]bool // rows to update
	loads   map[product.ID]bool
	facts   []fact
	made    []CommandRow
	letters []letter
}

// decide judges a batch in log order against the books. It is pure: the same batch and books give the same decision, and the
// books are not changed. The rules are JOINT 2.4, F2, F6, F11, F16 and F20: what is known keeps its verdict; what is parked stays
// parked; stock moves only here; every verdict on an order, yes or no, takes the product's next seq.
func decide(b Batch, s books) decision {
	c := court{
		books: books{
			at: s.at, shelves: maps.Clone(s.shelves), orders: maps.Clone(s.orders), keys: maps.Clone(s.keys),
			places: maps.Clone(s.places), commands: maps.Clone(s.commands), units: maps.Clone(s.units),
			parkedO: maps.Clone(s.parkedO), parkedC: maps.Clone(s.parkedC), redriven: s.redriven,
		},
		fresh: map[order.ID]bool{}, updated: map[order.ID]bool{}, loads: map[product.ID]bool{},
	}
	verdicts := make([]Verdict, len(b.Commands))
	for i, in := range b.Commands {
		verdicts[i] = c.judge(i, in)
	}
	d := decision{commands: c.made, facts: c.facts, letters: c.letters, shelves: c.shelves}
	for id := range c.fresh {
		d.inserts = append(d.inserts, c.orders[id])
	}
	for id := range c.updated {
		d.cancels = append(d.cancels, c.orders[id])
	}
	slices.SortFunc(d.inserts, byID)
	slices.SortFunc(d.cancels, byID)
	d.result.Verdicts = verdicts
	for _, p := range slices.Sorted(maps.Keys(c.shelves)) {
		now := c.shelves[p]
		if now != s.shelves[p] {
			d.changed = append(d.changed, p)
		}
		d.result.Settlements = append(d.result.Settlements, Settlement{Product: p, Base: now.Left(), Seq: now.Seq, Load: c.loads[p]})
	}
	return d
}

func byID(a, b OrderRow) int { return cmp.Compare(a.OrderID, b.OrderID) }

func (c *court) judge(i int, in Input) Verdict {
	if in.Park != nil {
		return c.parkUnlessKnown(i, in.Park.usable())
	}
	cmd := in.Command
	if reason, named := unstorable(cmd); reason != "" {
		p := Park{Reason: reason, Product: cmd.Product}
		if named {
			p = under(cmd, reason)
		}
		return c.parkUnlessKnown(i, p)
	}
	if concernsOrder(cmd.Kind) {
		if row, found := c.orders[cmd.OrderID]; found && row.Product != cmd.Product {
			return c.foreign(i, cmd)
		}
	}
	if known, found := c.known(cmd); found {
		return known
	}
	if c.parked(cmd) {
		return Verdict{Outcome: StillParked, Kind: cmd.Kind, Product: cmd.Product}
	}
	if _, found := c.shelves[cmd.Product]; !found {
		return c.park(i, under(cmd, ParkNoStock))
	}
	switch cmd.Kind {
	case order.KindPlace:
		return c.place(i, in)
	case order.KindCancel:
		return c.cancel(in)
	case order.KindVoid:
		return c.void(in)
	case order.KindDrop:
		return c.drop(in)
	case order.KindAdjust:
		return c.adjust(in)
	case order.KindLoadStock:
		c.loads[cmd.Product] = true
		return c.answer(cmd, CommandDone, 0, nil)
	}
	return c.park(i, under(cmd, "unknown_kind")) // decoding refuses other kinds; this is for a caller that does not
}

// known finds the verdict that a copy of the command already has.
func (c *court) known(cmd order.Command) (Verdict, bool) {
	v := Verdict{Outcome: Known, Kind: cmd.Kind, Product: cmd.Product}
	if cmd.Kind == order.KindPlace {
		row, found := c.orders[cmd.OrderID]
		v.Order = &row
		return v, found
	}
	row, found := c.commands[cmd.ID]
	if !found {
		return Verdict{}, false
	}
	v.Command = &row
	if about, has := c.orders[cmd.OrderID]; has && concernsOrder(cmd.Kind) {
		v.Order = &about
	}
	if _, stocked := c.shelves[cmd.Product]; stocked && cmd.Kind == order.KindLoadStock {
		c.loads[cmd.Product] = true // the batch may be redone because its settle was not reached
	}
	return v, true
}

func (c *court) place(i int, in Input) Verdict {
	cmd := in.Command
	who := userOf{cmd.Product, in.User}
	if holder, taken := c.places[placeOf{who, cmd.Place}]; taken && cmd.Place > 0 && holder != cmd.OrderID {
		return c.park(i, under(cmd, ParkPlaceTaken))
	}
	row := OrderRow{
		OrderID: cmd.OrderID, Product: cmd.Product, UserID: cmd.User, User: in.User, Place: cmd.Place, Quantity: cmd.Quantity,
		State: order.StateRejected, Version: 1, Digest: order.Digest(cmd.Quantity, cmd.IdempotencyKey), JudgedAt: c.at,
	}
	key := keyOf{who, cmd.IdempotencyKey}
	first, taken := c.keys[key]
	taken = taken && cmd.IdempotencyKey != ""
	stock, q := c.shelves[cmd.Product], int64(cmd.Quantity)
	at := in.At
	if first, again := c.redriven[cmd.OrderID]; again && first.Before(at) {
		at = first // late is who sent late (F10); the wait for the operator was not the user's
	}
	switch {
	case at.UnixMilli() > cmd.DeadlineMS:
		row.Reason = order.ReasonExpired
	case taken:
		row.Reason, row.DuplicateOf = order.ReasonDuplicateKey, first
	case c.units[who]+q > stock.userLimit:
		row.Reason = order.ReasonLimit
	case stock.Sold+q > stock.Total:
		row.Reason = order.ReasonSoldOut
	default:
		row.State = order.StateConfirmed
		stock.Sold += q
		c.units[who] += q
		c.shelves[cmd.Product] = stock
	}
	if cmd.IdempotencyKey != "" && !taken { // whatever the verdict, the first order of a key has it
		row.IdemKey = cmd.IdempotencyKey
		c.keys[key] = cmd.OrderID
	}
	if cmd.Place > 0 {
		c.places[placeOf{who, cmd.Place}] = cmd.OrderID
	}
	kind := order.Rejected
	if row.State == order.StateConfirmed {
		kind = order.Confirmed
	}
	row = c.record(row, kind, nil, cmd.Traceparent)
	return Verdict{Outcome: Judged, Kind: cmd.Kind, Product: cmd.Product, Order: &row}
}

// cancel: a confirmed order gives its units back; an order that nobody has seen yet gets a tombstone, so that its place finds itself
// known; anything else stays as it is (F6).
func (c *court) cancel(in Input) Verdict {
	cmd := in.Command
	row, found := c.orders[cmd.OrderID]
	switch {
	case !found:
		row = OrderRow{
			OrderID: cmd.OrderID, Product: cmd.Product, UserID: cmd.User, User: in.User,
			State: order.StateCancelled, Reason: order.ReasonCancelledBefore, Version: 2, JudgedAt: c.at,
		}
	case row.State == order.StateConfirmed:
		stock := c.shelves[cmd.Product]
		stock.Sold -= int64(row.Quantity)
		c.shelves[cmd.Product] = stock
		if who := (userOf{row.Product, row.User}); c.units[who] > 0 {
			c.units[who] -= int64(row.Quantity)
		}
		row.State, row.Reason, row.Version, row.JudgedAt = order.StateCancelled, order.ReasonOperator, 2, c.at
	default:
		return c.answer(cmd, CommandNothing, 0, &row)
	}
	row = c.record(row, order.Cancelled, &cmd.ID, cmd.Traceparent)
	return c.answer(cmd, CommandDone, row.Seq, &row)
}

// drop gives a parked order that an operator gave up its verdict (F20). One that has a verdict by now keeps it.
func (c *court) drop(in Input) Verdict {
	cmd := in.Command
	if row, found := c.orders[cmd.OrderID]; found {
		return c.answer(cmd, CommandNothing, 0, &row)
	}
	row := OrderRow{
		OrderID: cmd.OrderID, Product: cmd.Product, UserID: cmd.User, User: in.User,
		State: order.StateRejected, Reason: order.ReasonFailed, Version: 1, JudgedAt: c.at,
	}
	row = c.record(row, order.Rejected, &cmd.ID, cmd.Traceparent)
	return c.answer(cmd, CommandDone, row.Seq, &row)
}

// void gives an id that nobody can account for its one verdict (F2). A parked order is accounted for: it waits for an operator, or, redriven
// or dropped by one, is on its way back.
func (c *court) void(in Input) Verdict {
	cmd := in.Command
	if row, found := c.orders[cmd.OrderID]; found {
		return c.answer(cmd, CommandNothing, 0, &row)
	}
	if _, redriven := c.redriven[cmd.OrderID]; redriven || c.parkedO[cmd.OrderID] {
		return c.answer(cmd, CommandNothing, 0, nil)
	}
	row := OrderRow{
		OrderID: cmd.OrderID, Product: cmd.Product, User: in.User,
		State: order.StateRejected, Reason: order.ReasonExpired, Version: 1, JudgedAt: c.at,
	}
	row = c.record(row, order.Rejected, &cmd.ID, cmd.Traceparent)
	return c.answer(cmd, CommandDone, row.Seq, &row)
}

func (c *court) adjust(in Input) Verdict {
	cmd := in.Command
	stock := c.shelves[cmd.Product]
	if stock.Total+cmd.Delta < stock.Sold {
		return c.answer(cmd, CommandRefused, 0, nil)
	}
	stock.Total += cmd.Delta
	c.shelves[cmd.Product] = stock
	seq := c.tell(order.CommandEventID(cmd.ID), order.Event{
		Type: order.StockAdjusted, Product: cmd.Product, Delta: &cmd.Delta, CommandID: &cmd.ID,
	}, cmd.Traceparent)
	return c.answer(cmd, CommandDone, seq, nil)
}

// record writes an order's row with its event. The row is inserted unless it was there before the batch.
func (c *court) record(row OrderRow, kind order.EventType, commandID *string, traceparent string) OrderRow {
	e := order.Event{Type: kind, Product: row.Product, OrderID: &row.OrderID, CommandID: commandID}
	if row.UserID != "" {
		e.User = &row.UserID
	}
	if row.Place > 0 {
		e.Place = &row.Place
	}
	if row.Quantity > 0 {
		e.Quantity = &row.Quantity
	}
	if row.Reason != "" {
		e.Reason = &row.Reason
	}
	row.Seq = c.tell(order.OrderEventID(row.OrderID, row.Version), e, traceparent)
	if _, found := c.orders[row.OrderID]; !found {
		c.fresh[row.OrderID] = true
	} else if !c.fresh[row.OrderID] {
		c.updated[row.OrderID] = true
	}
	c.orders[row.OrderID] = row
	return row
}

// tell adds an event with the product's next seq, after the stock was moved.
func (c *court) tell(id string, e order.Event, traceparent string) int64 {
	stock := c.shelves[e.Product]
	stock.Seq++
	c.shelves[e.Product] = stock
	e.Seq, e.LeftAfter, e.At = stock.Seq, stock.Left(), c.at.UTC()
	c.facts = append(c.facts, fact{id, e, printable(traceparent)})
	return stock.Seq
}

func (c *court) answer(cmd order.Command, result string, seq int64, about *OrderRow) Verdict {
	row := CommandRow{CommandID: cmd.ID, Product: cmd.Product, Kind: cmd.Kind, Result: result, Seq: seq, JudgedAt: c.at}
	c.commands[cmd.ID] = row
	c.made = append(c.made, row)
	return Verdict{Outcome: Judged, Kind: cmd.Kind, Product: cmd.Product, Order: about, Command: &row}
}

func concernsOrder(k order.Kind) bool {
	return k == order.KindPlace || k == order.KindCancel || k == order.KindVoid || k == order.KindDrop
}

// printable keeps a trace context that is plain ASCII; a broken one is no reason to hold an order back.
func printable(traceparent string) string {
	if len(traceparent) > 128 {
		return ""
	}
	for i := range len(traceparent) {
		if traceparent[i] < 0x20 || traceparent[i] > 0x7e {
			return ""
		}
	}
	return traceparent
}
