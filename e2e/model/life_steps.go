package model

type lifeEmit = func(l Label, to lifeState, may bool)

// Steps are all that can happen next.
func (m Life) Steps(s lifeState, emit func(l Label, to lifeState, may bool)) {
	m.lineSteps(s, emit)
	m.timeSteps(s, emit)
	for i := range s.Tabs {
		m.tabSteps(s, i, emit)
	}
	m.sendSteps(s, emit)
	m.tillSteps(s, 0, emit)
	m.tillSteps(s, 1, emit)
	m.bookSteps(s, emit)
	m.lossSteps(s, emit)
}

func (m Life) lineSteps(s lifeState, emit lifeEmit) {
	if s.R.Open == 0 {
		return
	}
	lapsed := s
	lapse(&lapsed)
	emit(Label{Text: "sweep: place %d lapses", A: int(s.R.Place)}, lapsed, false)
	u := lapsed.R.User
	if s.Left.Joins > 0 && u != uWaiting && u != uActive && u != uOrdering {
		n := lapsed
		n.Left.Joins--
		n.R.Seq++
		n.R.User, n.R.Place, n.R.Order = uWaiting, n.R.Seq, 0
		emit(Label{Text: "join: place %d", A: int(n.R.Seq)}, n, true)
	}
	for p := uint8(1); p <= m.Faults.Joins-s.Left.Joins; p++ {
		n := lapsed
		m.ticket(&n, p)
		emit(Label{Text: "ticket %d is shown", A: int(p)}, n, true)
	}
	if s.R.User == uWaiting {
		n := s
		n.R.User = uActive
		n.R.Front = max(n.R.Front, s.R.Place)
		n.Passes[s.R.Place-1] = 1
		emit(Label{Text: "admit place %d", A: int(s.R.Place)}, n, true)
	}
	if s.Left.Leave > 0 && (u == uWaiting || u == uActive) {
		n := lapsed
		n.Left.Leave--
		n.R.User = uLeft
		emit(Label{Text: "leave place %d", A: int(s.R.Place)}, n, true)
	}
	if s.PGFront < s.R.Front {
		n := s
		n.PGFront = s.R.Front
		emit(Label{Text: "persist front %d", A: int(s.R.Front)}, n, false)
	}
}

// ticket is join with a ticket (U2, U3).
func (m Life) ticket(s *lifeState, p uint8) {
	id := p - 1
	if !m.on(OrderIDOfPlace) {
		id = lifePlaces - 1
	}
	above := p > s.R.Front || !m.on(FrontCheck)
	free := s.R.Intents[id] == 0 && (s.R.Judged&bit(id) == 0 || !m.on(JudgedCheck))
	switch {
	case above && free && s.R.Place < p,
		above && free && s.R.User == uWaiting && p <= s.R.Base && s.R.Base < s.R.Place:
		s.R.User, s.R.Place, s.R.Order = uWaiting, p, 0
		s.R.Seq = max(s.R.Seq, p)
		if s.Passes[id] != 0 && s.PGFront >= p && s.Stale != 2 {
			s.Bad |= I7CalledTwice
		}
	case s.R.User == uNone:
		s.R.User, s.R.Place = uCalled, p
	}
}

func (m Life) timeSteps(s lifeState, emit lifeEmit) {
	for p := range uint8(lifePlaces) {
		switch s.Passes[p] {
		case 1:
			n := s
			n.Passes[p] = 2
			emit(Label{Text: "pass %d expires", A: int(p + 1)}, n, false)
		case 2:
			// Minutes after the admission: its front was persisted, a replica has caught up, a loss was met, a submit has ended.
			// These take seconds.
			if s.PGFront < s.R.Front || s.Stale != 0 || s.R.Open == 0 || s.Tabs[0].Place == p+1 || s.Tabs[1].Place == p+1 {
				continue
			}
			n := s
			n.Passes[p] = 3
			m.overdue(&n, p+1)
			emit(Label{Text: "the deadline of order %d passes", A: int(p + 1)}, n, false)
		}
	}
}

// overdue marks what was bound for the place: whatever is sent of it from now on is late (F10).
func (m Life) overdue(s *lifeState, place uint8) {
	for id := range uint8(lifePlaces) {
		if m.placeOf(id) == place && s.R.Intents[id] != 0 {
			s.R.Intents[id] |= lateBody
		}
	}
}

// lateBody is set beside the body of an intent whose deadline has passed.
const lateBody = 4

func (s lifeState) appended(r record) (lifeState, bool) {
	if s.LogN == lifeLog {
		return s, false
	}
	s.Log[s.LogN] = r
	s.LogN++
	return s, true
}

// tabSteps are one submit: 1 bind, 2 send, 3 status and answer after an acknowledgement, 4 the same after an unknown send.
func (m Life) tabSteps(s lifeState, i int, emit lifeEmit) {
	t := s.Tabs[i]
	with := func(n lifeState, t tab) lifeState {
		n.Tabs[i] = t
		if a, b := n.Tabs[0], n.Tabs[1]; b != (tab{}) && (a == (tab{}) || a.PC > b.PC || a.PC == b.PC && a.Body > b.Body) {
			n.Tabs[0], n.Tabs[1] = b, a // the two are alike
		}
		return n
	}
	if t.PC == 0 {
		if s.Left.Posts == 0 || i == 1 && s.Tabs[0].PC == 0 {
			return
		}
		for p := range uint8(lifePlaces) {
			for body := uint8(1); body <= 1+s.Left.Bodies; body++ {
				if s.Passes[p] != 0 {
					n := s
					n.Left.Posts--
					emit(Label{Text: "submit with pass %d, body %d", A: int(p + 1), B: int(body)}, with(n, tab{PC: 1, Place: p + 1, ID: p, Body: body}), true)
				}
			}
		}
		return
	}
	if s.Left.Crash > 0 && t.PC > 1 {
		n := s
		n.Left.Crash--
		emit(Label{Text: "the API crashes with order %d in hand", A: int(t.ID + 1)}, with(n, tab{}), true)
	}
	name := int(t.ID + 1)
	switch t.PC {
	case 1:
		if s.R.Open == 1 {
			m.bindStep(s, t, with, emit)
		}
	case 2:
		late := t.Late
		if n, ok := s.appended(record{kPlace, t.ID, t.Body, late}); ok {
			next := t
			next.PC, next.Late = 3, 0
			if late == 0 { // what was acknowledged in time must be judged as such
				next.PC = 5
			}
			emit(Label{Text: "order %d is sent and acknowledged", A: name}, with(n, next), false)
			if s.Left.Unknown > 0 {
				n.Left.Unknown--
				next.PC = 4
				emit(Label{Text: "order %d is sent, unknown: it is in the log", A: name}, with(n, next), true)
			}
		}
		if s.Left.Unknown > 0 {
			n := s
			n.Left.Unknown--
			next := t
			next.PC = 4
			emit(Label{Text: "order %d is sent, unknown: it is lost", A: name}, with(n, next), true)
			n.Wire[t.ID] = 1 + t.Body + 4*late
			emit(Label{Text: "order %d is sent, unknown: it is delayed", A: name}, with(n, next), true)
		}
	case 3, 5:
		n := s
		m.put(&n, t.ID, 1, vNone, t.Body)
		n.Told[t.ID] |= tPending
		if t.PC == 5 {
			n.Told[t.ID] |= t.Body
		}
		emit(Label{Text: "order %d: status accepted, 202", A: name}, with(n, tab{}), false)
	case 4:
		n := s
		m.put(&n, t.ID, 0, vNone, t.Body)
		n.Told[t.ID] |= tUnknown
		if !m.on(AckedOnly) && t.Late == 0 {
			n.Told[t.ID] |= t.Body
		}
		emit(Label{Text: "order %d: status pending, outcome unknown", A: name}, with(n, tab{}), false)
	}
}

// sendSteps are the late sends: what was on the wire, and the sweeper's.
func (m Life) sendSteps(s lifeState, emit lifeEmit) {
	for id := range uint8(lifePlaces) {
		if w := s.Wire[id]; w != 0 {
			if n, ok := s.appended(record{kPlace, id, (w - 1) & 3, (w - 1) >> 2}); ok {
				n.Wire[id] = 0
				emit(Label{Text: "the delayed order %d lands", A: int(id + 1)}, n, true)
			}
		}
		if s.R.Intents[id] == 0 || !m.on(KeptIntents) || s.has(kPlace, id) {
			continue
		}
		if s.Tabs[0].PC > 1 && s.Tabs[0].ID == id || s.Tabs[1].PC > 1 && s.Tabs[1].ID == id {
			continue // the sweeper comes later than a submit that is alive
		}
		if n, ok := s.appended(record{kPlace, id, s.R.Intents[id] &^ lateBody, s.R.Intents[id] / lateBody}); ok {
			emit(Label{Text: "the sweeper sends order %d", A: int(id + 1)}, n, false)
		}
	}
}

func (s lifeState) has(kind, id uint8) bool {
	for _, r := range s.Log[:s.LogN] {
		if r.Kind == kind && r.ID == id {
			return true
		}
	}
	return false
}
