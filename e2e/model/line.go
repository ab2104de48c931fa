package model

const (
	lineUsers = 3
	lineInc   = 32 // places are inc * lineInc + low
)

// scheduler restores an emptied line: 0 nothing, 1 its nonce is planted, 2 it has an incarnation from the ledger.
type scheduler struct{ PC, Inc uint8 }

// lineSlot is the line in Redis, lost or rolled back as one.
type lineSlot struct {
	Open, Inc, Low, Front, Nonce, Ghost uint8
	Waiting, Active                     [lineUsers]uint8 // places
}

// lineState is one line of three users. Now is the servers' clock; it moves with every join.
type lineState struct {
	Bad             Breach
	R, Replica      lineSlot
	Stale           uint8
	Now             uint8
	PGInc, PGFront  uint8
	Tickets         [lineUsers]uint8
	Out             [lineUsers]uint8 // places of passes that are good
	Called          [lineUsers]uint8 // last place that was called
	Highest         uint8
	Schedulers      [2]scheduler
	Joins, Calls    uint8
	Flush, Failover uint8
	Behind, Pauses  uint8
}

// Line is the system of places, tickets and restores: capacity 1.
type Line struct {
	Without         Guard
	Flush, Failover uint8
	Behind          uint8 // ticks that the clock of a new host is behind
	Joins, Calls    uint8
	Schedulers      uint8
	Pauses          uint8 // how often a scheduler stops for longer than its nonce lives
}

func (m Line) on(g Guard) bool { return m.Without&g == 0 }

// Start is an open line in its first incarnation.
func (m Line) Start() lineState {
	s := lineState{Now: 5, PGInc: 1, Joins: m.Joins, Calls: m.Calls, Flush: m.Flush, Failover: m.Failover, Behind: m.Behind, Pauses: m.Pauses}
	s.R.Open, s.R.Inc = 1, 1
	return s
}

// Broken is what a step has marked.
func (m Line) Broken(s lineState) Breach { return s.Bad }

// AtRest asks that the line goes on.
func (m Line) AtRest(s lineState) Breach {
	if s.R.Open == 0 {
		return I12LineClosedForGood
	}
	return 0
}

// Steps are all that can happen next.
func (m Line) Steps(s lineState, emit func(l Label, to lineState, may bool)) {
	if s.R.Open == 1 {
		for u := range uint8(lineUsers) {
			m.userSteps(s, u, emit)
		}
		m.admit(s, emit)
	}
	for u, p := range s.Out {
		if p != 0 {
			n := s
			n.Out[u] = 0
			if n.R.Active[u] == p {
				n.R.Active[u] = 0
			}
			if n.Out == ([lineUsers]uint8{}) {
				n.R.Ghost = 0
			}
			emit(Label{Text: "the pass of user %d, place %d, is used or expires", A: u + 1, B: int(p)}, n, true)
		}
	}
	if s.PGFront < s.R.Front {
		n := s
		n.PGFront = s.R.Front
		emit(Label{Text: "persist front %d", A: int(s.R.Front)}, n, true)
	}
	for i := range m.Schedulers {
		m.restore(s, i, emit)
	}
	m.lose(s, emit)
}

func (m Line) userSteps(s lineState, u uint8, emit func(l Label, to lineState, may bool)) {
	if s.R.Waiting[u] != 0 || s.R.Active[u] != 0 {
		return
	}
	if s.Joins > 0 {
		n := s
		n.Joins--
		n.Now++
		n.R.Low++
		if m.on(PlaceClock) {
			n.R.Low = max(n.R.Low, n.Now)
		}
		p := n.R.Inc*lineInc + n.R.Low
		for other, t := range s.Tickets {
			if t == p && other != int(u) {
				n.Bad |= I7SamePlace
			}
		}
		if p < s.Highest {
			n.Bad |= I7InFront
		}
		n.R.Waiting[u], n.Tickets[u], n.Highest = p, p, max(p, s.Highest)
		emit(Label{Text: "user %d joins: place %d", A: int(u + 1), B: int(p)}, n, true)
	}
	if t := s.Tickets[u]; t != 0 && (t > s.R.Front || !m.on(FrontCheck)) {
		n := s
		n.R.Waiting[u] = t
		if s.Called[u] == t && t <= s.PGFront && s.Stale != 2 {
			n.Bad |= I7CalledTwice
		}
		emit(Label{Text: "user %d shows ticket %d", A: int(u + 1), B: int(t)}, n, true)
	}
}

// admit calls the first of the line when the capacity of one has room.
func (m Line) admit(s lineState, emit func(l Label, to lineState, may bool)) {
	first := -1
	for u, p := range s.R.Waiting {
		if p != 0 && (first < 0 || p < s.R.Waiting[first]) {
			first = u
		}
	}
	if first < 0 || s.Calls == 0 || s.R.Ghost != 0 || s.R.Active != ([lineUsers]uint8{}) {
		return
	}
	n := s
	n.Calls--
	p := s.R.Waiting[first]
	n.R.Waiting[first], n.R.Active[first], n.Out[first], n.Called[first] = 0, p, p, p
	n.R.Front = max(s.R.Front, p)
	out := 0
	for _, p := range n.Out {
		if p != 0 {
			out++
		}
	}
	if out > 1 && m.Failover == 0 { // after a failover the passes of the lost suffix are uncounted until the advance: declared
		n.Bad |= I8OverCapacity
	}
	emit(Label{Text: "admit user %d, place %d", A: first + 1, B: int(p)}, n, true)
}

// restore is one scheduler's way through L1 and L2.
func (m Line) restore(s lineState, i uint8, emit func(l Label, to lineState, may bool)) {
	n := s
	c := &n.Schedulers[i]
	name := int(i + 1)
	switch s.Schedulers[i].PC {
	case 0:
		if s.R.Open == 0 && s.R.Nonce == 0 {
			n.R.Nonce = i + 1
			c.PC = 1
			emit(Label{Text: "scheduler %d begins a restore", A: name}, n, false)
		}
	case 1:
		n.PGInc++
		c.PC, c.Inc = 2, n.PGInc
		emit(Label{Text: "scheduler %d takes incarnation %d", A: name, B: int(n.PGInc)}, n, false)
	case 2:
		c.PC, c.Inc = 0, 0
		if s.R.Open == 1 || m.on(RestoreNonce) && s.R.Nonce != i+1 {
			emit(Label{Text: "scheduler %d: its commit is refused", A: name}, n, false)
			return
		}
		n.R = lineSlot{Open: 1, Inc: s.Schedulers[i].Inc, Front: s.PGFront}
		if !m.on(LineInc) {
			n.R.Inc = 1
		}
		if m.on(Ghosts) && s.Out != ([lineUsers]uint8{}) {
			n.R.Ghost = 1
		}
		emit(Label{Text: "scheduler %d opens the line, incarnation %d", A: name, B: int(n.R.Inc)}, n, false)
	}
	if s.R.Nonce == i+1 && s.Pauses > 0 {
		n := s
		n.Pauses--
		n.R.Nonce = 0
		emit(Label{Text: "scheduler %d is paused, its nonce ends", A: name}, n, true)
	}
}

func (m Line) lose(s lineState, emit func(l Label, to lineState, may bool)) {
	if s.Flush > 0 && s.R.Open == 1 {
		n := s
		n.Flush--
		n.R = lineSlot{}
		n.Now -= s.Behind
		n.Behind = 0
		emit(Label{Text: "REDIS EMPTIED; the new host's clock is %d behind", A: int(s.Behind)}, n, true)
	}
	if s.Failover > 0 && s.Stale == 0 {
		n := s
		n.Stale, n.Replica = 1, s.R
		emit(Label{Text: "the replica falls behind"}, n, true)
	}
	if s.Stale == 1 {
		n := s
		n.Failover--
		n.R, n.Replica, n.Stale = s.Replica, lineSlot{}, 2
		emit(Label{Text: "FAILOVER: what came since is lost"}, n, false)
	}
	if s.Stale == 2 {
		n := s
		n.Stale = 0
		n.PGInc++
		n.R.Inc, n.R.Low, n.R.Front = n.PGInc, 0, max(s.R.Front, s.PGFront)
		emit(Label{Text: "advance to incarnation %d", A: int(n.PGInc)}, n, false)
	}
}
