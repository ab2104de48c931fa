package model

// decide is the transaction for one record: with the ledger as judge, what the answer says is not looked at.
func (m Stock) decide(s *stockState, r, answer uint8) {
	kind, o := r>>4, r&15
	switch kind {
	case kPlace:
		known := s.Rows[o]
		if !m.on(StockRowLock) {
			known = answer - 1
		}
		if known != vNone && m.on(KnownIsNothing) {
			return
		}
		v := vConfirmed
		switch {
		case !m.on(LedgerJudges):
			v = answer
			if v == vConfirmed && s.Sold >= s.Total {
				v = vRejected
			}
		case m.on(LimitInLedger) && m.units(*s, m.Users[o]) >= m.Limit, s.Sold >= s.Total:
			v = vRejected
		}
		s.Rows[o] = v
		if v == vConfirmed {
			s.Sold++
			s.Moves[o]++
		}
		s.Seq++
	case kCancel:
		switch {
		case s.Rows[o] == vConfirmed:
			s.Rows[o] = vCancelled
			s.Sold--
			s.Moves[o]++
			s.Seq++
		case s.Rows[o] == vNone && m.on(Tombstone):
			s.Rows[o] = vCancelled
			s.Seq++
		}
	case kAdjust:
		if s.Known == 1 && m.on(CommandIDs) {
			return
		}
		s.Known = 1
		s.Adjusts++
		s.Total++
		s.Seq++
	}
}

func (m Stock) units(s stockState, user uint8) uint8 {
	n := uint8(0)
	for o, v := range s.Rows {
		if v == vConfirmed && m.Users[o] == user {
			n++
		}
	}
	return n
}

// settle is stock_decrement: the base if its seq is greater, then the holds of what the batch judged.
func (m Stock) settle(s *stockState, c batch) {
	r := &s.R
	switch {
	case r.Base > 0 && (c.Seq > r.Seq || !m.on(SettleSeq)), r.Base == 0 && (c.Load == 1 || !m.on(CreateByLoad)):
		r.Base, r.Seq = c.Base+1, c.Seq
	}
	for k := range c.N {
		if record := s.Log[c.Pos+k]; record>>4 == kPlace || record>>4 == kCancel {
			m.free(r, record&15)
		}
	}
	if c.Load == 1 {
		s.Asked = 0
	}
}

// free takes an order's units off the hold.
func (m Stock) free(r *shelf, o uint8) {
	if r.Intents&bit(o) != 0 || !m.on(HeldByIntents) && r.Held > 0 {
		r.Held--
	}
	r.Intents &^= bit(o)
}

// reserve is the design that decision 2 stands against: Redis decides and marks, the transaction writes the answer down.
func (m Stock) reserve(r *shelf, record uint8) uint8 {
	kind, o := record>>4, record&15
	mark := &r.Marks[o]
	if kind == kCancel {
		mark = &r.Marks[stockOrders]
	}
	if *mark != 0 {
		return *mark
	}
	u := m.Users[o]
	switch {
	case kind == kCancel:
		*mark = vCancelled
		r.Base++
		if r.Bought[u] > 0 {
			r.Bought[u]--
		}
	case r.Bought[u] >= m.Limit, r.Base-1 == 0:
		*mark = vRejected
	default:
		*mark = vConfirmed
		r.Base--
		r.Bought[u]++
	}
	return *mark
}
