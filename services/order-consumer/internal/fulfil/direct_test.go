package fulfil

import (
	"errors"
	"testing"

	"hanjul/pkg/kafka"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// bindDirect takes users who have no pass to orders that are bound and not yet judged.
func (s *sale) bindDirect(commands ...order.Command) {
	s.t.Helper()
	for _, c := range commands {
		value, err := c.Encode()
		s.must(err)
		r, err := s.room.BindDirect(s.t.Context(), waitingroom.DirectRequest{
			Product: "p", User: product.HashUser(s.user, c.User), OrderID: c.OrderID, Digest: order.Digest(c.Quantity, c.IdempotencyKey),
			Quantity: c.Quantity, Command: value,
		})
		if err != nil || r.Outcome != waitingroom.BindBound {
			s.t.Fatal(r.Outcome, err)
		}
	}
}

// queue turns the queue on or off.
func (s *sale) queue(v int64, on bool) {
	s.t.Helper()
	settings := product.DefaultSettings()
	settings.State, settings.Rate, settings.Burst, settings.Capacity, settings.QueueOn = product.Open, 100_000, 100_000, 1000, on
	line := waitingroom.LineSettings{Settings: settings, V: v, OpenedUS: s.openeds.UnixMicro(), PassEpoch: 1}
	applied, err := s.room.SettingsPut(s.t.Context(), "p", line)
	if err != nil || !applied {
		s.t.Fatal(applied, err)
	}
}

// Orders without a pass beside those with one: each is judged once, by the limit of its user too, ends in the slot, and is told; what
// nobody signed is parked under no id. So it goes whatever step the process dies behind.
func TestFulfilDirect(t *testing.T) {
	t.Parallel()
	for name, crashes := range map[string][]string{
		"undisturbed": nil, "behind judge": {StepJudge}, "behind settle": {StepSettle}, "behind each in turn": {StepJudge, StepSettle, StepTell},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSale(t, 9, 20)
			s.bind(2, "passes")
			s.queue(2, false)
			first, again := s.direct(t, "kim", "k1", 3), s.direct(t, "passes", "k1", 3)
			s.bindDirect(first)
			forged := s.direct(t, "eve", "k1", 1)
			forged.MAC = first.MAC
			b := batch(0, s.record(t, s.places["passes"]), s.record(t, forged), s.record(t, first), s.record(t, first))
			fulfil := func(b []string, records ...kafka.Message) {
				t.Helper()
				for _, step := range b {
					s.fault = func(at string) error {
						if at == step {
							return errCrash
						}
						return nil
					}
					if err := s.fulfiller.Fulfil(t.Context(), batch(0, records...)); !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
				}
				s.fault = func(string) error { return nil }
				s.must(s.fulfiller.Fulfil(t.Context(), batch(0, records...)))
			}
			fulfil(crashes, b.Records...)
			s.bindDirect(again) // who ordered with a pass orders again without one, beyond the limit of four units
			more := s.direct(t, "kim", "k2", 1)
			s.bindDirect(more)
			fulfil(crashes, append(b.Records, s.record(t, again), s.record(t, more))...)

			rows := map[order.ID]ledger.OrderRow{}
			letters := 0
			s.must(s.ledger.Snapshot(t.Context(), "p", func(snap *ledger.Snapshot) error {
				if err := snap.EachLetter(func(l ledger.LetterRow) error {
					if l.OrderID != "" || l.Reason != ParkMACInvalid {
						t.Errorf("%+v", l)
					}
					letters++
					return nil
				}); err != nil {
					return err
				}
				return snap.EachOrder(func(r ledger.OrderRow) error { rows[r.OrderID] = r; return nil })
			}))
			for id, want := range map[order.ID]string{
				s.places["passes"].OrderID: "confirmed", first.OrderID: "confirmed", again.OrderID: "rejected limit", more.OrderID: "confirmed",
			} {
				r := rows[id]
				said := string(r.State)
				if r.Reason != "" {
					said += " " + string(r.Reason)
				}
				if said != want || (r.Place == 0) != (id != s.places["passes"].OrderID) {
					t.Errorf("order %s of %s at place %s is %s, expected %s", id, r.UserID, r.Place, said, want)
				}
				status, found, err := s.status.Get(t.Context(), id)
				if err != nil || !found || string(status.State) != string(r.State) {
					t.Errorf("status of %s: %+v, %v", r.UserID, status, err)
				}
			}
			if len(rows) != 4 || letters != 1 {
				t.Errorf("%d orders, %d dead letters", len(rows), letters)
			}
			for user, id := range map[product.UserID]order.ID{"kim": more.OrderID, "passes": again.OrderID} {
				m, err := s.room.Membership(t.Context(), "p", product.HashUser(s.user, user))
				if err != nil || m.Sets != 1 || m.Record != waitingroom.Ordered || m.OrderID != id {
					t.Errorf("%s: %+v, %v", user, m, err)
				}
			}
			if v, err := s.room.View(t.Context(), "p"); err != nil || v.Base != 3 || v.Held != 0 || v.InFlight != 0 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}
