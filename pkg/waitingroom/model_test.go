package waitingroom_test

import (
	"maps"
	"slices"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// model is one product's slot as docs/joint.md describes it, written a second time and without Redis: the machine of
// the life of e2e/model for several users, with stock. Places come from the real line; the model checks and keeps them.
type model struct {
	present bool
	set     waitingroom.LineSettings // those that the slot has
	inc     int
	front   product.Place
	known   bool // base and seq
	base    int64
	seq     int64
	ghost   int
	bucket  bucket
	people  map[product.UserHash]person
	intents map[order.ID]intent
	judged  map[order.ID]bool
	banned  map[product.UserHash]bool
	bansV   int64 // of the last change that the slot has
	tally   waitingroom.Tally
}

type person struct {
	state waitingroom.State
	place product.Place
	order order.ID
	over  bool // active, and the lease has ended; or away, and the grace has
}

type intent struct {
	quantity int
	digest   string
	command  string
}

func newModel() *model {
	return &model{people: map[product.UserHash]person{}, intents: map[order.ID]intent{}, judged: map[order.ID]bool{}, banned: map[product.UserHash]bool{}}
}

// clone is a replica's copy of this moment.
func (m *model) clone() *model {
	c := *m
	c.people, c.intents, c.judged, c.banned = maps.Clone(m.people), maps.Clone(m.intents), maps.Clone(m.judged), maps.Clone(m.banned)
	return &c
}

func (m *model) of(u product.UserHash) person {
	if p, ok := m.people[u]; ok {
		return p
	}
	return person{state: waitingroom.None}
}

func (m *model) count(state waitingroom.State) (n int) {
	for _, p := range m.people {
		if p.state == state {
			n++
		}
	}
	return n
}

// line is who waits, in order.
func (m *model) line() (line []product.UserHash) {
	for u, p := range m.people {
		if p.state == waitingroom.Waiting {
			line = append(line, u)
		}
	}
	slices.SortFunc(line, func(a, b product.UserHash) int { return int(m.of(a).place - m.of(b).place) })
	return line
}

// holders are the unexpired passes.
func (m *model) holders() (n int) {
	for _, p := range m.people {
		if p.state == waitingroom.Active && !p.over {
			n++
		}
	}
	return n
}

func (m *model) held() (n int64) {
	for _, i := range m.intents {
		n += int64(i.quantity)
	}
	return n
}

// ended is the count of the lives that ended like this; nil for a state that is no end of an unused place.
func (m *model) ended(state waitingroom.State) *int64 {
	switch state {
	case waitingroom.Left:
		return &m.tally.Left
	case waitingroom.Lapsed:
		return &m.tally.Lapsed
	case waitingroom.Evicted:
		return &m.tally.Evicted
	case waitingroom.Called:
		return &m.tally.Called
	}
	return nil
}

// inLine says that the user's life goes on, at a place that was not ordered with.
func inLine(state waitingroom.State) bool {
	return state == waitingroom.Waiting || state == waitingroom.Away || state == waitingroom.Active
}

// put is settings_put: an opening stays, and a revocation is never taken back.
func (m *model) put(s waitingroom.LineSettings) bool {
	if s.V <= m.set.V {
		return false
	}
	s.PassEpoch = max(s.PassEpoch, m.set.PassEpoch)
	m.set = s
	return true
}

// lapse is R1.
func (m *model) lapse(u product.UserHash) {
	if p := m.of(u); p.state == waitingroom.Active && p.over {
		m.people[u] = person{state: waitingroom.Lapsed, place: p.place}
		m.tally.Lapsed++
	}
}

// heard is U4: who was away is back.
func (m *model) heard(u product.UserHash) (back bool) {
	p := m.of(u)
	if p.state != waitingroom.Away {
		return false
	}
	m.people[u] = person{state: waitingroom.Waiting, place: p.place}
	m.tally.Back++
	return true
}

// show is U2 and U3.
func (m *model) show(u product.UserHash, t *waitingroom.TicketClaim) (called bool) {
	if t == nil || m.banned[u] {
		return false
	}
	p := m.of(u)
	_, inFlight := m.intents[t.OrderID]
	open := t.Place > m.front && !m.judged[t.OrderID] && !inFlight
	switch {
	case open && p.place < t.Place:
		if !inLine(p.state) {
			m.tally.Restored++
		}
		m.people[u] = person{state: waitingroom.Waiting, place: t.Place}
	case open && p.state == waitingroom.Waiting && t.Place.Inc() < p.place.Inc():
		m.people[u] = person{state: waitingroom.Waiting, place: t.Place}
	case p.state == waitingroom.None:
		m.people[u] = person{state: waitingroom.Called, place: t.Place}
		m.tally.Restored++
		m.tally.Called++
		return true
	}
	return false
}

// join is U1 for whoever is not in line.
func (m *model) join(u product.UserHash, place product.Place) {
	m.people[u] = person{state: waitingroom.Waiting, place: place}
	m.tally.Joined++
}

// refuses is why a join makes no new place; nil where it makes one.
func (m *model) refuses(u product.UserHash) error {
	switch {
	case m.set.State == product.Closed:
		return waitingroom.ErrClosed
	case m.banned[u]:
		return waitingroom.ErrBanned
	case m.count(waitingroom.Waiting)+m.count(waitingroom.Away) >= m.set.MaxLen:
		return waitingroom.ErrFull
	case m.of(u).place.Inc() > m.inc:
		return waitingroom.ErrPlacesEnded // below the last one, before the advance
	}
	return nil
}

// leave is U9.
func (m *model) leave(u product.UserHash, place product.Place) {
	m.lapse(u)
	if p := m.of(u); p.place == place && inLine(p.state) {
		m.people[u] = person{state: waitingroom.Left, place: place}
		m.tally.Left++
	}
}

// shown is the state that a status tells.
func (m *model) shown(u product.UserHash) waitingroom.State {
	state := m.of(u).state
	switch {
	case state == waitingroom.None && m.banned[u]:
		return waitingroom.Evicted
	case state == waitingroom.Evicted && !m.banned[u]:
		return waitingroom.Lapsed
	}
	return state
}

// evict is U10.
func (m *model) evict(b ban) {
	if b.v <= m.bansV {
		return
	}
	if !b.banned {
		delete(m.banned, b.user)
		return
	}
	m.banned[b.user] = true
	p := m.of(b.user)
	switch p.state {
	case waitingroom.Left, waitingroom.Lapsed, waitingroom.Called:
		*m.ended(p.state)--
	case waitingroom.Waiting, waitingroom.Away, waitingroom.Active:
	default:
		return
	}
	m.tally.Evicted++
	m.people[b.user] = person{state: waitingroom.Evicted, place: p.place}
}

// sweep is what every run of admit does first (U6, U4).
func (m *model) sweep() {
	for u, p := range m.people {
		m.lapse(u)
		if p.state == waitingroom.Away && p.over && m.set.State == product.Open {
			m.people[u] = person{state: waitingroom.Lapsed, place: p.place}
			m.tally.Lapsed++
			m.tally.AwayLapsed++
		}
	}
}

// admit is U5 for the first n of the line.
func (m *model) admit(n int) {
	for _, u := range m.line()[:n] {
		place := m.of(u).place
		m.people[u] = person{state: waitingroom.Active, place: place}
		m.front = max(m.front, place)
	}
	m.tally.Admitted += int64(n)
}

// room is how many could be admitted were there no rate, by line, capacity and stock, and what allows no more.
func (m *model) room() (n int, reason waitingroom.AdmitReason) {
	line, slots := m.count(waitingroom.Waiting), m.set.Capacity-m.holders()-m.ghost
	each := m.set.UnitsPerPass
	units := int(m.base-m.held()) - each*m.holders() + m.set.Oversub
	byStock := (max(units, 0) + each - 1) / each // for one as long as a unit is left
	n = max(0, min(line, slots, byStock))
	switch {
	case m.set.State != product.Open:
		return 0, waitingroom.AdmitReason(m.set.State)
	case !m.known:
		return 0, waitingroom.AdmitStockUnknown
	case n == line:
		return n, waitingroom.AdmitEmpty
	case byStock <= n:
		return n, waitingroom.AdmitSoldOut
	default:
		return n, waitingroom.AdmitCapacity
	}
}

// bind is 2.3.
func (m *model) bind(b waitingroom.BindRequest, expired bool) (waitingroom.BindOutcome, waitingroom.BindReason) {
	if !m.present {
		return waitingroom.BindClosed, ""
	}
	m.lapse(b.User)
	if i, ok := m.intents[b.OrderID]; ok {
		if i.digest == b.Digest {
			return waitingroom.BindBound, ""
		}
		return waitingroom.BindConflict, ""
	}
	if m.judged[b.OrderID] {
		return waitingroom.BindJudged, ""
	}
	p := m.of(b.User)
	holds := p.state == waitingroom.Active && p.place == b.Place
	forgotten := !holds && !expired && (p.place < b.Place ||
		p.place == b.Place && (p.state == waitingroom.Waiting || p.state == waitingroom.Away || p.state == waitingroom.Called) ||
		p.state == waitingroom.Waiting && p.place.Inc() > b.Place.Inc())
	switch {
	case m.banned[b.User]:
		return m.refused(b, waitingroom.ReasonBanned)
	case b.Epoch < m.set.PassEpoch:
		return m.refused(b, waitingroom.ReasonRevoked)
	case !holds && !forgotten:
		return m.refused(b, m.ending(p, b.Place))
	case m.set.OrdersHalted:
		return waitingroom.BindHalted, ""
	case holds && !m.known, len(m.intents) >= m.set.InflightMax:
		return waitingroom.BindBusy, ""
	case m.known && m.base-m.held() < int64(b.Quantity):
		return waitingroom.BindSoldOut, ""
	}
	if p.state == waitingroom.Called && p.place == b.Place {
		m.tally.Called--
	} else if !inLine(p.state) {
		m.tally.Restored++
	}
	m.tally.Bound++
	m.people[b.User] = person{state: waitingroom.Ordering, place: b.Place, order: b.OrderID}
	m.intents[b.OrderID] = intent{b.Quantity, b.Digest, string(b.Command)}
	return waitingroom.BindBound, ""
}

// refused is rule 5: of a line before the last loss nobody knows whether it was used.
func (m *model) refused(b waitingroom.BindRequest, reason waitingroom.BindReason) (waitingroom.BindOutcome, waitingroom.BindReason) {
	if b.Place.Inc() < m.inc {
		return waitingroom.BindUnknown, reason
	}
	return waitingroom.BindRefused, reason
}

func (m *model) ending(p person, given product.Place) waitingroom.BindReason {
	switch {
	case p.state == waitingroom.None, p.place < given, p.state == waitingroom.Waiting && p.place == given:
		return waitingroom.ReasonExpired
	case p.state == waitingroom.Lapsed, p.state == waitingroom.Called:
		return waitingroom.ReasonLapsed
	case p.state == waitingroom.Left:
		return waitingroom.ReasonLeft
	case p.state == waitingroom.Evicted:
		return waitingroom.ReasonEvicted
	}
	return waitingroom.ReasonSuperseded
}

// stock is what every settle begins with: a higher seq wins, and who may creates.
func (m *model) stock(base, seq int64, create bool) {
	if m.known && seq > m.seq || !m.known && create {
		m.known, m.base, m.seq = true, base, seq
	}
}

// settle is U8.
func (m *model) settle(id order.ID, u product.UserHash, place product.Place) {
	_, wasIntent := m.intents[id]
	if wasIntent {
		delete(m.intents, id)
		m.tally.Ordered++
	}
	m.judged[id] = true
	p := m.of(u)
	if place == 0 && p.order == id {
		place = p.place
	}
	if place == 0 || p.place > place || p.state == waitingroom.Ordered && p.order == id {
		return // R2, or told before
	}
	switch {
	case inLine(p.state):
		m.tally.Ordered++
	case m.ended(p.state) != nil && p.place == place:
		*m.ended(p.state)--
		m.tally.Ordered++
	case !wasIntent:
		m.tally.Restored++
		m.tally.Ordered++
	}
	m.people[u] = person{state: waitingroom.Ordered, place: place, order: id}
}

// forsake is O7.
func (m *model) forsake(u product.UserHash, id order.ID) waitingroom.Forsaken {
	p := m.of(u)
	switch _, bound := m.intents[id]; {
	case !m.present:
		return waitingroom.ForsakeAbsent
	case bound:
		return waitingroom.ForsakeBound
	case inLine(p.state) && !(p.state == waitingroom.Active && p.over):
		return waitingroom.ForsakeInLine
	}
	m.judged[id] = true
	return waitingroom.ForsakeDone
}

// bucket bounds the tokens of the slot: it was filled at some moment of Redis TIME between two that are known.
type bucket struct {
	most, least float64
	from, to    int64 // when it was filled last, in ms
}

// fill is what runs of admit between two moments find at most, all of them together, and at least, the first of them.
func (b bucket) fill(from, to int64, rate float64, burst int) (most, least float64) {
	most = min(float64(burst), b.most+float64(max(0, to-b.from))*rate/1000) + float64(to-from)*rate/1000
	least = min(float64(burst), b.least+float64(max(0, from-b.to))*rate/1000)
	return most, least
}
