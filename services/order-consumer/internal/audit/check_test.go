package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// day is when the sale of these tests began.
func day() time.Time { return time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC) }

func orderID(n int) order.ID { return order.ID(fmt.Sprintf("01890000-0000-7000-8000-%012d", n)) }

func hash(u product.UserID) product.UserHash { return product.UserHash("hash of " + string(u)) }

// balanced are the books of a small sale in which nothing is wrong: 3 units, five people; two were confirmed, one was rejected
// at its turn, one left, one still waits.
func balanced() Books {
	b := Books{
		Product: "p", Inc: 1, Hash: hash,
		Settings: product.Settings{Rate: 10, Burst: 1, Capacity: 2, PassMS: 5000, UserLimit: 2},
		Passes:   map[string]pass.Pass{},
		Line: Line{
			Known: true, StockKnown: true, Base: 1, Seq: 4, Capacity: 2, Rate: 10, Burst: 1,
			Waiting: 1, Ended: 4, Joined: 5, Admits: map[int64]int64{day().Unix(): 3},
			Users: map[product.UserHash]int{}, Statuses: map[order.ID]order.Status{},
		},
		Log: Log{Committed: 4, End: 4, Records: []LogRecord{{Offset: 0, Kind: order.KindAdjust, ID: "stock", Verified: true, Decoded: true}}},
	}
	quantity, delta, rejected := 1, int64(3), order.ReasonLimit
	add := func(e order.Event, id string, left int64) {
		e.Seq = int64(len(b.Events) + 1)
		e.LeftAfter = left
		b.Events = append(b.Events, EventRecord{Offset: e.Seq - 1, ID: id, Seq: e.Seq, Event: e})
		b.Ledger.Outbox = append(b.Ledger.Outbox, OutboxRow{ID: id, Seq: e.Seq, Type: e.Type, Event: e, LeftAfter: left, Published: true})
	}
	add(order.Event{Type: order.StockAdjusted, Delta: &delta}, "e0", 3)
	for n := 1; n <= 5; n++ {
		user, place := product.UserID(fmt.Sprintf("u%d", n)), product.Place(1000+n)
		b.Line.Users[hash(user)] = 1
		sent := day().Add(time.Duration(n) * 10 * time.Millisecond)
		b.Journal = append(b.Journal, journal.Entry{
			Sent: sent, Time: sent.Add(5 * time.Millisecond), Product: "p", Buyer: user, Call: journal.CallJoin, Status: 201, State: "waiting", Place: place,
		})
		if n == 4 {
			b.Journal = append(b.Journal, journal.Entry{Sent: sent.Add(time.Second), Time: sent.Add(time.Second), Product: "p", Buyer: user, Call: journal.CallLeave, Status: 200, State: "left", Place: place})
		}
		if n > 3 {
			continue
		}
		id := orderID(n)
		p := pass.Pass{User: user, Product: "p", Place: place, OrderID: id, Admitted: day().Add(time.Duration(n) * 200 * time.Millisecond)}
		text := fmt.Sprintf("pass %d", n)
		b.Passes[text] = p
		at := p.Admitted.Add(50 * time.Millisecond)
		b.Journal = append(b.Journal,
			journal.Entry{Sent: at, Time: at, Product: "p", Buyer: user, Call: journal.CallStatus, Status: 200, State: "admitted", Place: place, Pass: text},
			journal.Entry{Sent: at.Add(time.Millisecond), Time: at.Add(9 * time.Millisecond), Product: "p", Buyer: user, Call: journal.CallOrder, Status: 202, State: "accepted", Pass: text, OrderID: id, Quantity: 1})
		b.Log.Records = append(b.Log.Records, LogRecord{Offset: int64(n), Kind: order.KindPlace, OrderID: id, ID: string(id), Verified: true, Decoded: true})
		row := ledger.OrderRow{OrderID: id, UserID: user, User: hash(user), Place: place, Quantity: 1, State: order.StateConfirmed, Version: 1}
		kind, reason, left := order.Confirmed, (*order.Reason)(nil), int64(3-n)
		if n == 3 {
			row.State, row.Reason, kind, reason, left = order.StateRejected, rejected, order.Rejected, &rejected, 1
		}
		b.Ledger.Orders = append(b.Ledger.Orders, row)
		add(order.Event{Type: kind, OrderID: &id, Quantity: &quantity, Reason: reason}, order.OrderEventID(id, 1), left)
		b.Line.Statuses[id] = order.Status{Version: order.VersionVerdict, State: row.State, Reason: row.Reason}
		b.Journal = append(b.Journal, journal.Entry{Sent: at.Add(time.Second), Time: at.Add(time.Second), Product: "p", Buyer: user, Call: journal.CallLookup, Status: 200, State: string(row.State), OrderID: id})
	}
	b.Ledger.Total, b.Ledger.Sold, b.Ledger.Seq = 3, 2, 4
	b.Ledger.Commands = []ledger.CommandRow{{CommandID: "stock", Kind: order.KindAdjust, Result: ledger.CommandDone, Seq: 1}}
	return b
}

func verdicts(r Report) map[string]Finding {
	m := map[string]Finding{}
	for _, f := range r.Findings {
		m[f.Promise] = f
	}
	return m
}

func TestCheckFindsNothingInBalancedBooks(t *testing.T) {
	t.Parallel()
	r := Check(balanced())
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	if !r.OK() || len(r.Unchecked()) > 0 || !strings.HasSuffix(out.String(), "audit: ok\n") {
		t.Fatalf("balanced books were refused:\n%s", out.String())
	}
	if got, want := verdicts(r)["I4"].Looked, "3 passes, 3 submits, 3 ids"; got != want {
		t.Fatalf("I4 looked at %q, want %q", got, want)
	}
}

func TestCheckNeverCallsNothingOK(t *testing.T) {
	t.Parallel()
	r := Check(Books{Product: "p", Inc: 1, Hash: hash, Settings: product.DefaultSettings()})
	for _, f := range r.Findings {
		if f.Verdict != NotChecked {
			t.Errorf("%s of empty books is %s, want not checked", f.Promise, f.Verdict)
		}
	}
}

// TestCheckNamesTheBrokenPromise breaks one thing by hand in a copy of balanced books and expects the promise to be named.
func TestCheckNamesTheBrokenPromise(t *testing.T) {
	t.Parallel()
	entry := func(b *Books, call journal.Call, nth int) *journal.Entry {
		for i := range b.Journal {
			if b.Journal[i].Call == call {
				if nth--; nth == 0 {
					return &b.Journal[i]
				}
			}
		}
		t.Fatalf("the balanced books have no %s", call)
		return nil
	}
	cases := []struct {
		what    string
		promise string
		break_  func(*Books)
	}{
		{"sold raised", "I1", func(b *Books) { b.Ledger.Sold++ }},
		{"sold above total", "I1", func(b *Books) { b.Ledger.Total = 1 }},
		{"quantity of a confirmed order raised", "I1", func(b *Books) { b.Ledger.Orders[0].Quantity = 2 }},
		{"order row deleted", "I2", func(b *Books) { b.Ledger.Orders = b.Ledger.Orders[1:] }},
		{"202 without a command", "I2", func(b *Books) { entry(b, journal.CallOrder, 1).OrderID = orderID(99) }},
		{"another verdict was told", "I2", func(b *Books) { entry(b, journal.CallLookup, 1).State = "rejected" }},
		{"status differs from the row", "I2", func(b *Books) {
			b.Line.Statuses[orderID(1)] = order.Status{Version: order.VersionVerdict, State: order.StateRejected}
		}},
		{"unverified command not parked", "I2", func(b *Books) { b.Log.Records[1].Verified = false }},
		{"event doubled under a new id", "I3", func(b *Books) {
			e := b.Events[1]
			e.ID, e.Offset = "doubled", 9
			b.Events = append(b.Events, e)
		}},
		{"outbox row doubled", "I3", func(b *Books) {
			row := b.Ledger.Outbox[1]
			row.ID = "doubled"
			b.Ledger.Outbox = append(b.Ledger.Outbox, row)
		}},
		{"order row doubled", "I3", func(b *Books) { b.Ledger.Orders = append(b.Ledger.Orders, b.Ledger.Orders[0]) }},
		{"second pass for a place", "I4", func(b *Books) {
			p := b.Passes["pass 1"]
			p.OrderID = orderID(77)
			b.Passes["second"] = p
			again := *entry(b, journal.CallStatus, 1)
			again.Pass = "second"
			b.Journal = append(b.Journal, again)
		}},
		{"second order of a place", "I4", func(b *Books) {
			again := b.Ledger.Orders[0]
			again.OrderID = orderID(78)
			b.Ledger.Orders = append(b.Ledger.Orders, again)
		}},
		{"another id answered", "I4", func(b *Books) { entry(b, journal.CallOrder, 2).OrderID = orderID(1) }},
		{"order without a pass", "I4", func(b *Books) { b.Ledger.Orders[0].Place = 5 }},
		{"pass handed to somebody else", "I4", func(b *Books) { entry(b, journal.CallStatus, 1).Buyer = "u5" }},
		{"more than the limit", "I5", func(b *Books) { b.Ledger.Orders[1].User = b.Ledger.Orders[0].User; b.Settings.UserLimit = 1 }},
		{"user in two sets", "I6", func(b *Books) { b.Line.Users[hash("u1")] = 2 }},
		{"user in no set", "I6", func(b *Books) { delete(b.Line.Users, hash("u5")) }},
		{"tally off by one", "I6", func(b *Books) { b.Line.Joined++ }},
		{"place told to two", "I7", func(b *Books) { entry(b, journal.CallJoin, 2).Place = 1001 }},
		{"place lower than an earlier one", "I7", func(b *Books) { entry(b, journal.CallJoin, 5).Place = 900 }},
		{"place moved", "I7", func(b *Books) { entry(b, journal.CallStatus, 1).Place = 4711 }},
		{"equal places in the line", "I7", func(b *Books) { b.Line.EqualPlaces = []product.Place{1005} }},
		{"admitted before somebody in front", "I7", func(b *Books) {
			p := b.Passes["pass 3"]
			p.Admitted = day().Add(time.Millisecond)
			b.Passes["pass 3"] = p
		}},
		{"faster than the rate", "I8", func(b *Books) {
			for text, p := range b.Passes {
				p.Admitted = day().Add(time.Duration(p.Place-1000) * 10 * time.Millisecond)
				b.Passes[text] = p
			}
		}},
		{"Redis counted too many", "I8", func(b *Books) { b.Line.Admits[day().Unix()] = 30 }},
		{"more passes at once than the capacity", "I8", func(b *Books) {
			b.Settings.Capacity = 1
			entry(b, journal.CallOrder, 1).Sent = day().Add(time.Minute)
		}},
		{"more active than the capacity", "I8", func(b *Books) { b.Line.Active = 3 }},
		{"two events swapped", "I9", func(b *Books) {
			b.Events[1].Offset, b.Events[2].Offset = b.Events[2].Offset, b.Events[1].Offset
		}},
		{"event missing", "I9", func(b *Books) { b.Events = slices.Delete(b.Events, 1, 2) }},
		{"last event missing", "I9", func(b *Books) { b.Events = b.Events[:len(b.Events)-1] }},
		{"repeat under another id", "I9", func(b *Books) {
			e := b.Events[0]
			e.ID, e.Offset = "other", 9
			b.Events = append(b.Events, e)
		}},
		{"event left unpublished", "I9", func(b *Books) { b.Ledger.Outbox[2].Published = false }},
		{"unit added in Redis", "I10", func(b *Books) { b.Line.Base++ }},
		{"hold without an intent", "I10", func(b *Books) { b.Line.Held = 1 }},
		{"units held at rest", "I10", func(b *Books) { b.Line.Held, b.Line.IntentUnits = 1, 1 }},
		{"total raised", "I10", func(b *Books) { b.Ledger.Total++ }},
		{"seq behind", "I10", func(b *Books) { b.Line.Seq-- }},
		{"left_after off by one", "I10", func(b *Books) { b.Ledger.Outbox[2].LeftAfter++ }},
		{"stock not in Redis", "I10", func(b *Books) { b.Line.StockKnown = false }},
	}
	broken := map[string]bool{}
	for _, c := range cases {
		broken[c.promise] = true
		t.Run(c.promise+" "+c.what, func(t *testing.T) {
			t.Parallel()
			b := balanced()
			c.break_(&b)
			r := Check(b)
			if f := verdicts(r)[c.promise]; f.Verdict != Failed || len(f.Faults) == 0 {
				t.Fatalf("%s is %s: %v", c.promise, f.Verdict, r.Findings)
			}
			var out strings.Builder
			if err := r.Print(&out); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), c.promise) || !strings.HasSuffix(out.String(), "audit: FAILED\n") {
				t.Fatalf("the report does not end in FAILED:\n%s", out.String())
			}
		})
	}
	for n := 1; n <= 10; n++ {
		if p := fmt.Sprintf("I%d", n); !broken[p] {
			t.Errorf("no case breaks %s", p)
		}
	}
}

// TestCheckAllowsWhatThePromisesAllow guards against false alarms: repeats on the topic, parked orders, cancels, rejoins.
func TestCheckAllowsWhatThePromisesAllow(t *testing.T) {
	t.Parallel()
	cases := []struct {
		what   string
		change func(*Books)
	}{
		{"an event repeated with the same id", func(b *Books) {
			e := b.Events[1]
			e.Offset = 9
			b.Events = append(b.Events, e)
		}},
		{"a slot that is passed on within the millisecond", func(b *Books) {
			b.Settings.Capacity = 1
			for i := range b.Journal {
				if e := &b.Journal[i]; e.Call == journal.CallOrder && b.Passes[e.Pass].Place < 1003 {
					e.Sent = b.Passes[fmt.Sprintf("pass %d", b.Passes[e.Pass].Place-999)].Admitted.Add(300 * time.Microsecond)
				}
			}
		}},
		{"a parked order has no row", func(b *Books) {
			b.Log.Records = append(b.Log.Records, LogRecord{Offset: 4, Kind: order.KindPlace, OrderID: orderID(50), Verified: true, Decoded: true})
			b.Log.Committed, b.Log.End = 5, 5
			b.Ledger.DeadLetters = append(b.Ledger.DeadLetters, ledger.LetterRow{Offset: 4, OrderID: orderID(50), State: "parked"})
		}},
		{"a forged command is parked by its offset", func(b *Books) {
			b.Log.Records = append(b.Log.Records, LogRecord{Offset: 4, Kind: order.KindPlace, OrderID: orderID(51), Decoded: true})
			b.Log.Committed, b.Log.End = 5, 5
			b.Ledger.DeadLetters = append(b.Ledger.DeadLetters, ledger.LetterRow{Offset: 4, State: "parked"})
		}},
		{"the same command twice in the log", func(b *Books) {
			rec := b.Log.Records[1]
			rec.Offset = 4
			b.Log.Records = append(b.Log.Records, rec)
			b.Log.Committed, b.Log.End = 5, 5
		}},
		{"a confirmed order was cancelled", func(b *Books) {
			one, id := 1, orderID(1)
			b.Ledger.Orders[0].State, b.Ledger.Orders[0].Reason, b.Ledger.Orders[0].Version = order.StateCancelled, order.ReasonOperator, 2
			reason := order.ReasonOperator
			e := order.Event{Type: order.Cancelled, Seq: 5, OrderID: &id, Quantity: &one, Reason: &reason, LeftAfter: 2}
			b.Ledger.Outbox = append(b.Ledger.Outbox, OutboxRow{ID: "c", Seq: 5, Type: order.Cancelled, Event: e, LeftAfter: 2, Published: true})
			b.Events = append(b.Events, EventRecord{Offset: 4, ID: "c", Seq: 5, Event: e})
			b.Ledger.Sold, b.Ledger.Seq, b.Line.Base, b.Line.Seq = 1, 5, 2, 5
			b.Line.Statuses[id] = order.Status{Version: order.VersionCancelled, State: order.StateCancelled}
		}},
		{"somebody left and joined again behind", func(b *Books) {
			at := day().Add(3 * time.Second)
			b.Journal = append(b.Journal, journal.Entry{Sent: at, Time: at, Product: "p", Buyer: "u4", Call: journal.CallJoin, Status: 201, Place: 2000})
		}},
		{"an answer never came", func(b *Books) {
			b.Journal = append(b.Journal, journal.Entry{Sent: day(), Time: day(), Product: "p", Buyer: "u1", Call: journal.CallOrder, Pass: "pass 1"})
		}},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			b := balanced()
			c.change(&b)
			if r := Check(b); !r.OK() {
				t.Fatalf("refused: %+v", r.Findings)
			}
		})
	}
}
