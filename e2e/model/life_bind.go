package model

// bindStep is bind and, where nothing is bound, the rest of the table in docs/joint.md, 2.3.
func (m Life) bindStep(s lifeState, t tab, with func(lifeState, tab) lifeState, emit lifeEmit) {
	n := s
	outcome := m.bind(&n, &t)
	id, name := t.ID, int(t.ID+1)
	switch outcome {
	case "bound":
		t.PC = 2
		emit(Label{Text: "bind order %d", A: name}, with(n, t), false)
		return
	case "conflict":
		emit(Label{Text: "order %d is bound with another body: 409", A: name}, with(n, tab{}), false)
		return
	}
	if st := s.R.Status[id]; st.Ver > 0 {
		if m.on(DigestCheck) && st.Body != 0 && st.Body != t.Body {
			emit(Label{Text: "order %d is known with another body: 409", A: name}, with(n, tab{}), false)
			return
		}
		n.Told[id] |= tPending
		if s.Rows[id].Val == vConfirmed && st.Val == vConfirmed {
			n.Told[id] |= t.Body // 200 with the verdict says that this body has it
		}
		emit(Label{Text: "order %d is known: its status", A: name}, with(n, tab{}), false)
		return
	}
	switch outcome {
	case "judged":
		n.Told[id] |= tPending
		emit(Label{Text: "order %d is judged, its status forgotten: pending", A: name}, with(n, tab{}), false)
	case "unknown":
		n.Told[id] |= tUnknown
		emit(Label{Text: "order %d is of before the loss: outcome unknown", A: name}, with(n, tab{}), false)
	default:
		if (s.Rows[id].Val == vConfirmed || s.Told[id] != 0) && s.Stale != 2 {
			n.Bad |= I12RefusedThoughOrdered
		}
		if s.Passes[t.Place-1] == 1 && s.R.Place <= t.Place && s.R.User != uLeft && s.Rows[id].Val == vNone {
			n.Bad |= I6PassWorthless
		}
		emit(Label{Text: "pass %d is refused", A: int(t.Place)}, with(n, tab{}), false)
	}
}

// bind is waitingroom_bind, rule by rule.
func (m Life) bind(s *lifeState, t *tab) string {
	lapse(s)
	r := &s.R
	if !m.on(OrderIDOfPlace) { // the id is chosen here, and remembered by the user's record alone
		switch {
		case r.User == uOrdering && r.Place == t.Place:
			t.ID = r.Order
		case r.Intents[0] != 0 || r.Judged&1 != 0 || s.Rows[0].Val != vNone || s.has(kPlace, 0) || s.Tabs[0].PC > 1 || s.Tabs[1].PC > 1:
			t.ID = 1
		default:
			t.ID = 0
		}
	}
	id := t.ID
	if kept := r.Intents[id]; kept != 0 && m.on(BindRule1) {
		if kept&^lateBody != t.Body && m.on(DigestCheck) {
			return "conflict"
		}
		t.Late = kept / lateBody
		return "bound"
	}
	if r.Judged&bit(id) != 0 && m.on(BindRule2) {
		return "judged"
	}
	take := func() string {
		if r.Place == t.Place && (r.User == uLeft || r.User == uLapsed) {
			s.Bad |= I6OrderedThoughLeft
		}
		r.User, r.Place, r.Order = uOrdering, t.Place, id
		r.Intents[id] = t.Body
		return "bound"
	}
	if r.User == uActive && r.Place == t.Place {
		return take()
	}
	if s.Passes[t.Place-1] == 1 && m.on(BindRule4) {
		if r.Place < t.Place || r.Place == t.Place && (r.User == uWaiting || r.User == uCalled) ||
			r.User == uWaiting && t.Place <= r.Base && r.Base < r.Place || !m.on(BindRule4Bounds) {
			return take()
		}
	}
	if t.Place <= r.Base {
		return "unknown"
	}
	return "refused"
}
