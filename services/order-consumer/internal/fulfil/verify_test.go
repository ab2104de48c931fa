package fulfil

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// Only what verifies is judged, and only what verifies is parked under its id (F20, F31).
func TestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.pass("p", "kim", 7)
	id := good.OrderID
	stranger, err := pass.NewSigner(key(t, "pass1", 9)) // the right key id, another key
	if err != nil {
		t.Fatal(err)
	}
	hash := product.HashUser(w.user, "kim")
	with := func(c order.Command, change func(*order.Command)) order.Command { change(&c); return c }
	place := w.place(t, good, 2)
	cancel := w.signed(t, order.Command{Kind: order.KindCancel, ID: "c1", Product: "p", OrderID: id, User: "kim"})
	void := w.signed(t, order.Command{Kind: order.KindVoid, ID: order.VoidID(id), Product: "p", OrderID: id, UserHash: hash})
	other := w.pass("p", "lee", 8)
	direct := w.direct(t, "kim", "click-1", 2)
	raw := func(value string) kafka.Message {
		return kafka.Message{Time: w.recorded, Key: []byte("p"), Value: []byte(value)}
	}
	genuine := w.record(t, place)
	for name, c := range map[string]struct {
		record kafka.Message
		user   product.UserHash
		park   *ledger.Park
	}{
		"a place with its pass":      {w.record(t, place), hash, nil},
		"a cancel with its MAC":      {w.record(t, cancel), hash, nil},
		"a void carries the hash":    {w.record(t, void), hash, nil},
		"an adjust concerns no user": {w.record(t, w.signed(t, order.Command{Kind: order.KindAdjust, ID: "a", Product: "p", Delta: 1})), "", nil},
		"no JSON":                    {raw("{"), "", &ledger.Park{Reason: ParkUndecodable, Product: "p"}},
		"another JSON":               {raw(`[1]`), "", &ledger.Park{Reason: ParkUndecodable, Product: "p"}},
		"no value":                   {kafka.Message{Time: w.recorded, Key: []byte("no product!")}, "", &ledger.Park{Reason: ParkUndecodable}},
		"no version":                 {raw(`{"kind":"place"}`), "", &ledger.Park{Reason: ParkUndecodable, Product: "p"}},
		"an event": {
			raw(`{"v":1,"type":"hanjul.order.confirmed","product":"p","seq":1}`), "",
			&ledger.Park{Reason: ParkUndecodable, Product: "p"},
		},
		"a kind nobody knows": {
			raw(`{"v":1,"kind":"gift","command_id":"x","product":"p"}`), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"another key": {
			with2(w.record(t, place), func(m *kafka.Message) { m.Key = []byte("q") }), "",
			&ledger.Park{Reason: ParkWrongKey, Product: "q"},
		},
		"no pass": {w.record(t, with(place, func(c *order.Command) { c.Pass = "" })), "", &ledger.Park{Reason: ParkPassInvalid, Product: "p"}},
		"a forged pass": {w.record(t, with(place, func(c *order.Command) {
			c.Pass, err = stranger.Sign(good)
		})), "", &ledger.Park{Reason: ParkPassInvalid, Product: "p"}},
		"a pass with a changed end": {
			w.record(t, with(place, func(c *order.Command) { c.Pass = c.Pass[:len(c.Pass)-4] + "AAAA" })), "",
			&ledger.Park{Reason: ParkPassInvalid, Product: "p"},
		},
		"another user's pass": {
			w.record(t, with(place, func(c *order.Command) { c.User = "lee" })), "",
			&ledger.Park{Reason: ParkPassForeign, Product: "p"},
		},
		"another order's pass": {w.record(t, with(place, func(c *order.Command) {
			c.OrderID, c.ID = other.OrderID, string(other.OrderID)
		})), "", &ledger.Park{Reason: ParkPassForeign, Product: "p"}},
		"another place's pass": {
			w.record(t, with(place, func(c *order.Command) { c.Place = 8 })), "",
			&ledger.Park{Reason: ParkPassForeign, Product: "p"},
		},
		"another product's pass": {
			w.record(t, with(place, func(c *order.Command) { c.Product = "q" })), "",
			&ledger.Park{Reason: ParkPassForeign, Product: "q"},
		},
		"too many units, by its own pass": {
			w.record(t, with(place, func(c *order.Command) { c.Quantity = 1001 })), "",
			&ledger.Park{Reason: ParkInvalid, Product: "p", OrderID: id},
		},
		"too many units, by no pass": {
			w.record(t, with(place, func(c *order.Command) { c.Quantity, c.Pass = 1001, "x" })), "",
			&ledger.Park{Reason: ParkPassInvalid, Product: "p"},
		},
		"a cancel without a MAC": {
			w.record(t, with(cancel, func(c *order.Command) { c.MAC = "" })), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"a cancel of another order": {
			w.record(t, with(cancel, func(c *order.Command) { c.OrderID = other.OrderID })), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"a cancel by another key": {
			w.record(t, with(cancel, func(c *order.Command) { c.KeyID = "mac2" })), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"an adjust by nothing, signed": {
			w.record(t, w.signed(t, order.Command{Kind: order.KindAdjust, ID: "a0", Product: "p"})), "",
			&ledger.Park{Reason: ParkInvalid, Product: "p", CommandID: "a0"},
		},
		"a MAC on a place is no pass": {
			w.record(t, w.signed(t, with(place, func(c *order.Command) { c.Pass = "" }))), "",
			&ledger.Park{Reason: ParkPassInvalid, Product: "p"},
		},
		"an order without a pass, with its MAC": {w.record(t, direct), hash, nil},
		"an order without a pass, without a MAC": {
			w.record(t, with(direct, func(c *order.Command) { c.MAC, c.KeyID = "", "" })), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"an order without a pass, by another key": {
			w.record(t, with(direct, func(c *order.Command) { c.KeyID = "mac2" })), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"an order without a pass, of another user": {
			w.record(t, with(direct, func(c *order.Command) { c.User = "lee" })), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"an order without a pass, under a place's id": {
			w.record(t, with(direct, func(c *order.Command) { c.OrderID, c.ID = id, string(id) })), "",
			&ledger.Park{Reason: ParkMACInvalid, Product: "p"},
		},
		"too many units without a pass, signed": {
			w.record(t, w.signed(t, with(direct, func(c *order.Command) { c.Quantity = 1001 }))), "",
			&ledger.Park{Reason: ParkInvalid, Product: "p", OrderID: direct.OrderID},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Alone, and among others that are verified with it.
			alone, faults := w.verifier.read([]kafka.Message{c.record})
			among, more := w.verifier.read([]kafka.Message{genuine, c.record, genuine})
			if err := errors.Join(append(faults, more...)...); err != nil {
				t.Fatal(err)
			}
			in := alone[0]
			if diff := cmp.Diff(in, among[1], cmpopts.EquateEmpty()); diff != "" || among[0].Park != nil || among[2].Park != nil {
				t.Fatalf("among others (-alone +among):\n%s", diff)
			}
			if diff := cmp.Diff(c.park, in.Park); diff != "" || in.User != c.user {
				t.Fatalf("user %q\n%s", in.User, diff)
			}
			if !in.At.Equal(w.recorded) || string(in.Raw) != string(c.record.Value) {
				t.Fatal("the record does not travel with its input")
			}
			if c.park == nil && in.Command.Product != "p" {
				t.Fatal(in.Command)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func with2(m kafka.Message, change func(*kafka.Message)) kafka.Message { change(&m); return m }

// F20: a command of a later build is nobody's fault; it is never parked.
func TestReadStopsAtALaterVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.record(t, w.place(t, w.pass("p", "kim", 7), 1))
	m.Value = []byte(strings.Replace(string(m.Value), `"v":1`, `"v":2`, 1))
	if in, faults := w.verifier.read([]kafka.Message{m}); !errors.Is(faults[0], order.ErrVersion) || in[0].Park != nil {
		t.Fatal(in, faults)
	}
	if _, faults := (Verifier{Commands: keyring.Ring{}}).read([]kafka.Message{w.record(t, order.Command{Kind: order.KindVoid})}); faults[0] != nil {
		t.Fatal(faults)
	}
}
