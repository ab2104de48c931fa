package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
)

// stretch is a run of a product's events by seq, both ends included.
type stretch struct{ from, to int64 }

func (s stretch) String() string {
	if s.from == s.to {
		return fmt.Sprintf("seq %d", s.from)
	}
	return fmt.Sprintf("seq %d to %d", s.from, s.to)
}

// stretches are apart from each other and ascending.
type stretches []stretch

func (s stretches) String() string {
	words := make([]string, len(s))
	for i, one := range s {
		words[i] = one.String()
	}
	return strings.Join(words, ", ")
}

// hold says that every seq from the one to the other is in them.
func (s stretches) hold(from, to int64) bool {
	for _, one := range s {
		if one.from <= from && to <= one.to {
			return true
		}
	}
	return false
}

// add appends a seq above all others.
func (s stretches) add(seq int64) stretches {
	if n := len(s); n > 0 && s[n-1].to == seq-1 {
		s[n-1].to = seq
		return s
	}
	return append(s, stretch{seq, seq})
}

// droppedRows are the events whose outbox rows are gone and may rightly be: between the rows around them a whole day had a partition once
// and has none now. Rows missing within days that are kept are none of them.
func droppedRows(l Ledger) stretches {
	rows := slices.Clone(l.Outbox)
	slices.SortFunc(rows, func(x, y OutboxRow) int { return int(x.Seq - y.Seq) })
	var gone stretches
	last, at := int64(0), l.Kept.Since
	for _, row := range rows {
		if row.Seq > last+1 && dayGone(l.Kept, at, row.At) {
			gone = append(gone, stretch{last + 1, row.Seq - 1})
		}
		last, at = max(last, row.Seq), row.At
	}
	if n := len(l.Kept.Days); l.Seq > last && n > 0 && dayGone(l.Kept, at, l.Kept.Days[n-1]) {
		gone = append(gone, stretch{last + 1, l.Seq})
	}
	return gone
}

// dayGone says that one of the days from the one time to the other has no partition although a later one has: partitions are made ahead,
// day after day.
func dayGone(k ledger.Kept, from, to time.Time) bool {
	if len(k.Days) == 0 {
		return false
	}
	kept := make(map[time.Time]bool, len(k.Days))
	for _, day := range k.Days {
		kept[day.UTC()] = true
	}
	last := k.Days[len(k.Days)-1]
	for day := from.UTC().Truncate(24 * time.Hour); !day.After(to) && day.Before(last); day = day.AddDate(0, 0, 1) {
		if !kept[day] {
			return true
		}
	}
	return false
}

// removedEvents are the events that may have been before where the topic begins now: they were published, and judged no later than the
// first record that is there was written; or their row is gone.
func removedEvents(b Books) stretches {
	if !b.EventLog.Cut {
		return nil
	}
	dropped := droppedRows(b.Ledger)
	older := make(map[int64]bool, len(b.Ledger.Outbox))
	for _, row := range b.Ledger.Outbox {
		older[row.Seq] = row.Published && (b.EventLog.At.IsZero() || !row.At.After(b.EventLog.At.Add(clocks)))
	}
	var gone stretches
	for seq := int64(1); seq <= b.Ledger.Seq; seq++ {
		before, there := older[seq]
		if before || !there && dropped.hold(seq, seq) {
			gone = gone.add(seq)
		}
	}
	return gone
}

// lostEvents names those of them that are not there again as repeats.
func (f *finding) lostEvents(b Books) {
	there := make(map[int64]bool, len(b.Events))
	for _, e := range b.Events {
		there[e.Seq] = true
	}
	var gone stretches
	for _, one := range removedEvents(b) {
		for seq := one.from; seq <= one.to; seq++ {
			if !there[seq] {
				gone = gone.add(seq)
			}
		}
	}
	if len(gone) > 0 {
		f.lost("%s on the topic of events, whose partition %d begins with offset %d now", gone, b.Log.Partition, b.EventLog.First)
	}
}

// eventsOf says how many events of its verdict and of its cancel an order has in the outbox, where this many of its verdict are there, and
// whether any may be gone. The row names the event of its last change; the verdict of one that was cancelled came somewhere before.
func eventsOf(o ledger.OrderRow, placed int, lost stretches) (wantPlaced, wantCancelled int, gone bool) {
	last := 1
	if gone = lost.hold(o.Seq, o.Seq); gone {
		last = 0
	}
	switch {
	case o.State != order.StateCancelled:
		return last, 0, gone
	case o.Reason == order.ReasonCancelledBefore:
		return 0, last, gone
	case placed == 0 && len(lost) > 0 && lost[0].from < o.Seq:
		return 0, last, true
	}
	return 1, last, gone
}
