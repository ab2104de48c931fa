package waitingroom

import (
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// State is where one user is in one line.
type State string

// The states. A user is in exactly one (I6). Ended states are kept for a ticket's life and an hour.
const (
	None     State = "none"
	Waiting  State = "waiting"
	Away     State = "away" // place kept, not admitted until heard of again; shown as waiting
	Active   State = "active"
	Ordering State = "ordering" // bound, not judged
	Ordered  State = "ordered"  // judged, either way
	Left     State = "left"
	Lapsed   State = "lapsed"
	Evicted  State = "evicted"
	Called   State = "called" // was called before Redis lost the line; shown as lapsed
)

// TicketClaim is what a verified ticket of this user and product claims. The order id is the one the place derives
// (order.DeriveID with the product's opening).
type TicketClaim struct {
	Place   product.Place
	OrderID order.ID
}

// Standing is one person's standing, with what the caller needs of the product, both of one instant.
type Standing struct {
	State      State
	Place      product.Place // 0 when State is None
	Position   int64         // 1 is next; 0 unless waiting or away
	Ahead      int64         // Position − 1
	Total      int64         // people waiting
	OrderID    order.ID      // while ordering or ordered; "" otherwise
	AdmittedMS int64         // while active, milliseconds since 1970
	LeaseEndMS int64         // while active: when the pass lapses
	Created    bool          // this call made a new place
	// CalledNow says that this call met a ticket whose place was called before the loss of which this slot knows nothing (U3):
	// the caller asks the ledger for its order (orderstatus.Want with deadline 0).
	CalledNow bool
	Product   Sale
}

// Sale is what an answer about one person needs of the product, at the instant of their standing. The rest is in ProductView: it
// would cost more to read, for every person, than the standing itself.
type Sale struct {
	State      product.State
	QueueOn    bool
	Reason     string // shown to people; "" for none
	OpenedUS   int64  // first opening, microseconds since 1970; 0: never opened
	PassEpoch  int64  // passes of a lower one are revoked
	StockKnown bool   // false: Base is not loaded
	Base       int64  // units not sold
}

// ProductView is a product's public state at one instant of Redis TIME.
type ProductView struct {
	product.Settings       // as last copied from the ledger
	SettingsV        int64 // their version
	OpenedUS         int64 // first opening, microseconds since 1970; 0: never opened
	PassEpoch        int64 // passes of a lower one are revoked
	Inc              int   // incarnation of the line
	StockKnown       bool  // false: Base and Seq are not loaded (after a loss, or for a new product)
	Base             int64 // units not sold, by the ledger's event Seq
	Seq              int64 // the ledger event that Base is of
	Held             int64 // units of bound and unjudged orders
	Waiting, Away    int64 // people
	Active           int64 // unexpired passes
	InFlight         int64 // orders bound and not judged
	Front            product.Place
	Near             product.Place // up to here it counts when people were last heard (Heard); 0: nobody is watched
	Admitted, Lapsed int64         // totals since the slot began
	NowMS            int64         // Redis TIME
}

// Free is what can still be bound: Base − Held, never below 0.
func (v ProductView) Free() int64 { return max(0, v.Base-v.Held) }

// standing reads {code, state, place, position, order_id, since, lease, created, called, {state, queue_on, reason, opened_us, pass_epoch, base, waiting}}.
func standing(a redisconn.Answer) (Standing, error) {
	s := Standing{
		State: State(a.Text(1)), Place: product.Place(a.Int(2)), Position: a.Int(3), OrderID: order.ID(a.Text(4)),
		LeaseEndMS: a.Int(6), Created: a.Int(7) == 1, CalledNow: a.Int(8) == 1,
	}
	sale := a.List(9)
	s.Product = Sale{
		State: product.State(sale.Text(0)), QueueOn: sale.Int(1) == 1, Reason: sale.Text(2), OpenedUS: sale.Int(3), PassEpoch: sale.Int(4),
		StockKnown: sale.Text(5) != "", Base: sale.Int(5),
	}
	if s.State == Active {
		s.AdmittedMS = a.Int(5)
	}
	if s.Position > 0 {
		s.Ahead = s.Position - 1
	}
	s.Total = sale.Int(6)
	return s, a.Err()
}

// view reads {now_ms, settings…, stock…, counts…} as every script that shows a product returns it.
func view(a redisconn.Answer) ProductView {
	set := a.List(1) // HMGET in the order of settingsFields
	stock := a.List(2)
	clock := a.List(3)
	tally := a.List(4)
	v := ProductView{
		Settings: product.Settings{
			State: product.State(set.Text(1)), QueueOn: set.Int(2) == 1, Rate: set.Float(3), Burst: int(set.Int(4)),
			Capacity: int(set.Int(5)), PassMS: set.Int(6), OrderTTLMS: set.Int(7), MaxLen: int(set.Int(8)),
			InflightMax: int(set.Int(9)), UnitsPerPass: int(set.Int(10)), Oversub: int(set.Int(11)),
			MaxQuantity: int(set.Int(12)), UserLimit: int(set.Int(13)), Reason: set.Text(14),
		},
		SettingsV: set.Int(0), OpenedUS: set.Int(15), PassEpoch: set.Int(16), Inc: int(set.Int(17)),
		StockKnown: stock.Text(0) != "", Base: stock.Int(0), Seq: stock.Int(1), Held: stock.Int(2),
		Front: product.Place(clock.Int(0)), Near: product.Place(clock.Int(1)),
		Admitted: tally.Int(0), Lapsed: tally.Int(1),
		Waiting: a.Int(5), Away: a.Int(6), Active: a.Int(7), InFlight: a.Int(8),
		NowMS: a.Int(0),
	}
	v.OrdersHalted = set.Text(18) == "1"
	// A slot that an older version wrote lacks them until its settings change: nobody becomes away, as the scripts have it.
	v.GraceMS = product.DefaultSettings().GraceMS
	if set.Text(19) != "" {
		v.AbsenceMS = set.Int(19)
	}
	if set.Text(20) != "" {
		v.GraceMS = set.Int(20)
	}
	return v
}
