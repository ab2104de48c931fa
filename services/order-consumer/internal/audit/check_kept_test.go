package audit

import (
	"slices"
	"testing"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

// midnight begins the nth day of a sale that lasts from the first to the third; today is the fourth.
func midnight(n int) time.Time { return day().Truncate(24*time.Hour).AddDate(0, 0, n-1) }

// old are balanced books whose first two events are of the first day, the others of the third.
func old() Books {
	b := balanced()
	b.Ledger.Kept = ledger.Kept{Since: midnight(1).Add(time.Hour), Days: []time.Time{midnight(1), midnight(2), midnight(3), midnight(4)}}
	for i := range b.Ledger.Outbox {
		at := midnight(1).Add(10 * time.Hour)
		if i >= 2 {
			at = midnight(3).Add(10 * time.Hour)
		}
		b.Ledger.Outbox[i].At = at
	}
	for i := range b.Ledger.Orders {
		b.Ledger.Orders[i].Seq = int64(i + 2)
	}
	b.Line.TakenAt = midnight(1).Add(11 * time.Hour)
	return b
}

// dropTo takes the rows of the first n events and the partitions of the days before the given one.
func dropTo(b *Books, rows, day int) {
	b.Ledger.Outbox = b.Ledger.Outbox[rows:]
	b.Ledger.Kept.Days = b.Ledger.Kept.Days[day-1:]
}

// removeEvents takes the first n records from the topic, at the second day.
func removeEvents(b *Books, n int) {
	b.Events = b.Events[n:]
	b.EventLog = Start{First: int64(n), At: midnight(2), Cut: true}
	if len(b.Events) == 0 {
		b.EventLog.At = time.Time{}
	}
}

// What is gone for its age is no fault, and never ok; what is kept is looked at as ever.
func TestCheckOfWhatIsKept(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change                  func(*Books)
		broken, kept, unchecked []string
	}{
		"everything is there":       {func(*Books) {}, nil, nil, nil},
		"the first day was dropped": {func(b *Books) { dropTo(b, 2, 3) }, nil, []string{"I1", "I3", "I9", "I10"}, nil},
		"rows are missing, their day is kept": {
			func(b *Books) { dropTo(b, 2, 1) },
			[]string{"I3", "I10"},
			nil, nil,
		},
		"rows are missing, the product is younger than what was dropped": {func(b *Books) {
			dropTo(b, 2, 3)
			b.Ledger.Kept.Since = midnight(3)
		}, []string{"I3", "I10"}, nil, nil},
		"a day between was dropped": {func(b *Books) {
			b.Ledger.Outbox[1].At = midnight(2)
			b.Ledger.Outbox = slices.Delete(b.Ledger.Outbox, 1, 2)
			b.Ledger.Kept.Days = slices.Delete(b.Ledger.Kept.Days, 1, 2)
		}, nil, []string{"I1", "I3", "I9", "I10"}, nil},
		"dropped, the first row that is kept lies": {func(b *Books) {
			dropTo(b, 2, 3)
			b.Ledger.Outbox[0].LeftAfter++
		}, []string{"I10"}, []string{"I1", "I3", "I9"}, nil},
		"dropped, the last row is gone too": {func(b *Books) {
			dropTo(b, 2, 3)
			b.Ledger.Outbox = b.Ledger.Outbox[:1]
		}, []string{"I3", "I10"}, []string{"I1", "I9"}, nil},
		"dropped, an order of a kept row has two": {func(b *Books) {
			dropTo(b, 2, 3)
			row := b.Ledger.Outbox[1]
			row.ID, row.Seq = "doubled", 5
			b.Ledger.Outbox = append(b.Ledger.Outbox, row)
			b.Ledger.Seq, b.Line.Seq = 5, 5
		}, []string{"I3", "I9"}, []string{"I1", "I10"}, nil},
		"all was dropped":                     {func(b *Books) { dropTo(b, 4, 4) }, nil, []string{"I1", "I3", "I9", "I10"}, nil},
		"all was dropped, and Redis is wrong": {func(b *Books) { dropTo(b, 4, 4); b.Line.Base++ }, []string{"I10"}, []string{"I1", "I3", "I9"}, nil},
		"all was dropped, and the topic lacks one": {func(b *Books) {
			dropTo(b, 4, 4)
			b.Events = b.Events[:3]
		}, []string{"I9"}, []string{"I1", "I3", "I10"}, nil},
		"a verdict was dropped, its cancel is kept": {func(b *Books) {
			one, id, reason := 1, orderID(1), order.ReasonOperator
			b.Ledger.Orders[0].State, b.Ledger.Orders[0].Reason, b.Ledger.Orders[0].Version, b.Ledger.Orders[0].Seq = order.StateCancelled, reason, 2, 5
			e := order.Event{Type: order.Cancelled, Seq: 5, OrderID: &id, Quantity: &one, Reason: &reason, LeftAfter: 2}
			at := midnight(3).Add(11 * time.Hour)
			b.Ledger.Outbox = append(b.Ledger.Outbox, OutboxRow{ID: "c", Seq: 5, Type: order.Cancelled, Event: e, LeftAfter: 2, At: at, Published: true})
			b.Events = append(b.Events, EventRecord{Offset: 4, ID: "c", Seq: 5, Event: e})
			b.Ledger.Sold, b.Ledger.Seq, b.Line.Base, b.Line.Seq = 1, 5, 2, 5
			b.Line.Statuses[id] = order.Status{Version: order.VersionCancelled, State: order.StateCancelled}
			dropTo(b, 2, 3)
		}, nil, []string{"I1", "I3", "I9", "I10"}, nil},

		"events were removed":              {func(b *Books) { removeEvents(b, 2) }, nil, []string{"I3", "I9"}, nil},
		"events were removed, all of them": {func(b *Books) { removeEvents(b, 4) }, nil, []string{"I3"}, []string{"I9"}},
		"events were removed, and one that cannot have been": {func(b *Books) {
			removeEvents(b, 3)
		}, []string{"I9"}, []string{"I3"}, nil},
		"events were removed, repeats of them are there": {func(b *Books) {
			repeat := b.Events[0]
			removeEvents(b, 2)
			repeat.Offset = 2
			b.Events[0].Offset, b.Events[1].Offset = 3, 4
			b.Events = append(b.Events, repeat)
		}, nil, []string{"I3", "I9"}, nil},
		"events and rows were removed": {func(b *Books) { dropTo(b, 2, 3); removeEvents(b, 2) }, nil, []string{"I1", "I3", "I9", "I10"}, nil},
		"other products' events were removed": {func(b *Books) {
			b.EventLog = Start{First: 7, At: midnight(2), Cut: true}
		}, nil, nil, nil},

		"commands were removed": {func(b *Books) {
			b.Log.Records, b.Log.Start = b.Log.Records[2:], Start{First: 2, At: midnight(2), Cut: true}
		}, nil, []string{"I2"}, nil},
		"commands were removed, and a verdict was never given": {func(b *Books) {
			b.Log.Records, b.Log.Start = b.Log.Records[2:], Start{First: 2, At: midnight(2), Cut: true}
			b.Ledger.Orders = b.Ledger.Orders[1:]
			dropTo(b, 2, 3)
		}, []string{"I1", "I2", "I3"}, []string{"I9", "I10"}, nil},
		"people were forgotten": {func(b *Books) {
			delete(b.Line.Users, hash(product.UserID("u5")))
			b.Line.TakenAt = b.Line.TakenAt.Add(ticket.Life)
		}, nil, []string{"I6"}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := old()
			c.change(&b)
			r := Check(b)
			got := map[Verdict][]string{}
			for _, f := range r.Findings {
				got[f.Verdict] = append(got[f.Verdict], f.Promise)
				if f.Verdict == OK && len(f.Gone) > 0 || f.Verdict == OKKept && len(f.Gone) == 0 {
					t.Errorf("%s is %s, and gone is %v", f.Promise, f.Verdict, f.Gone)
				}
			}
			for verdict, want := range map[Verdict][]string{Failed: c.broken, OKKept: c.kept, NotChecked: c.unchecked} {
				slices.Sort(want)
				slices.Sort(got[verdict])
				if !slices.Equal(got[verdict], want) {
					t.Errorf("%s: %v, want %v: %+v", verdict, got[verdict], want, r.Findings)
				}
			}
			if r.OK() != (len(c.broken) == 0) || len(c.kept) > 0 && !r.Partial() {
				t.Errorf("ok %v, partial %v", r.OK(), r.Partial())
			}
		})
	}
}

// Removed before anybody judged them: nobody can say whose they were, so it is said and is no fault of the product's.
func TestCheckSaysWhatNobodyJudged(t *testing.T) {
	t.Parallel()
	b := old()
	b.Journal = slices.DeleteFunc(b.Journal, func(e journal.Entry) bool { return e.Call == journal.CallOrder })
	b.Log = Log{Start: Start{First: 9, Cut: true}, Committed: 4, Judged: 6, End: 9}
	if f := verdicts(Check(b))["I2"]; f.Verdict != OKKept || len(f.Gone) != 2 {
		t.Fatalf("%+v", f)
	}
}
