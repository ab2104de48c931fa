package model

type stockEmit = func(l Label, to stockState, may bool)

// Steps are all that can happen next.
func (m Stock) Steps(s stockState, emit func(l Label, to stockState, may bool)) {
	m.shopSteps(s, emit)
	m.batchSteps(s, 0, emit)
	m.batchSteps(s, 1, emit)
	m.groupSteps(s, emit)
	m.loseSteps(s, emit)
}

func (s stockState) appended(r uint8) (stockState, bool) {
	if s.LogN == stockLog {
		return s, false
	}
	s.Log[s.LogN] = r
	s.LogN++
	return s, true
}

// shopSteps are new orders, the sweeper, and the scheduler that asks for a forgotten stock.
func (m Stock) shopSteps(s stockState, emit stockEmit) {
	for o := range m.Orders {
		if s.Bound&bit(o) == 0 && s.R.Base > 0 && s.R.Base-1 > s.R.Held {
			if n, ok := s.appended(kPlace<<4 | o); ok {
				n.Bound |= bit(o)
				n.R.Intents |= bit(o)
				n.R.Held++
				emit(Label{Text: "order %d is bound and sent", A: int(o + 1)}, n, true)
			}
		}
	}
	if s.R.Base == 0 && s.Asked == 0 && m.on(LedgerJudges) {
		if m.on(LoadBehindLog) {
			if n, ok := s.appended(kLoad << 4); ok {
				n.Asked = 1
				emit(Label{Text: "the scheduler misses the stock: load_stock"}, n, false)
			}
			return
		}
		n := s
		n.R.Base, n.R.Seq = s.Total-s.Sold+1, s.Seq
		emit(Label{Text: "the scheduler reads the ledger and loads the stock"}, n, false)
	}
}

// batchSteps are one consumer's. pc 9: it is gone.
func (m Stock) batchSteps(s stockState, i int, emit stockEmit) {
	c := s.Tills[i]
	who := [2]string{"A", "B"}[i]
	put := func(n stockState, c batch) stockState { n.Tills[i] = c; return n }
	switch c.PC {
	case 0:
		if c.Pos >= s.LogN { // a zombie takes what it had fetched, to its first commit
			return
		}
		c.N = min(m.Batch, s.LogN-c.Pos)
		c.PC = 1
		n := s
		if !m.on(LedgerJudges) {
			if s.R.Base == 0 { // whoever misses the stock reads it and loads it
				c = batch{PC: 4, Pos: c.Pos, Base: s.Total - s.Sold, Answers: [2]uint8{m.units(s, 0), m.units(s, 1)}}
				emit(Label{Text: who + ": misses the stock, reads %d left", A: int(c.Base)}, put(n, c), false)
				return
			}
			for k := range c.N {
				c.Answers[k] = m.reserve(&n.R, s.Log[c.Pos+k])
			}
		}
		if !m.on(OffsetAfterVerdict) {
			n.Com = c.Pos + c.N
		}
		if !m.on(StockRowLock) {
			c.Base, c.Seq = s.Sold, s.Seq
			for k := range c.N {
				c.Answers[k] = s.Rows[s.Log[c.Pos+k]&15] + 1
			}
		}
		emit(Label{Text: who + ": takes %d records from %d", A: int(c.N), B: int(c.Pos + 1)}, put(n, c), false)
	case 4:
		n := s
		if s.R.Base == 0 {
			n.R = shelf{Base: c.Base + 1, Bought: c.Answers}
		}
		emit(Label{Text: who + ": loads %d", A: int(c.Base)}, put(n, batch{Pos: c.Pos}), false)
	case 1:
		n := s
		c.Load = 0
		if !m.on(StockRowLock) {
			n.Sold, n.Seq = c.Base, c.Seq
		}
		for k := range c.N {
			r := s.Log[c.Pos+k]
			if r>>4 == kLoad {
				c.Load = 1
			}
			m.decide(&n, r, c.Answers[k])
		}
		c.Base, c.Seq, c.Answers = n.Total-n.Sold, n.Seq, [2]uint8{}
		c.PC = 2
		emit(Label{Text: who + ": transaction, %d left at seq %d", A: int(c.Base), B: int(c.Seq)}, put(n, c), false)
	case 2:
		n := s
		if m.on(LedgerJudges) {
			m.settle(&n, c)
		}
		c.PC = 3
		emit(Label{Text: who + ": settle %d at seq %d", A: int(c.Base), B: int(c.Seq)}, put(n, c), false)
	case 3:
		n := s
		if int(s.Owner) != i && m.on(GenerationFence) {
			emit(Label{Text: who + ": its late commit is refused"}, put(n, batch{PC: 9}), false)
			return
		}
		n.Com = c.Pos + c.N
		next := batch{Pos: n.Com}
		if int(s.Owner) != i {
			next = batch{PC: 9}
		}
		emit(Label{Text: who + ": commit %d", A: int(n.Com)}, put(n, next), false)
	}
}

// groupSteps are what happens to the consumers.
func (m Stock) groupSteps(s stockState, emit stockEmit) {
	if s.Left.Rebalance > 0 && s.Owner == 0 {
		n := s
		n.Left.Rebalance--
		n.Owner = 1
		n.Tills[1] = batch{Pos: s.Com}
		emit(Label{Text: "the partition moves from A to B; A lives on"}, n, true)
	}
	if s.Left.Crash > 0 {
		n := s
		n.Left.Crash--
		n.Tills[s.Owner] = batch{Pos: s.Com}
		emit(Label{Text: "the owner crashes and starts again"}, n, true)
	}
	if s.Left.Reset > 0 && s.Tills[s.Owner].PC == 0 {
		n := s
		n.Left.Reset--
		n.Com = 0
		n.Tills[s.Owner] = batch{}
		emit(Label{Text: "OFFSETS RESET"}, n, true)
	}
}

// loseSteps are what Redis loses.
func (m Stock) loseSteps(s stockState, emit stockEmit) {
	if s.Left.Flush > 0 {
		n := s
		n.Left.Flush--
		n.R, n.Lost, n.Asked = shelf{}, 1, 0
		emit(Label{Text: "REDIS EMPTIED"}, n, true)
	}
	if s.Left.Marks > 0 && s.R.Marks != ([stockOrders + 1]uint8{}) {
		n := s
		n.Left.Marks--
		n.R.Marks = [stockOrders + 1]uint8{}
		emit(Label{Text: "the markers reach their TTL"}, n, true)
	}
	if s.Left.Failover > 0 && s.Stale == 0 {
		n := s
		n.Stale, n.Replica = 1, s.R
		emit(Label{Text: "the replica falls behind"}, n, true)
	}
	if s.Stale == 1 {
		n := s
		n.Left.Failover--
		n.R, n.Replica, n.Stale = s.Replica, shelf{}, 2
		emit(Label{Text: "FAILOVER: what came since is lost"}, n, true)
	}
	// Reconcile settles what was judged of late: after a failover, and each minute.
	if s.Stale == 2 && m.on(ReconcileAfterLoss) && m.on(LedgerJudges) {
		n := s
		m.settle(&n, batch{Base: s.Total - s.Sold, Seq: s.Seq})
		for o, v := range s.Rows {
			if v != vNone {
				m.free(&n.R, uint8(o))
			}
		}
		emit(Label{Text: "reconcile"}, n, false)
	}
}
