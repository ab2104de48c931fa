package model

const (
	stockOrders = 3
	stockLog    = 6
)

// Kinds of records in the stock's log, beside kPlace and kCancel.
const (
	kLoad   uint8 = 8
	kAdjust uint8 = 9
)

// shelf is the stock in Redis, as far as it is lost or rolled back as one. Base is left + 1, so that 0 says that it is forgotten.
type shelf struct {
	Base, Seq, Held uint8
	Intents         uint8                  // bound and not judged, a bit each
	Bought          [2]uint8               // units by user; only where Redis judges (LedgerJudges away)
	Marks           [stockOrders + 1]uint8 // likewise: the answer that an order or the cancel was given
}

// batch is what a consumer has in hand: 0 fetch, 1 judge, 2 settle, 3 commit. Base and Seq are what its transaction wrote.
type batch struct {
	PC, Pos, N, Base, Seq, Load uint8
	Answers                     [2]uint8 // of the reserve; of the read, where the row is not locked
}

// stockState is one product's stock, with orders of one unit each.
type stockState struct {
	Bad          Breach
	R, Replica   shelf
	Stale        uint8
	Total, Sold  uint8
	Seq          uint8
	Rows         [stockOrders]uint8
	Moves        [stockOrders]uint8 // stock movements of each order
	Known        uint8              // 1: the adjust's id
	Adjusts      uint8
	Log          [stockLog]uint8 // kind<<4 | order
	LogN, Com    uint8
	Tills        [2]batch // A, then B
	Owner, AGone uint8
	Bound        uint8 // orders that were ever bound
	Lost, Asked  uint8
	Left         stockFaults
}

type stockFaults struct{ Flush, Failover, Crash, Rebalance, Reset, Marks uint8 }

// Stock is the system of one product's stock: two consumers, of which the first may live on as a zombie, and one Redis.
type Stock struct {
	Without Guard
	Faults  stockFaults
	Users   [stockOrders]uint8 // who orders
	Orders  uint8
	Total   uint8
	Limit   uint8
	Batch   uint8
	Script  []uint8 // records that are in the log from the start, kind<<4 | order: their orders are bound
}

func (m Stock) on(g Guard) bool { return m.Without&g == 0 }

// Start is a loaded stock and a log with the script's records.
func (m Stock) Start() stockState {
	var s stockState
	s.Total, s.Left = m.Total, m.Faults
	s.R.Base = m.Total + 1
	for _, r := range m.Script {
		s.Log[s.LogN] = r
		s.LogN++
		if r>>4 == kPlace {
			s.R.Intents |= bit(r & 15)
			s.R.Held++
		}
	}
	s.Bound = s.R.Intents
	s.Tills[1].PC = 9
	return s
}

func (s stockState) ones(set uint8) uint8 {
	n := uint8(0)
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// Broken is what holds in every state.
func (m Stock) Broken(s stockState) Breach {
	bad := s.Bad
	confirmed := uint8(0)
	var units [2]uint8
	for o, v := range s.Rows {
		if v == vConfirmed {
			confirmed++
			units[m.Users[o]]++
		}
		if s.Moves[o] > 2 || s.Moves[o] == 2 && v != vCancelled {
			bad |= I3JudgedTwice
		}
	}
	if s.Sold > s.Total || confirmed > s.Total {
		bad |= I1Oversold
	}
	if s.Sold != confirmed {
		bad |= I3JudgedTwice
	}
	if units[0] > m.Limit || units[1] > m.Limit {
		bad |= I5OverLimit
	}
	if s.Adjusts > 1 {
		bad |= I3AdjustedTwice
	}
	if m.on(LedgerJudges) && s.R.Held != s.ones(s.R.Intents) {
		bad |= I10HeldWrong
	}
	if s.R.Base > 0 && s.Lost == 1 && m.on(LedgerJudges) { // after a Redis that was emptied
		unjudged := uint8(0)
		for o := range uint8(stockOrders) {
			if s.Rows[o] == vNone && s.sent(o) {
				unjudged |= bit(o)
			}
		}
		if s.R.Base-1 > s.Total-s.Sold-min(s.ones(unjudged), s.Total-s.Sold)+s.R.Held {
			bad |= I1StockForgotten
		}
	}
	return bad
}

// sent says that a place of the order is in the log, not yet committed.
func (s stockState) sent(o uint8) bool {
	for _, r := range s.Log[s.Com:s.LogN] {
		if r == kPlace<<4|o {
			return true
		}
	}
	return false
}

// AtRest asks what must have come in the end.
func (m Stock) AtRest(s stockState) Breach {
	var bad Breach
	left := s.Total - s.Sold
	hascancel := false
	for _, r := range s.Log[:s.LogN] {
		if r>>4 == kCancel {
			hascancel = true
			if s.Rows[r&15] == vConfirmed {
				bad |= I3CancelUndone
			}
		}
		if r>>4 == kPlace && s.Rows[r&15] == vNone {
			bad |= I2NeverJudged
		}
	}
	if s.R.Base > 0 && s.R.Base-1 > left {
		bad |= I10LeftTooHigh
	}
	if s.R.Base > 0 && s.R.Base-1 < left {
		bad |= I10LeftTooLow
	}
	if s.R.Base == 0 {
		bad |= I12LineClosedForGood
	}
	if s.R.Intents != 0 || s.R.Held != 0 {
		bad |= I10HeldWrong
	}
	for _, v := range s.Rows {
		if v == vRejected && left > 0 && !hascancel && s.Adjusts == 0 && m.Limit > 2 {
			bad |= I12SoldOutWithUnits
		}
	}
	return bad
}
