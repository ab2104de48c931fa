package audit

import (
	"slices"
	"strings"
	"testing"

	"hanjul/pkg/journal"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
)

// parkOrder puts a place behind the log's end that was parked under its order id and is still bound.
func parkOrder(b *Books, state string) order.ID {
	id := orderID(50)
	b.Log.Records = append(b.Log.Records, LogRecord{Offset: 4, Kind: order.KindPlace, OrderID: id, ID: string(id), Verified: true})
	b.Log.Committed, b.Log.End = 5, 5
	b.Ledger.DeadLetters = append(b.Ledger.DeadLetters, ledger.LetterRow{ID: 1, Offset: 4, OrderID: id, State: state})
	b.Line.Held, b.Line.IntentUnits = 2, 2
	if state == ledger.LetterParked {
		b.Line.HeldParked = 2
	}
	return id
}

// tell appends an event of an order to the ledger and to the topic.
func tell(b *Books, id order.ID, kind order.EventType, reason order.Reason, version int, left int64) {
	seq := b.Ledger.Seq + 1
	e := order.Event{Type: kind, Seq: seq, OrderID: &id, Reason: &reason, LeftAfter: left}
	name := order.OrderEventID(id, version)
	b.Ledger.Outbox = append(b.Ledger.Outbox, OutboxRow{ID: name, Seq: seq, Type: kind, Event: e, LeftAfter: left, Published: true})
	b.Events = append(b.Events, EventRecord{Offset: seq - 1, ID: name, Seq: seq, Event: e})
	b.Ledger.Seq, b.Line.Seq = seq, seq
}

// log appends a judged command to the log, at the end of what is committed.
func log(b *Books, rec LogRecord, judged bool) {
	rec.Offset = b.Log.Committed
	b.Log.Records = append(b.Log.Records, rec)
	b.Log.Committed, b.Log.End = rec.Offset+1, rec.Offset+1
	if judged {
		b.Ledger.Commands = append(b.Ledger.Commands, ledger.CommandRow{CommandID: rec.ID, Kind: rec.Kind, Result: ledger.CommandDone})
	}
}

// drop is a parked order that an operator gave up and the judge met.
func drop(b *Books) {
	id := parkOrder(b, ledger.LetterDropped)
	log(b, LogRecord{Kind: order.KindDrop, ID: "d", OrderID: id, Verified: true, Decoded: true}, true)
	b.Ledger.Orders = append(b.Ledger.Orders, ledger.OrderRow{OrderID: id, UserID: "u9", User: hash("u9"), State: order.StateRejected, Reason: order.ReasonFailed, Version: 1})
	tell(b, id, order.Rejected, order.ReasonFailed, 1, 1)
	b.Line.Held, b.Line.IntentUnits = 0, 0
	b.Line.Statuses[id] = order.Status{Version: order.VersionVerdict, State: order.StateRejected, Reason: order.ReasonFailed}
}

// overtaken is an order whose cancel came first.
func overtaken(b *Books) {
	id := orderID(60)
	log(b, LogRecord{Kind: order.KindCancel, ID: "c", OrderID: id, Verified: true, Decoded: true}, true)
	log(b, LogRecord{Kind: order.KindPlace, ID: string(id), OrderID: id, Verified: true, Decoded: true}, false)
	b.Ledger.Orders = append(b.Ledger.Orders, ledger.OrderRow{OrderID: id, UserID: "u9", User: hash("u9"), State: order.StateCancelled, Reason: order.ReasonCancelledBefore, Version: 2})
	tell(b, id, order.Cancelled, order.ReasonCancelledBefore, 2, 1)
	b.Line.Statuses[id] = order.Status{Version: order.VersionCancelled, State: order.StateCancelled, Reason: order.ReasonCancelledBefore}
	b.Journal = append(b.Journal, journal.Entry{Product: "p", Buyer: "u9", Call: journal.CallLookup, Status: 200, State: "cancelled", OrderID: id})
}

// What operators did to orders is lawful, in every stage of its way; what only looks like it is not.
func TestCheckKnowsTheWaysOutOfDeadLetters(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(*Books)
		broken []string
	}{
		"parked, its hold kept":                 {func(b *Books) { parkOrder(b, ledger.LetterParked) }, nil},
		"parked, and somebody else's hold kept": {func(b *Books) { parkOrder(b, ledger.LetterParked); b.Line.Held, b.Line.IntentUnits = 3, 3 }, []string{"I10"}},
		"parked, with copies behind it": {func(b *Books) {
			id := parkOrder(b, ledger.LetterParked)
			log(b, LogRecord{Kind: order.KindPlace, OrderID: id, ID: string(id), Verified: true}, false)
		}, nil},
		"redriven, still in the outbox": {func(b *Books) {
			parkOrder(b, ledger.LetterRedriven)
			b.Ledger.Unsent, b.Line.HeldParked = 1, 2
		}, nil},
		"redriven, behind what is committed": {func(b *Books) {
			id := parkOrder(b, ledger.LetterRedriven)
			b.Log.Records[4].Decoded, b.Line.HeldParked, b.Log.End = true, 2, 6
			b.Log.Records = append(b.Log.Records, LogRecord{Offset: 5, Kind: order.KindPlace, OrderID: id, ID: string(id), Verified: true, Decoded: true})
		}, nil},
		"redriven, and lost": {func(b *Books) {
			parkOrder(b, ledger.LetterRedriven)
			b.Log.Records[4].Decoded, b.Line.HeldParked = true, 2
		}, []string{"I2"}},
		"dropped": {drop, nil},
		"dropped, and its hold kept": {func(b *Books) {
			drop(b)
			b.Line.Held, b.Line.IntentUnits = 2, 2
		}, []string{"I10"}},
		"dropped, and never judged": {func(b *Books) {
			parkOrder(b, ledger.LetterDropped)
			b.Log.Records[4].Decoded, b.Line.HeldParked = true, 2
		}, []string{"I2"}},
		"dropped, and told otherwise": {func(b *Books) {
			drop(b)
			b.Journal = append(b.Journal, journal.Entry{Product: "p", Buyer: "u9", Call: journal.CallLookup, Status: 200, State: "confirmed", OrderID: orderID(50)})
		}, []string{"I2"}},
		"a command that was dropped": {func(b *Books) {
			log(b, LogRecord{Kind: order.KindAdjust, ID: "up", Verified: true, Decoded: true}, false)
			b.Ledger.DeadLetters = append(b.Ledger.DeadLetters, ledger.LetterRow{Offset: 4, CommandID: "up", State: ledger.LetterDropped})
		}, nil},
		"a command that nobody judged": {func(b *Books) {
			log(b, LogRecord{Kind: order.KindCancel, ID: "c", OrderID: orderID(1), Verified: true, Decoded: true}, false)
		}, []string{"I2"}},
		"a forgery that was dropped": {func(b *Books) {
			log(b, LogRecord{}, false)
			b.Ledger.DeadLetters = append(b.Ledger.DeadLetters, ledger.LetterRow{Offset: 4, State: ledger.LetterDropped})
		}, nil},
		"a cancel that overtook its order": {overtaken, nil},
		"a cancel that overtook its order and gave units back": {func(b *Books) {
			overtaken(b)
			one := 1
			b.Ledger.Outbox[4].Event.Quantity = &one
		}, []string{"I3"}},
		"told confirmed, though its cancel came first": {func(b *Books) {
			overtaken(b)
			b.Journal[len(b.Journal)-1].State = "confirmed"
		}, []string{"I2"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := balanced()
			c.change(&b)
			r := Check(b)
			var broken []string
			for _, f := range r.Findings {
				if f.Verdict == Failed {
					broken = append(broken, f.Promise)
				}
			}
			if !slices.Equal(broken, c.broken) {
				t.Errorf("broken %v, want %v: %+v", broken, c.broken, r.Findings)
			}
			if told := strings.Contains(strings.Join(r.Notes, "\n"), "wait for an operator"); told != strings.HasPrefix(what, "parked") {
				t.Errorf("notes %q", r.Notes)
			}
		})
	}
}
