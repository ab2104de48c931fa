package model

const (
	lifePlaces = 2 // the user's places, in the order of issue; with one place and OrderIDOfPlace away: the order ids of that place
	lifeLog    = 5 // records that wait in the log
)

// Where the user's record is found.
const (
	uNone uint8 = iota
	uWaiting
	uActive
	uOrdering
	uOrdered
	uLeft
	uLapsed
	uCalled
)

// Verdicts.
const (
	vNone uint8 = iota
	vConfirmed
	vRejected
	vCancelled
)

// Kinds of records.
const (
	kPlace uint8 = iota + 1
	kVoid
	kCancel
)

// slot is the product's slot in Redis as far as it concerns one user; it is lost or rolled back as one.
type slot struct {
	Open    uint8             // it has settings
	Base    uint8             // places up to this one are of an incarnation before the line's
	Front   uint8             // highest admitted place
	Seq     uint8             // last place
	User    uint8             // state of the user's record
	Place   uint8             // of that record
	Order   uint8             // order id of that record, where it is ordering
	Judged  uint8             // order ids, a bit each
	Intents [lifePlaces]uint8 // by order id: the digest of what was bound, 0 for none
	Status  [lifePlaces]status
}

// status is an order's record in the status slot. Ver is its version + 1, so that 0 says that there is none.
type status struct{ Ver, Val, Body uint8 }

// record is one record of the log. Late says that it was sent past its deadline.
type record struct{ Kind, ID, Body, Late uint8 }

// tab is one submit: at rest 0, else the number of the step that comes next.
type tab struct{ PC, Place, ID, Body, Late uint8 }

// till is a consumer, with one record in hand.
type till struct{ PC, Pos, Val uint8 }

type row struct{ Val, Body uint8 }

// faults are how many of each may still happen.
type faults struct {
	Flush, Failover, StatusLost, Crash, Unknown, Leave, Zombie, Cancel, Bodies uint8
	Posts, Joins                                                               uint8
}

// lifeState is one user's life in one line, and the orders of the user's places. Log positions are counted from the committed
// offset, so that what was committed is forgotten.
type lifeState struct {
	Bad        Breach
	R, Replica slot
	Stale      uint8 // 1: the replica holds still. 2: it took over, and the line was not advanced yet
	Tabs       [2]tab
	Log        [lifeLog]record
	LogN       uint8
	Tills      [2]till // the owner, and the zombie
	Wire       [lifePlaces]uint8
	Rows       [lifePlaces]row
	PGFront    uint8
	Passes     [lifePlaces]uint8 // by place: 0 none, 1 good, 2 expired, 3 past the order's deadline too
	Recon      uint8             // orders to be settled again after a loss
	Want       uint8
	Told       [lifePlaces]uint8 // what the user was told
	Lost       uint8             // the slot was emptied or rolled back
	Left       faults
}

// What a user may have been told of an order: accepted in time, with either body; pending; unknown.
const (
	tAccepted  = 1
	tAccepted2 = 2
	tPending   = 4
	tUnknown   = 8
)

// zombie's state: pc 0 there is none, else as the owner's, plus this.
const zombieAlive = 8

// Life is the system of one user with two tabs, two consumers and one Redis.
type Life struct {
	Without Guard
	Faults  faults
	Places  uint8 // joins
}

// Start is an open line and a user who never came.
func (m Life) Start() lifeState {
	var s lifeState
	s.R.Open = 1
	s.Left = m.Faults
	return s
}

func (m Life) on(g Guard) bool { return m.Without&g == 0 }

// Broken is what a step has marked.
func (m Life) Broken(s lifeState) Breach { return s.Bad }

// AtRest asks what must have come in the end.
func (m Life) AtRest(s lifeState) Breach {
	var bad Breach
	for id := range uint8(lifePlaces) {
		v, told := s.Rows[id], s.Told[id]
		place := id + 1
		if m.on(OrderIDOfPlace) && v.Val != vNone && s.R.Place == place {
			if u := s.R.User; u == uWaiting || u == uActive || u == uOrdering {
				bad |= I6JudgedStillInLine
			}
		}
		if s.R.Intents[id] != 0 {
			bad |= I6IntentStays
		}
		if told == 0 {
			continue
		}
		switch st := s.R.Status[id]; {
		case v.Val == vNone:
			if s.R.User != uWaiting { // whoever waits again will be called again
				bad |= I2NeverJudged
			}
		case st.Ver < 3 || st.Val != v.Val:
			bad |= I2Unreadable
		}
		if told&(tAccepted|tAccepted2) != 0 {
			if v.Val == vRejected {
				bad |= I2EndedInTime
			}
			if v.Body != 0 && s.Lost == 0 && told&(tAccepted|tAccepted2)&^v.Body != 0 {
				bad |= I4OtherBody
			}
		}
	}
	if s.R.User == uOrdering && s.R.Intents[s.R.Order] == 0 {
		bad |= I6OrderingWithoutIntent
	}
	return bad
}

func bit(n uint8) uint8 { return 1 << n }

// put is orderstatus_put.
func (m Life) put(s *lifeState, id, ver, val, body uint8) {
	st := &s.R.Status[id]
	if m.on(StatusVersion) && st.Ver >= ver+1 {
		return
	}
	if st.Ver >= 3 && (ver < 2 || st.Val == vCancelled && val != vCancelled) {
		s.Bad |= I2TakenBack
	}
	if body == 0 {
		body = st.Body
	}
	*st = status{ver + 1, val, body}
}

// tell is the status that a row asks for.
func (m Life) tell(s *lifeState, id uint8, r row) {
	ver := uint8(2)
	if r.Val == vCancelled {
		ver = 3
	}
	m.put(s, id, ver, r.Val, r.Body)
}

// lapse is R1.
func lapse(s *lifeState) {
	if s.R.User == uActive && s.Passes[s.R.Place-1] >= 2 {
		s.R.User, s.R.Order = uLapsed, 0
	}
}

// placeOf is the place that an order id belongs to.
func (m Life) placeOf(id uint8) uint8 {
	if m.on(OrderIDOfPlace) {
		return id + 1
	}
	return 1
}

// settle is stock_decrement. A row of a void or a tombstone (body 0) knows no place.
func (m Life) settle(s *lifeState, id uint8, r row) {
	s.R.Intents[id] = 0
	s.R.Judged |= bit(id)
	place := m.placeOf(id)
	if r.Body == 0 && (s.R.User != uOrdering && s.R.User != uOrdered || s.R.Order != id) {
		return
	}
	if s.R.Place > place {
		if m.on(NewestPlaceWins) {
			return
		}
		if s.R.User == uWaiting || s.R.User == uActive || s.R.User == uOrdering {
			s.Bad |= I6NewerPlaceGone
		}
	}
	s.R.User, s.R.Place, s.R.Order = uOrdered, place, id
}
