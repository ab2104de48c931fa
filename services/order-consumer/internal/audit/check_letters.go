package audit

import (
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
)

// letters are the dead letters of the books, for looking commands up.
type letters struct {
	offsets  map[int64]bool  // of the records that were parked
	nameless map[int64]bool  // of these, those that were parked under no id
	ids      map[string]bool // order and command ids that were ever parked
	pending  map[string]bool // of these, those that nobody need have judged: they wait for an operator, or are on their way back
}

func lettersOf(b Books) letters {
	l := letters{map[int64]bool{}, map[int64]bool{}, map[string]bool{}, map[string]bool{}}
	coming := map[string]bool{}
	for _, rec := range b.Log.Records {
		if rec.Offset >= b.Log.Committed {
			coming[rec.id()] = true
			coming[string(rec.OrderID)] = coming[string(rec.OrderID)] || rec.Kind == order.KindDrop
		}
	}
	for _, d := range b.Ledger.DeadLetters {
		id := string(d.OrderID) + d.CommandID // one of them at most
		if d.Partition == b.Log.Partition {
			l.offsets[d.Offset] = true
			l.nameless[d.Offset] = id == ""
		}
		if id == "" {
			continue
		}
		l.ids[id] = true
		switch {
		case d.State == ledger.LetterParked, d.CommandID != "" && d.State == ledger.LetterDropped:
			l.pending[id] = true
		default: // redriven, or an order that was dropped: its place or its drop is on its way, or it has a verdict
			l.pending[id] = b.Ledger.Unsent > 0 || coming[id]
		}
	}
	return l
}

// id is what a command is known by.
func (r LogRecord) id() string {
	if r.Kind == order.KindPlace {
		return string(r.OrderID)
	}
	return r.ID
}

func isVerdict(s order.State) bool {
	return s == order.StateConfirmed || s == order.StateRejected || s == order.StateCancelled
}
