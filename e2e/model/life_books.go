package model

import "fmt"

// tillSteps are a consumer's: 0 judge, 1 settle, 2 status, 3 commit. Till 0 is the owner, till 1 a zombie that lives on with the
// record that it had in hand.
func (m Life) tillSteps(s lifeState, i int, emit lifeEmit) {
	c := s.Tills[i]
	who := [2]string{"consumer", "zombie"}[i]
	if i == 1 {
		if c.PC < zombieAlive {
			return
		}
		c.PC -= zombieAlive
	}
	put := func(n lifeState, c till) lifeState {
		if i == 1 {
			c.PC += zombieAlive
		}
		n.Tills[i] = c
		return n
	}
	if s.Left.Crash > 0 && c.PC > 0 && i == 0 {
		n := s
		n.Left.Crash--
		n.Tills[0] = till{}
		emit(Label{Text: "the consumer crashes"}, n, true)
	}
	if s.Left.Zombie > 0 && i == 0 && (c.PC > 0 || s.LogN > 0) {
		n := s
		n.Left.Zombie--
		n.Tills[1] = till{c.PC + zombieAlive, c.Pos, c.Val}
		n.Tills[0] = till{}
		emit(Label{Text: "the partition moves; the consumer of before lives on"}, n, true)
	}
	if c.PC == 0 {
		if c.Pos < s.LogN {
			n := s
			m.judge(&n, s.Log[c.Pos])
			c.PC, c.Val = 1, n.Rows[s.Log[c.Pos].ID].Val
			if !m.on(OffsetAfterVerdict) && i == 0 {
				emit(Label{Text: who + ": offset committed before the verdict"}, m.committed(s), true)
			}
			emit(Label{Text: who + ": judge record %d: " + verdict(c.Val), A: int(c.Pos + 1)}, put(n, c), false)
		}
		return
	}
	id := s.Log[c.Pos].ID
	n := s
	was := row{c.Val, s.Rows[id].Body} // what this consumer's transaction saw
	name := int(id + 1)
	switch c.PC {
	case 1:
		m.settle(&n, id, was)
		c.PC = 2
		emit(Label{Text: who + ": settle order %d", A: name}, put(n, c), false)
	case 2:
		m.tell(&n, id, was)
		c.PC = 3
		emit(Label{Text: who + ": status of order %d: " + verdict(c.Val), A: name}, put(n, c), false)
	case 3:
		if i == 0 {
			emit(Label{Text: who + ": commit"}, m.committed(n), false)
			return
		}
		n.Tills[1] = till{}
		emit(Label{Text: who + ": its late commit is refused"}, n, false)
	}
}

func verdict(v uint8) string {
	return [...]string{"none", "confirmed", "rejected", "cancelled"}[v]
}

// committed moves the log behind the owner's record. A record that the zombie still holds stays in its hand: it is put at the place
// before the log by holding the zombie's position back, and the log is moved only when nobody needs it.
func (m Life) committed(s lifeState) lifeState {
	s.Tills[0] = till{Pos: s.Tills[0].Pos + 1}
	for s.Tills[0].Pos > 0 && (s.Tills[1].PC < zombieAlive || s.Tills[1].Pos > 0) {
		copy(s.Log[:], s.Log[1:])
		s.Log[lifeLog-1] = record{}
		s.LogN--
		s.Tills[0].Pos--
		if s.Tills[1].PC >= zombieAlive {
			s.Tills[1].Pos--
		}
	}
	return s
}

// judge is the transaction, for one record.
func (m Life) judge(s *lifeState, r record) {
	known := &s.Rows[r.ID]
	switch {
	case r.Kind == kCancel && known.Val == vConfirmed:
		known.Val = vCancelled
	case r.Kind == kCancel && known.Val == vNone:
		*known = row{Val: vCancelled}
	case r.Kind == kCancel || known.Val != vNone:
	case r.Kind == kVoid:
		*known = row{Val: vRejected}
	case r.Late == 1:
		*known = row{vRejected, r.Body}
	default:
		*known = row{vConfirmed, r.Body}
		if s.Rows[0].Val == vConfirmed && s.Rows[1].Val == vConfirmed && !m.on(OrderIDOfPlace) {
			s.Bad |= I4TwoOrders
		}
	}
}

// bookSteps are the operator's cancel, what is asked for because a status is gone, and what is settled again after a loss.
func (m Life) bookSteps(s lifeState, emit lifeEmit) {
	for id := range uint8(lifePlaces) {
		name, it := int(id+1), bit(id)
		if s.Left.Cancel > 0 && s.Told[id] != 0 {
			if n, ok := s.appended(record{Kind: kCancel, ID: id}); ok {
				n.Left.Cancel--
				emit(Label{Text: "the operator cancels order %d", A: name}, n, true)
			}
		}
		if s.Recon&it != 0 {
			n := s
			n.Recon &^= it
			m.settle(&n, id, s.Rows[id])
			m.tell(&n, id, s.Rows[id])
			emit(Label{Text: "reconcile order %d", A: name}, n, false)
		}
		if s.Told[id] != 0 && s.Want&it == 0 && s.R.Status[id].Ver < 3 && s.R.Intents[id] == 0 && m.on(WantedStatuses) {
			n := s
			n.Want |= it
			emit(Label{Text: "the user asks for order %d: wanted", A: name}, n, false)
		}
		if s.Want&it != 0 {
			m.wanted(s, id, emit)
		}
	}
}

func (m Life) wanted(s lifeState, id uint8, emit lifeEmit) {
	n := s
	n.Want &^= bit(id)
	if v := s.Rows[id]; v.Val != vNone {
		m.settle(&n, id, v)
		m.tell(&n, id, v)
		emit(Label{Text: "the ledger answers for order %d: " + verdict(v.Val), A: int(id + 1)}, n, false)
		return
	}
	if !m.on(VoidForNobodys) || s.R.Intents[id] != 0 || s.R.Open == 0 || s.has(kVoid, id) {
		return
	}
	if m.on(VoidNotInLine) && (s.R.User == uWaiting || s.R.User == uActive) {
		return
	}
	if m.on(VoidWaits) && s.Passes[m.placeOf(id)-1] != 3 {
		return
	}
	if n, ok := n.appended(record{Kind: kVoid, ID: id}); ok {
		if m.on(VoidClosesID) {
			n.R.Judged |= bit(id)
		}
		emit(Label{Text: fmt.Sprintf("nobody can account for order %d: void", id+1)}, n, false)
	}
}

// lossSteps are what Redis loses, and how the line goes on.
func (m Life) lossSteps(s lifeState, emit lifeEmit) {
	judged := uint8(0)
	for id := range uint8(lifePlaces) {
		if s.Rows[id].Val != vNone && m.on(ReconcileAfterLoss) {
			judged |= bit(id)
		}
	}
	tickets := m.Faults.Joins - s.Left.Joins
	switch {
	case s.R.Open == 0:
		n := s
		n.R.Open, n.R.Base, n.R.Seq = 1, tickets, tickets
		n.R.Front = max(s.R.Front, s.PGFront)
		n.Recon = judged
		emit(Label{Text: "restore"}, n, false)
	case s.Stale == 2:
		n := s
		n.Stale = 0
		n.R.Base, n.R.Front = max(s.R.Base, s.R.Seq), max(s.R.Front, s.PGFront)
		n.Recon = judged
		emit(Label{Text: "advance"}, n, false)
	case s.Left.Flush > 0:
		n := s
		n.Left.Flush--
		n.R, n.Lost = slot{}, 1
		emit(Label{Text: "REDIS EMPTIED"}, n, true)
	}
	if s.Left.Failover > 0 && s.Stale == 0 && s.R.Open == 1 {
		n := s
		n.Stale, n.Replica = 1, s.R
		emit(Label{Text: "the replica falls behind"}, n, true)
	}
	if s.Stale == 1 {
		n := s
		n.R, n.Replica, n.Stale, n.Lost = s.Replica, slot{}, 2, 1
		n.Left.Failover--
		n.R.Seq = tickets // the clock is ahead of every place that was given out
		emit(Label{Text: "FAILOVER: what came since is lost"}, n, false)
	}
	if s.Left.StatusLost > 0 && s.R.Status != ([lifePlaces]status{}) {
		n := s
		n.Left.StatusLost--
		n.R.Status = [lifePlaces]status{}
		emit(Label{Text: "STATUS SLOT LOST"}, n, true)
	}
}
