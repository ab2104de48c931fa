package audit

import (
	"slices"

	"hanjul/pkg/order"
)

// checkEvents is I9: first occurrences are in order of seq, none is skipped, repeats carry the same id, and everything the
// ledger marked as published is there.
func checkEvents(b Books) Finding {
	f := look("I9")
	records := slices.Clone(b.Events)
	slices.SortFunc(records, func(x, y EventRecord) int { return int(x.Offset - y.Offset) })
	removed := removedEvents(b)
	first := map[int64]string{}
	last, repeats := int64(0), 0
	for _, e := range records {
		switch id, again := first[e.Seq]; {
		case again && id != e.ID:
			f.fault("seq %d was published as %s and as %s", e.Seq, id, e.ID)
		case again:
			repeats++
		case e.Seq > last+1 && !removed.hold(last+1, e.Seq-1) || e.Seq <= last && !removed.hold(e.Seq, e.Seq):
			f.fault("seq %d follows seq %d for the first time", e.Seq, last)
			fallthrough
		default: // Where records were removed, what is here may be the repeat of one of them.
			first[e.Seq], last = e.ID, max(last, e.Seq)
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
		if id, there := first[row.Seq]; !there && !removed.hold(row.Seq, row.Seq) {
			f.fault("seq %d is marked as published and is not on the topic", row.Seq)
		} else if there && id != row.ID {
			f.fault("seq %d is event %s in the outbox and %s on the topic", row.Seq, row.ID, id)
		}
	}
	if unpublished > 0 {
		f.fault("%d events wait in the outbox", unpublished)
	}
	for _, gone := range droppedRows(b.Ledger) {
		if from := max(gone.from, last+1); from <= gone.to && !removed.hold(from, gone.to) {
			f.fault("%s were dropped from the outbox and are not on the topic", stretch{from, gone.to})
		}
		f.lost("%s beside the outbox, where they are no longer", gone)
	}
	f.lostEvents(b)
	return f.done()
}

// checkStock is I10: total = left + held + sold, at rest held = 0, in the ledger, in its chain of events and in Redis.
func checkStock(b Books) Finding {
	f := look("I10")
	rows := slices.Clone(b.Ledger.Outbox)
	slices.SortFunc(rows, func(x, y OutboxRow) int { return int(x.Seq - y.Seq) })
	lost := droppedRows(b.Ledger)
	left, seq := int64(0), int64(0)
	for _, row := range rows {
		if row.Seq > seq+1 && lost.hold(seq+1, row.Seq-1) { // The chain begins anew: this row is taken at its word, the next one is not.
			seq, left = row.Seq, row.LeftAfter
			continue
		}
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
	if b.Ledger.Seq > seq && lost.hold(seq+1, b.Ledger.Seq) {
		seq, left = b.Ledger.Seq, b.Ledger.Total-b.Ledger.Sold
	}
	if seq != b.Ledger.Seq {
		f.fault("the last outbox row is seq %d, the stock row says %d", seq, b.Ledger.Seq)
	}
	if b.Ledger.Total-b.Ledger.Sold != left {
		f.fault("total %d - sold %d is not the %d units that the events leave", b.Ledger.Total, b.Ledger.Sold, left)
	}
	f.saw(len(rows), "stock movements and verdicts in the chain")
	for _, gone := range lost {
		f.lost("%s of the chain, no longer in the outbox", gone)
	}
	if !b.Line.StockKnown {
		if b.Ledger.Seq > 0 {
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
