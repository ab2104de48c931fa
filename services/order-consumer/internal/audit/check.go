package audit

import (
	"fmt"

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
	for _, gone := range droppedRows(b.Ledger) {
		f.lost("the units left after %s, no longer in the outbox", gone)
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
	if start := b.Log.Start; start.Cut {
		f.lost("commands before offset %d of partition %d, where the log begins now", start.First, b.Log.Partition)
		if judged := max(b.Log.Committed, b.Log.Judged); judged < start.First {
			f.lost("commands from offset %d on that nobody is known to have judged before they were removed", judged)
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
	lost := droppedRows(b.Ledger)
	untold := 0
	for _, o := range b.Ledger.Orders {
		placed, cancelled := len(rowsOf[fact{o.OrderID, false}]), len(rowsOf[fact{o.OrderID, true}])
		if e, cancelled := returned[o.OrderID]; cancelled {
			checkReturn(f, o, e)
		}
		wantPlaced, wantCancelled, gone := eventsOf(o, placed, lost)
		if gone {
			untold++
		}
		if placed != wantPlaced || cancelled != wantCancelled {
			f.fault("order %s (%s) has %d verdict events and %d cancel events in the outbox", o.OrderID, o.State, placed, cancelled)
		}
	}
	if untold > 0 {
		f.lost("events of %d orders, no longer in the outbox (%s)", untold, lost)
	}
	f.lostEvents(b)
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
		if !seen[k.id] {
			f.fault("event %s was published for order %s, which has no row", e.ID, k.id)
		}
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
