package waitingroom_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

const (
	people   = 3
	capacity = 2
)

// life drives a real slot and the model with the same moves and compares them after each.
type life struct {
	*bundle
	rt      *rapid.T
	m       *model
	replica *model
	copied  map[string]string // the replica's keys
	places  map[product.UserHash][]product.Place
	issued  map[product.Place]product.UserHash
	orders  map[order.ID]stock.Judged // every order ever bound
	ledger  []stockAt                 // base by seq, the last is now
	nonce   int
	v       int64
	inc     int // of the ledger: never falls
	front   product.Place
	bans    []ban // of the ledger, by number; the last of a user counts
	sent    []slice
}

type stockAt struct{ base, seq int64 }

// Random moves of several users, with emptied and rolled back slots, old tickets, old passes and late settles.
func TestLifeAgainstModel(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		fresh := *b
		fresh.product = product.ID("life" + strconv.Itoa(run))
		l := &life{
			bundle: &fresh, rt: rt, m: newModel(), replica: newModel(), copied: map[string]string{},
			places: map[product.UserHash][]product.Place{}, issued: map[product.Place]product.UserHash{},
			orders: map[order.ID]stock.Judged{}, ledger: []stockAt{{rapid.Int64Range(0, 12).Draw(rt, "units"), 0}},
		}
		l.t = rapidTB{t, rt}
		l.restore(rt)
		l.load(rt)
		moves := l.moves()
		for range rapid.IntRange(10, 80).Draw(rt, "steps") {
			moves[rapid.IntRange(0, len(moves)-1).Draw(rt, "move")](rt)
			l.compare(rt)
		}
	})
}

// moves lists each as often as it is to come.
func (l *life) moves() []func(*rapid.T) {
	var moves []func(*rapid.T)
	for _, move := range []struct {
		weight int
		do     func(*rapid.T)
	}{
		{6, l.join},
		{3, l.status},
		{1, l.leave},
		{8, l.admit},
		{2, l.expire},
		{9, l.bind},
		{4, l.settle},
		{1, l.load},
		{1, l.pause},
		{2, l.restore},
		{1, l.empty},
		{1, l.copy},
		{1, l.failover},
		{1, l.advance},
		{2, l.ban},
		{2, l.evict},
	} {
		moves = append(moves, slices.Repeat([]func(*rapid.T){move.do}, move.weight)...)
	}
	return moves
}

func (l *life) user(rt *rapid.T) product.UserHash {
	return user(rapid.IntRange(1, people).Draw(rt, "user"))
}

// ticket is nil or one of the user's places.
func (l *life) ticket(rt *rapid.T, u product.UserHash) *waitingroom.TicketClaim {
	if len(l.places[u]) == 0 || rapid.IntRange(0, 2).Draw(rt, "without ticket") == 0 {
		return nil
	}
	place := rapid.SampledFrom(l.places[u]).Draw(rt, "ticket")
	return &waitingroom.TicketClaim{Place: place, OrderID: l.id(u, place)}
}

func (l *life) join(rt *rapid.T) {
	u := l.user(rt)
	claim := l.ticket(rt, u)
	s, err := l.room.Join(l.ctx, l.product, u, claim)
	if !l.m.present {
		l.want(errors.Is(err, waitingroom.ErrNotReady), "join without settings: %v", err)
		return
	}
	l.m.lapse(u)
	called := l.m.show(u, claim)
	l.want(s.CalledNow == called, "called now: %v", s.CalledNow)
	if l.m.inLine(u) {
		l.check(err)
		l.want(!s.Created && s.Place == l.m.of(u).place, "join in line: %+v", s)
		return
	}
	if l.m.banned[u] {
		l.want(errors.Is(err, waitingroom.ErrBanned) && s.State == l.m.shown(u), "join while banned: %+v, %v", s, err)
		return
	}
	if l.m.of(u).place.Inc() > l.m.inc {
		l.want(errors.Is(err, waitingroom.ErrPlacesEnded), "join below the last place, before the advance: %v", err)
		return
	}
	l.check(err)
	_, taken := l.issued[s.Place]
	l.want(s.Created && !taken && s.Place > l.m.of(u).place, "new place: %+v (I7)", s)
	for place := range l.issued {
		l.want(place < s.Place || place.Inc() > l.m.inc, "place %d was given out before %d (I7)", place, s.Place)
	}
	l.issued[s.Place] = u
	l.places[u] = append(l.places[u], s.Place)
	l.m.people[u] = person{state: waitingroom.Waiting, place: s.Place}
}

func (l *life) status(rt *rapid.T) {
	u := l.user(rt)
	claim := l.ticket(rt, u)
	s, err := l.room.Status(l.ctx, l.product, u, claim)
	if !l.m.present {
		l.want(errors.Is(err, waitingroom.ErrNotReady), "status without settings: %v", err)
		return
	}
	l.check(err)
	l.m.lapse(u)
	called := l.m.show(u, claim)
	l.want(s.CalledNow == called && s.State == l.m.shown(u) && s.Place == l.m.of(u).place, "status: %+v", s)
	again, err := l.room.Status(l.ctx, l.product, u, claim)
	l.check(err)
	l.want(again.State == s.State && again.Place == s.Place && again.Position == s.Position, "status again: %+v", again)
}

func (l *life) leave(rt *rapid.T) {
	u := l.user(rt)
	if len(l.places[u]) == 0 {
		return // has no place
	}
	place := rapid.SampledFrom(l.places[u]).Draw(rt, "place")
	_, err := l.room.Leave(l.ctx, l.product, u, place)
	if !l.m.present {
		l.want(errors.Is(err, waitingroom.ErrNotReady), "leave without settings: %v", err)
		return
	}
	l.check(err)
	l.m.leave(u, place)
}

func (l *life) admit(rt *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(rt, "admit")
	result, err := l.admitter.Admit(l.ctx, l.product, n)
	if !l.m.present {
		l.want(errors.Is(err, waitingroom.ErrNotReady), "admit without settings: %v", err)
		return
	}
	l.check(err)
	for u := range l.m.people {
		l.m.lapse(u)
	}
	most := min(n, l.m.room(capacity, 0))
	if l.m.sale != product.Open {
		most = 0
	}
	l.want(result.Admitted == most || result.Reason == waitingroom.AdmitRate && result.Admitted < most, "admitted %+v, model %d", result, most)
	line := make([]product.UserHash, 0, people)
	for u, p := range l.m.people {
		if p.state == waitingroom.Waiting {
			line = append(line, u)
		}
	}
	slices.SortFunc(line, func(a, b product.UserHash) int { return int(l.m.of(a).place - l.m.of(b).place) })
	for _, u := range line[:result.Admitted] {
		p := l.m.of(u)
		l.m.people[u] = person{state: waitingroom.Active, place: p.place}
		l.m.front = max(l.m.front, p.place)
	}
	l.want(l.m.holders()+l.m.ghost <= capacity || result.Admitted == 0, "capacity is passed (I8)")
}

func (l *life) expire(rt *rapid.T) {
	u := l.user(rt)
	p := l.m.of(u)
	if p.state != waitingroom.Active {
		return // holds no pass
	}
	l.check(l.room.Expire(l.ctx, l.product, u))
	p.over = true
	l.m.people[u] = p
}

func (l *life) bind(rt *rapid.T) {
	u := l.user(rt)
	if len(l.places[u]) == 0 {
		return // has no place
	}
	place := rapid.SampledFrom(l.places[u]).Draw(rt, "pass")
	p := l.m.of(u)
	if place > l.front && place > l.m.front && !(p.state == waitingroom.Active && p.place == place) {
		return // that place was never admitted
	}
	request := l.request(u, place, rapid.IntRange(1, 2).Draw(rt, "quantity"))
	expired := p.over && p.place == place || rapid.IntRange(0, 4).Draw(rt, "expired") == 0
	if p.state == waitingroom.Active && p.place == place && !p.over {
		expired = false // the lease and the pass end together
	}
	if expired {
		request.ExpiresMS = 1000
	}
	before := l.m.intents[request.OrderID]
	result, err := l.room.Bind(l.ctx, request)
	l.check(err)
	outcome := l.m.bind(request, expired)
	l.want(result.Outcome == outcome, "bind %s: %+v, model %s", request.OrderID, result, outcome)
	if outcome == waitingroom.BindBound {
		l.want(result.First == (before.digest == ""), "first: %+v", result)
		l.want(string(result.Command) == l.m.intents[request.OrderID].command, "stored bytes: %q (I4)", result.Command)
		l.orders[request.OrderID] = stock.Judged{OrderID: request.OrderID, User: u, Place: place}
		again, err := l.room.Bind(l.ctx, request)
		l.check(err)
		l.want(again.Outcome == waitingroom.BindBound && !again.First, "bind again: %+v", again)
	}
}

// settle judges an order for the first time, or tells the slot again what was judged, with the ledger's stock of then or now.
func (l *life) settle(rt *rapid.T) {
	if len(l.orders) == 0 {
		return // no order yet
	}
	ids := make([]order.ID, 0, len(l.orders))
	for id := range l.orders {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	judged := l.orders[rapid.SampledFrom(ids).Draw(rt, "order")]
	if rapid.IntRange(0, 3).Draw(rt, "without place") == 0 {
		judged.Place = 0
	}
	now := l.ledger[len(l.ledger)-1]
	if i, ok := l.m.intents[judged.OrderID]; ok {
		left := now.base
		if left >= int64(i.quantity) {
			left -= int64(i.quantity)
		}
		l.ledger = append(l.ledger, stockAt{left, now.seq + 1})
	}
	at := rapid.SampledFrom(l.ledger).Draw(rt, "stock")
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		l.check(l.counter.Settle(l.ctx, l.product, at.base, at.seq, false, []stock.Judged{judged}))
		l.m.settle(at.base, at.seq, false, judged.OrderID, judged.User, judged.Place)
		l.compare(rt)
	}
}

func (l *life) load(*rapid.T) {
	now := l.ledger[len(l.ledger)-1]
	l.check(l.counter.Settle(l.ctx, l.product, now.base, now.seq, true, nil))
	l.m.settle(now.base, now.seq, true, "", "", 0)
}

func (l *life) settings(sale product.State) waitingroom.LineSettings {
	l.v++
	s := settings()
	s.State, s.Capacity = sale, capacity
	return l.line(s, l.v)
}

func (l *life) pause(rt *rapid.T) {
	sale := rapid.SampledFrom([]product.State{product.Open, product.Paused, product.Open}).Draw(rt, "sale")
	applied, err := l.room.SettingsPut(l.ctx, l.product, l.settings(sale))
	if !l.m.present {
		l.want(errors.Is(err, waitingroom.ErrNotReady), "settings on an absent slot: %v", err)
		return
	}
	l.check(err)
	l.want(applied, "settings of a higher version were not taken")
	l.m.sale = sale
}

// compare looks at every user and at the books.
func (l *life) compare(*rapid.T) {
	for n := 1; n <= people; n++ {
		u := user(n)
		found, err := l.room.Membership(l.ctx, l.product, u)
		l.check(err)
		want := l.m.of(u)
		l.want(found.Sets <= 1, "user %d is in %d states: %+v (I6)", n, found.Sets, found)
		state, place, id := found.Record, found.Place, found.OrderID
		if found.Waiting > 0 {
			state, place, id = waitingroom.Waiting, found.Waiting, ""
		}
		l.want(state == want.state && place == want.place && id == want.order, "user %d: %+v, model %+v", n, found, want)
		l.want(state != waitingroom.Ordering || found.HasIntent, "user %d is ordering without an intent", n)
	}
	if !l.m.present {
		l.ends()
		return
	}
	l.balance()
	k := l.books().View
	l.want(k.Held == l.m.held() && k.InFlight == int64(len(l.m.intents)), "held %d in %d, model %d in %d", k.Held, k.InFlight, l.m.held(), len(l.m.intents))
	l.want(k.StockKnown == l.m.known && k.Base == l.m.base && k.Seq == l.m.seq, "stock %d@%d, model %d@%d", k.Base, k.Seq, l.m.base, l.m.seq)
	l.want(k.Front == l.m.front && k.Inc == l.m.inc && k.State == l.m.sale, "front %d inc %d, model %d %d", k.Front, k.Inc, l.m.front, l.m.inc)
	l.want(int(k.Active) == l.m.holders() && int(k.Waiting) == l.m.count(waitingroom.Waiting), "active %d, model %d", k.Active, l.m.holders())
}

func (l *life) want(ok bool, format string, args ...any) {
	l.t.Helper()
	if !ok {
		l.t.Fatalf(format, args...)
	}
}

// rapidTB lets the bundle's checks fail the rapid run, which then shrinks it.
type rapidTB struct {
	testing.TB
	rt *rapid.T
}

func (r rapidTB) Fatal(args ...any)                 { r.rt.Fatal(args...) }
func (r rapidTB) Fatalf(format string, args ...any) { r.rt.Fatalf(format, args...) }
func (r rapidTB) Helper()                           {}
