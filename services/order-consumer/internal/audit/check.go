package audit

import (
	"fmt"
	"slices"

	"hanjul/pkg/journal"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Check holds the books against I1–I10 and returns a finding for each, in that order. It is pure.
func Check(b Books) Report {
	r := Report{Product: string(b.Product), Findings: []Finding{
		checkSold(b), checkJudged(b), checkOnce(b), checkPasses(b), checkLimit(b),
		checkNobodyLost(b), checkPlaces(b), checkPace(b), checkEvents(b), checkStock(b),
	}}
	if n := len(parked(b.Ledger.DeadLetters)); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d parked orders wait for an operator (order-consumer dead-letters list); they hold %d units", n, b.Line.HeldParked))
	}
	if b.Inc > 1 {
		r.Notes = append(r.Notes, "the line is at incarnation "+product.Place(b.Inc).String()+
			": Redis lost something; tally, admissions per second and records of ended people began anew at the restore")
	}
	return r
}

// checkSold is I1: units sold never exceed stock, and sold is the sum of the confirmed orders at every event.
func checkSold(b Books) Finding {
	f := look("I1")
	if b.Ledger.Total == 0 && len(b.Ledger.Orders) == 0 {
		return f.done()
	}
	var confirmed, orders int64
	for _, o := range b.Ledger.Orders {
		if o.State == order.StateConfirmed {
			confirmed += int64(o.Quantity)
			orders++
		}
	}
	f.saw(int(b.Ledger.Total), "units")
	f.saw(int(b.Ledger.Sold), "sold")
	f.saw(int(orders), "confirmed orders")
	if b.Ledger.Sold > b.Ledger.Total {
		f.fault("sold %d exceeds total %d", b.Ledger.Sold, b.Ledger.Total)
	}
	if confirmed != b.Ledger.Sold {
		f.fault("confirmed orders hold %d units, the stock row says sold %d", confirmed, b.Ledger.Sold)
	}
	for _, row := range b.Ledger.Outbox {
		if row.LeftAfter < 0 {
			f.fault("event seq %d leaves %d units", row.Seq, row.LeftAfter)
		}
	}
	return f.done()
}

// checkJudged is I2: what was accepted is in the log, what is in the log has one verdict, and the verdict can be read.
func checkJudged(b Books) Finding {
	f := look("I2")
	rows := make(map[order.ID]ledger.OrderRow, len(b.Ledger.Orders))
	for _, o := range b.Ledger.Orders {
		rows[o.OrderID] = o
	}
	commands := make(map[string]bool, len(b.Ledger.Commands))
	for _, c := range b.Ledger.Commands {
		commands[c.CommandID] = true
	}
	waiting := lettersOf(b)
	places, others := 0, 0
	inLog := map[order.ID]bool{}
	for _, rec := range b.Log.Records {
		if rec.Kind == order.KindPlace && rec.Decoded {
			inLog[rec.OrderID] = true
		}
		if rec.Offset >= b.Log.Committed {
			continue // in flight
		}
		_, judged := rows[rec.OrderID]
		if !rec.Decoded || !rec.Verified {
			// Of one that verifies, copies behind its dead letter and its verdict make no letters of their own.
			known := rec.Verified && (waiting.ids[rec.id()] || judged && rec.Kind == order.KindPlace || commands[rec.ID])
			if !waiting.offsets[rec.Offset] && !known {
				f.fault("offset %d does not verify and is in no dead letter", rec.Offset)
			}
			continue
		}
		if rec.Kind != order.KindPlace {
			others++
			if !commands[rec.ID] && !waiting.pending[rec.id()] && !waiting.nameless[rec.Offset] {
				f.fault("%s %s at offset %d is behind the committed offset and was neither judged nor parked", rec.Kind, rec.ID, rec.Offset)
			}
			continue
		}
		places++
		if !judged && !waiting.pending[rec.id()] && !waiting.nameless[rec.Offset] {
			f.fault("order %s at offset %d is behind the committed offset and has no verdict", rec.OrderID, rec.Offset)
		}
	}
	f.saw(places, "place commands in the log")
	f.saw(others, "other commands")
	f.saw(len(rows), "verdicts")

	accepted, told := 0, 0
	for _, e := range b.Journal {
		switch {
		case e.Call == journal.CallOrder && e.Status == 202:
			accepted++
			// A 202 says that Kafka acknowledged; the log may have been shortened since, the verdict stays.
			if _, judged := rows[e.OrderID]; !judged && !waiting.pending[string(e.OrderID)] && !inLog[e.OrderID] {
				f.fault("order %s was answered with 202 and is neither in the log nor judged", e.OrderID)
			}
		case e.OrderID != "" && isVerdict(order.State(e.State)):
			told++
			row, judged := rows[e.OrderID]
			later := row.State == order.StateCancelled && row.Reason == order.ReasonOperator && e.State == string(order.StateConfirmed)
			if !judged {
				f.fault("order %s was told to be %s and has no verdict", e.OrderID, e.State)
			} else if string(row.State) != e.State && !later {
				f.fault("order %s was told to be %s and is %s", e.OrderID, e.State, row.State)
			}
		}
	}
	f.saw(accepted, "answers 202")
	f.saw(told, "verdicts told")

	readable := 0
	for id, s := range b.Line.Statuses {
		row, judged := rows[id]
		if !judged || s.Version < order.VersionVerdict {
			continue
		}
		readable++
		if s.Version != row.Version+1 || s.State != row.State {
			f.fault("status of order %s reads %s (version %d), the row says %s (version %d)", id, s.State, s.Version, row.State, row.Version)
		}
	}
	f.saw(readable, "statuses in Redis")
	return f.done()
}

// checkOnce is I3: one row, one stock movement and one event for each of placed and cancelled.
func checkOnce(b Books) Finding {
	f := look("I3")
	seen := make(map[order.ID]bool, len(b.Ledger.Orders))
	for _, o := range b.Ledger.Orders {
		if seen[o.OrderID] {
			f.fault("order %s has two rows", o.OrderID)
		}
		seen[o.OrderID] = true
	}
	f.saw(len(seen), "orders")

	type fact struct {
		id  order.ID
		typ bool // cancelled
	}
	rowsOf := map[fact][]string{}
	returned := map[order.ID]order.Event{}
	for _, row := range b.Ledger.Outbox {
		if row.Event.OrderID != nil {
			if row.Type == order.Cancelled {
				returned[*row.Event.OrderID] = row.Event
			}
			k := fact{*row.Event.OrderID, row.Type == order.Cancelled}
			rowsOf[k] = append(rowsOf[k], row.ID)
		}
	}
	for _, o := range b.Ledger.Orders {
		placed, cancelled := len(rowsOf[fact{o.OrderID, false}]), len(rowsOf[fact{o.OrderID, true}])
		wantCancelled := 0
		if o.State == order.StateCancelled {
			wantCancelled = 1
		}
		if e, cancelled := returned[o.OrderID]; cancelled {
			checkReturn(f, o, e)
		}
		wantPlaced := 1
		if o.State == order.StateCancelled && o.Reason == order.ReasonCancelledBefore {
			wantPlaced = 0
		}
		if placed != wantPlaced || cancelled != wantCancelled {
			f.fault("order %s (%s) has %d verdict events and %d cancel events in the outbox", o.OrderID, o.State, placed, cancelled)
		}
	}
	for k, ids := range rowsOf {
		if !seen[k.id] {
			f.fault("outbox row %s tells of order %s, which has no row", ids[0], k.id)
		}
	}
	published := map[fact]string{}
	for _, e := range b.Events {
		if e.Event.OrderID == nil {
			continue
		}
		k := fact{*e.Event.OrderID, e.Event.Type == order.Cancelled}
		if before, again := published[k]; again && before != e.ID {
			f.fault("order %s was published as two events, %s and %s", k.id, before, e.ID)
		}
		published[k] = e.ID
	}
	f.saw(len(published), "events of orders")
	return f.done()
}

// checkLimit is I5: no user holds more confirmed units than the limit.
func checkLimit(b Books) Finding {
	f := look("I5")
	held := map[product.UserHash]int{}
	for _, o := range b.Ledger.Orders {
		if o.State == order.StateConfirmed {
			held[o.User] += o.Quantity
		}
	}
	most := 0
	for user, units := range held {
		most = max(most, units)
		if units > b.Settings.UserLimit {
			f.fault("user %s holds %d units, the limit is %d", user, units, b.Settings.UserLimit)
		}
	}
	if len(held) > 0 {
		f.saw(len(held), "users with confirmed units")
		f.saw(most, "units at most")
	}
	return f.done()
}

// checkEvents is I9: first occurrences are in order of seq, none is skipped, repeats carry the same id, and everything the
// ledger marked as published is there.
func checkEvents(b Books) Finding {
	f := look("I9")
	records := slices.Clone(b.Events)
	slices.SortFunc(records, func(x, y EventRecord) int { return int(x.Offset - y.Offset) })
	first := map[int64]string{}
	last, repeats := int64(0), 0
	for _, e := range records {
		switch id, again := first[e.Seq]; {
		case again && id != e.ID:
			f.fault("seq %d was published as %s and as %s", e.Seq, id, e.ID)
		case again:
			repeats++
		case e.Seq != last+1:
			f.fault("seq %d follows seq %d for the first time", e.Seq, last)
			first[e.Seq], last = e.ID, max(last, e.Seq)
		default:
			first[e.Seq], last = e.ID, e.Seq
		}
	}
	f.saw(len(first), "events")
	f.saw(repeats, "repeats")
	unpublished := 0
	for _, row := range b.Ledger.Outbox {
		if !row.Published {
			unpublished++
			continue
		}
		if id, there := first[row.Seq]; !there {
			f.fault("seq %d is marked as published and is not on the topic", row.Seq)
		} else if id != row.ID {
			f.fault("seq %d is event %s in the outbox and %s on the topic", row.Seq, row.ID, id)
		}
	}
	if unpublished > 0 {
		f.fault("%d events wait in the outbox", unpublished)
	}
	return f.done()
}

// checkStock is I10: total = left + held + sold, at rest held = 0, in the ledger, in its chain of events and in Redis.
func checkStock(b Books) Finding {
	f := look("I10")
	rows := slices.Clone(b.Ledger.Outbox)
	slices.SortFunc(rows, func(x, y OutboxRow) int { return int(x.Seq - y.Seq) })
	left, seq := int64(0), int64(0)
	for _, row := range rows {
		if row.Seq != seq+1 {
			f.fault("outbox seq %d follows %d", row.Seq, seq)
		}
		seq = row.Seq
		left += change(row.Event)
		if row.LeftAfter != left {
			f.fault("after seq %d the events leave %d units, the row says %d", row.Seq, left, row.LeftAfter)
			left = row.LeftAfter
		}
	}
	if seq != b.Ledger.Seq {
		f.fault("the last outbox row is seq %d, the stock row says %d", seq, b.Ledger.Seq)
	}
	if b.Ledger.Total-b.Ledger.Sold != left {
		f.fault("total %d - sold %d is not the %d units that the events leave", b.Ledger.Total, b.Ledger.Sold, left)
	}
	f.saw(len(rows), "stock movements and verdicts in the chain")
	if !b.Line.StockKnown {
		if len(rows) > 0 {
			f.fault("Redis knows no stock")
		}
		return f.done()
	}
	f.saw(int(b.Ledger.Total), "units")
	if b.Line.Seq != b.Ledger.Seq || b.Line.Base != left {
		f.fault("Redis has %d units left at seq %d, the ledger %d at seq %d", b.Line.Base, b.Line.Seq, left, b.Ledger.Seq)
	}
	if b.Line.Held != b.Line.IntentUnits {
		f.fault("Redis holds %d units, its intents sum to %d", b.Line.Held, b.Line.IntentUnits)
	}
	if b.Line.Held != b.Line.HeldParked {
		f.fault("at rest %d units are still held, %d of them by parked orders", b.Line.Held, b.Line.HeldParked)
	}
	return f.done()
}

// checkReturn holds a cancel against its order: what was sold comes back, no more and no less.
func checkReturn(f *finding, o ledger.OrderRow, cancelled order.Event) {
	units := 0
	if cancelled.Quantity != nil {
		units = *cancelled.Quantity
	}
	if units != o.Quantity {
		f.fault("order %s of %d units gave %d back", o.OrderID, o.Quantity, units)
	}
}

// change is what an event does to the units left.
func change(e order.Event) int64 {
	switch {
	case e.Type == order.Confirmed && e.Quantity != nil:
		return -int64(*e.Quantity)
	case e.Type == order.Cancelled && e.Quantity != nil && (e.Reason == nil || *e.Reason != order.ReasonCancelledBefore):
		return int64(*e.Quantity)
	case e.Type == order.StockAdjusted && e.Delta != nil:
		return *e.Delta
	}
	return 0
}
