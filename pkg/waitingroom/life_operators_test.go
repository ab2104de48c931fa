package waitingroom_test

import (
	"pgregory.net/rapid"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// The moves of a life by which operators change a product: written down in the ledger first, and copied to the slot later.

// latest are the ledger's settings.
func (l *life) latest() waitingroom.LineSettings { return l.versions[len(l.versions)-1] }

// change writes one setting down.
func (l *life) change(rt *rapid.T) {
	s := l.latest()
	s.V++
	switch rapid.SampledFrom([]string{"state", "capacity", "rate", "length", "in flight", "stock", "halt", "revoke"}).Draw(rt, "setting") {
	case "state":
		s.State = rapid.SampledFrom([]product.State{product.Open, product.Paused, product.Open, product.Closed, product.Open}).Draw(rt, "state")
	case "capacity":
		s.Capacity = rapid.IntRange(1, 4).Draw(rt, "capacity")
	case "rate":
		s.Rate = rapid.SampledFrom([]float64{100_000, 500, 100_000, 0.5}).Draw(rt, "rate")
		s.Burst = rapid.SampledFrom([]int{100_000, 2, 1}).Draw(rt, "burst")
	case "length":
		s.MaxLen = rapid.IntRange(1, people).Draw(rt, "length")
	case "in flight":
		s.InflightMax = rapid.IntRange(1, people).Draw(rt, "in flight")
	case "stock":
		s.UnitsPerPass, s.Oversub = rapid.IntRange(1, 2).Draw(rt, "units per pass"), rapid.IntRange(0, 2).Draw(rt, "oversub")
	case "halt":
		s.OrdersHalted = rapid.SampledFrom([]bool{false, true, false}).Draw(rt, "halted")
	case "revoke":
		s.PassEpoch++
	}
	l.versions = append(l.versions, s)
	if rapid.IntRange(0, 3).Draw(rt, "copied later") > 0 {
		l.copySettings(s)
	}
}

// put copies settings of any version, by a scheduler that read them then or now (F19).
func (l *life) put(rt *rapid.T) {
	s := l.latest()
	if rapid.IntRange(0, 2).Draw(rt, "late") == 0 {
		s = rapid.SampledFrom(l.versions).Draw(rt, "version")
	}
	l.copySettings(s)
}

func (l *life) copySettings(s waitingroom.LineSettings) {
	l.t.Helper()
	applied, err := l.room.SettingsPut(l.ctx, l.product, s)
	if l.absent(err) {
		return
	}
	l.check(err)
	l.want(applied == l.m.put(s), "version %d over %d: applied %v", s.V, l.m.set.V, applied)
	again, err := l.room.SettingsPut(l.ctx, l.product, s)
	l.check(err)
	l.want(!again, "version %d was applied twice", s.V)
}

// restock changes the units in the ledger, and the slot hears of it, or of an earlier stock, late.
func (l *life) restock(rt *rapid.T) {
	now := l.stocks[len(l.stocks)-1]
	l.stocks = append(l.stocks, stockAt{max(0, now.base+rapid.Int64Range(-2, 4).Draw(rt, "units")), now.seq + 1})
	l.tell(rapid.SampledFrom(l.stocks[max(0, len(l.stocks)-3):]).Draw(rt, "stock"), false)
}

// load is the settle of a load_stock.
func (l *life) load(*rapid.T) { l.tell(l.stocks[len(l.stocks)-1], true) }

func (l *life) tell(at stockAt, create bool) {
	l.t.Helper()
	for range 2 {
		l.check(l.counter.Settle(l.ctx, l.product, at.base, at.seq, create, nil))
		l.m.stock(at.base, at.seq, create)
	}
}
