package waitingroom_test

import (
	"maps"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// model is one product's slot as docs/joint.md describes it, written a second time and without Redis: the machine of
// the life of e2e/model for several users, with stock. Places come from the real line; the model checks and keeps them.
type model struct {
	present bool // settings
	sale    product.State
	inc     int
	front   product.Place
	known   bool // base and seq
	base    int64
	seq     int64
	ghost   int
	people  map[product.UserHash]person
	intents map[order.ID]intent
	judged  map[order.ID]bool
	banned  map[product.UserHash]bool
	bansV   int64 // of the last change that the slot has
}

type person struct {
	state waitingroom.State
	place product.Place
	order order.ID
	over  bool // active, and the lease has ended
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

// lapse is R1.
func (m *model) lapse(u product.UserHash) {
	if p := m.of(u); p.state == waitingroom.Active && p.over {
		m.people[u] = person{state: waitingroom.Lapsed, place: p.place}
	}
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
	case open && p.place < t.Place,
		open && p.state == waitingroom.Waiting && t.Place.Inc() < p.place.Inc():
		m.people[u] = person{state: waitingroom.Waiting, place: t.Place}
	case p.state == waitingroom.None:
		m.people[u] = person{state: waitingroom.Called, place: t.Place}
		return true
	}
	return false
}

// inLine says that a join answers where the user stands.
func (m *model) inLine(u product.UserHash) bool {
	switch m.of(u).state {
	case waitingroom.Waiting, waitingroom.Active, waitingroom.Ordering:
		return true
	}
	return false
}

// leave is U9.
func (m *model) leave(u product.UserHash, place product.Place) {
	m.lapse(u)
	p := m.of(u)
	if p.place == place && (p.state == waitingroom.Waiting || p.state == waitingroom.Active) {
		m.people[u] = person{state: waitingroom.Left, place: place}
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
	switch p := m.of(b.user); p.state {
	case waitingroom.Waiting, waitingroom.Active, waitingroom.Left, waitingroom.Lapsed, waitingroom.Called:
		m.people[b.user] = person{state: waitingroom.Evicted, place: p.place}
	}
}

// bind is 2.3.
func (m *model) bind(b waitingroom.BindRequest, expired bool) waitingroom.BindOutcome {
	if !m.present || m.sale == product.NotOpen {
		return waitingroom.BindClosed
	}
	m.lapse(b.User)
	if i, ok := m.intents[b.OrderID]; ok {
		if i.digest == b.Digest {
			return waitingroom.BindBound
		}
		return waitingroom.BindConflict
	}
	if m.judged[b.OrderID] {
		return waitingroom.BindJudged
	}
	p := m.of(b.User)
	holds := p.state == waitingroom.Active && p.place == b.Place
	forgotten := !expired && (p.place < b.Place ||
		p.place == b.Place && (p.state == waitingroom.Waiting || p.state == waitingroom.Called) ||
		p.state == waitingroom.Waiting && p.place.Inc() > b.Place.Inc())
	if m.banned[b.User] {
		holds, forgotten = false, false
	}
	switch {
	case holds && !m.known:
		return waitingroom.BindBusy
	case (holds || forgotten) && m.known && m.base-m.held() < int64(b.Quantity):
		return waitingroom.BindSoldOut
	case holds || forgotten:
		m.people[b.User] = person{state: waitingroom.Ordering, place: b.Place, order: b.OrderID}
		m.intents[b.OrderID] = intent{b.Quantity, b.Digest, string(b.Command)}
		return waitingroom.BindBound
	case b.Place.Inc() < m.inc:
		return waitingroom.BindUnknown
	default:
		return waitingroom.BindRefused
	}
}

// settle is U8.
func (m *model) settle(base, seq int64, create bool, id order.ID, u product.UserHash, place product.Place) {
	if m.known && seq > m.seq || !m.known && create {
		m.known, m.base, m.seq = true, base, seq
	}
	if id == "" {
		return
	}
	delete(m.intents, id)
	m.judged[id] = true
	p := m.of(u)
	switch {
	case place == 0 && p.order == id:
		m.people[u] = person{state: waitingroom.Ordered, place: p.place, order: id}
	case place > 0 && p.place <= place:
		m.people[u] = person{state: waitingroom.Ordered, place: place, order: id}
	}
}

// room is how many could be admitted were there no rate: by line, capacity and stock.
func (m *model) room(capacity int, oversub int64) int {
	if !m.known {
		return 0
	}
	units := m.base - m.held() - int64(m.holders()) + oversub
	return max(0, min(m.count(waitingroom.Waiting), capacity-m.holders()-m.ghost, int(units)))
}
