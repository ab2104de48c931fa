package waitingroom_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

const people = 3

// life drives a real slot and the model with the same moves and compares them after each.
type life struct {
	*bundle
	schedulers []*waitingroom.Admitter // each with connections of its own
	m          *model
	reader     *reader // holds the line by its changes
	replica    *model
	copied     map[string]string // the replica's keys
	places     map[product.UserHash][]product.Place
	issued     map[product.Place]product.UserHash
	orders     map[order.ID]stock.Judged // every order ever bound

	// The ledger.
	stocks   []stockAt                  // base by seq, the last is now
	versions []waitingroom.LineSettings // by number, the last is now
	inc      int                        // never falls
	front    product.Place
	bans     []ban // by number; the last of a user counts
	sent     []slice
	nonces   int
}

type stockAt struct{ base, seq int64 }

// Random moves of several users, operators and schedulers, with emptied and rolled back slots, old tickets, old passes and late settles.
func TestLifeAgainstModel(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	b := bundleOn(t, fixture)
	schedulers := []*waitingroom.Admitter{b.admitter, bundleOn(t, fixture).admitter, bundleOn(t, fixture).admitter}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		fresh := *b
		fresh.product, fresh.t = product.ID("life"+strconv.Itoa(run)), rapidTB{t, rt}
		l := &life{
			bundle: &fresh, schedulers: schedulers, m: newModel(), replica: newModel(), copied: map[string]string{},
			places: map[product.UserHash][]product.Place{}, issued: map[product.Place]product.UserHash{},
			orders: map[order.ID]stock.Judged{}, stocks: []stockAt{{rapid.Int64Range(0, 12).Draw(rt, "units"), 0}},
			reader: &reader{b: &fresh},
		}
		s := settings()
		s.Capacity, s.AbsenceMS = 2, 0
		l.versions = []waitingroom.LineSettings{l.line(s, 1)}
		l.restore(rt)
		l.load(rt)
		rt.Repeat(l.moves())
	})
}

// moves lists each under as many names as its weight; what has no name comes after every move.
func (l *life) moves() map[string]func(*rapid.T) {
	moves := map[string]func(*rapid.T){"": l.compare}
	for name, move := range map[string]struct {
		weight int
		do     func(*rapid.T)
	}{
		"join": {6, l.join}, "status": {3, l.status}, "leave": {3, l.leave}, "away": {2, l.away}, "heard": {2, l.hear},
		"admit": {8, l.admit}, "expire": {2, l.expire},
		"bind": {9, l.bind}, "settle": {4, l.settle}, "sweep": {1, l.sweep}, "forsake": {1, l.forsake},
		"restock": {1, l.restock}, "load": {1, l.load}, "change": {4, l.change}, "put": {3, l.put},
		"ban": {2, l.ban}, "evict": {2, l.evict},
		"restore": {2, l.restore}, "empty": {1, l.empty}, "copy": {2, l.copy}, "failover": {2, l.failover}, "advance": {1, l.advance},
	} {
		for n := range move.weight {
			moves[fmt.Sprintf("%s %d", name, n+1)] = move.do
		}
	}
	return moves
}

func (l *life) user(rt *rapid.T) product.UserHash {
	return user(rapid.IntRange(1, people).Draw(rt, "user"))
}

// among draws somebody in one of the states, so that moves which are seldom possible are made all the same.
func (l *life) among(rt *rapid.T, states ...waitingroom.State) product.UserHash {
	var found []product.UserHash
	for n := 1; n <= people; n++ {
		if slices.Contains(states, l.m.of(user(n)).state) {
			found = append(found, user(n))
		}
	}
	if len(found) == 0 {
		rt.Skip("nobody is in such a state")
	}
	return rapid.SampledFrom(found).Draw(rt, "user")
}

// ticket is nil or one of the user's places.
func (l *life) ticket(rt *rapid.T, u product.UserHash) *waitingroom.TicketClaim {
	if len(l.places[u]) == 0 || rapid.IntRange(0, 2).Draw(rt, "without ticket") == 0 {
		return nil
	}
	place := rapid.SampledFrom(l.places[u]).Draw(rt, "ticket")
	return &waitingroom.TicketClaim{Place: place, OrderID: l.id(u, place)}
}

// absent says, of a slot without settings, that the call was told so.
func (l *life) absent(err error) bool {
	l.t.Helper()
	if !l.m.present {
		l.want(errors.Is(err, waitingroom.ErrNotReady), "without settings: %v", err)
	}
	return !l.m.present
}

func (l *life) join(rt *rapid.T) {
	u := l.user(rt)
	claim := l.ticket(rt, u)
	s, err := l.room.Join(l.ctx, l.product, u, claim)
	if l.absent(err) {
		return
	}
	l.m.lapse(u)
	l.m.heard(u)
	called := l.m.show(u, claim)
	l.want(s.CalledNow == called, "called now: %v", s.CalledNow)
	switch p := l.m.of(u); {
	case inLine(p.state) || p.state == waitingroom.Ordering:
		l.check(err)
		l.want(!s.Created, "join in line: %+v", s)
	case l.m.refuses(u) != nil:
		l.want(errors.Is(err, l.m.refuses(u)) && !s.Created, "join: %+v, %v, expected %v", s, err, l.m.refuses(u))
	default:
		l.check(err)
		_, taken := l.issued[s.Place]
		l.want(s.Created && !taken && s.Place > p.place, "new place: %+v (I7)", s)
		for place := range l.issued {
			l.want(place < s.Place || place.Inc() > l.m.inc, "place %d was given out before %d (I7)", place, s.Place)
		}
		l.issued[s.Place] = u
		l.places[u] = append(l.places[u], s.Place)
		l.m.join(u, s.Place)
	}
	l.stands(u, s)
}

// stands compares what somebody is told with the model.
func (l *life) stands(u product.UserHash, s waitingroom.Standing) {
	l.t.Helper()
	p, line := l.m.of(u), l.m.line()
	l.want(s.State == l.m.shown(u) && s.Place == p.place && s.OrderID == p.order, "told %+v, model %+v", s, p)
	l.want(s.Position == int64(slices.Index(line, u)+1) && s.Total == int64(len(line)), "told %+v, model %v", s, line)
	l.want(s.Product.State == l.m.set.State && s.Product.PassEpoch == l.m.set.PassEpoch && s.Product.StockKnown == l.m.known && s.Product.Base == l.m.base,
		"told of the product %+v, model %+v", s.Product, l.m)
}

func (l *life) status(rt *rapid.T) {
	u := l.user(rt)
	claim := l.ticket(rt, u)
	s, err := l.room.Status(l.ctx, l.product, u, claim)
	if l.absent(err) {
		return
	}
	l.check(err)
	l.m.lapse(u)
	l.m.heard(u)
	called := l.m.show(u, claim)
	l.want(s.CalledNow == called, "called now: %v", s.CalledNow)
	l.stands(u, s)
	again, err := l.room.Status(l.ctx, l.product, u, claim)
	l.check(err)
	l.stands(u, again)
}

func (l *life) leave(rt *rapid.T) {
	u := l.user(rt)
	if len(l.places[u]) == 0 {
		rt.Skip("has no place")
	}
	place := rapid.SampledFrom(append([]product.Place{l.places[u][len(l.places[u])-1]}, l.places[u]...)).Draw(rt, "place")
	_, err := l.room.Leave(l.ctx, l.product, u, place)
	if l.absent(err) {
		return
	}
	l.check(err)
	l.m.leave(u, place)
}

// away moves somebody who was not heard out of the way, as admit does; or ends the grace of who is away already.
func (l *life) away(rt *rapid.T) {
	u := l.among(rt, waitingroom.Waiting, waitingroom.Away)
	p := l.m.of(u)
	if p.state == waitingroom.Away {
		l.check(l.room.EndGrace(l.ctx, l.product, u))
		p.over = true
	} else {
		l.check(l.room.SendAway(l.ctx, l.product, u))
		l.m.tally.Away++
		p.state = waitingroom.Away
	}
	l.m.people[u] = p
}

func (l *life) hear(rt *rapid.T) {
	u := l.among(rt, waitingroom.Away, waitingroom.Waiting)
	back, err := l.room.Heard(l.ctx, l.product, []product.UserHash{u})
	if l.absent(err) {
		return
	}
	l.check(err)
	l.want(l.m.heard(u) == (len(back) == 1), "back: %v", back)
}

// admit runs one scheduler, or several at once; what they let through together is what one would have.
func (l *life) admit(rt *rapid.T) {
	asks := rapid.SliceOfN(rapid.IntRange(1, 3), 1, len(l.schedulers)).Draw(rt, "asks")
	share := rapid.SampledFrom([]float64{1, 1, 1, 0.5}).Draw(rt, "share")
	if _, err := l.schedulers[0].Admit(l.ctx, "nobody", 1); !errors.Is(err, waitingroom.ErrNotReady) {
		l.t.Fatalf("admit of an unknown product: %v", err)
	}
	from := l.now()
	results, errs := make([]waitingroom.AdmitResult, len(asks)), make([]error, len(asks))
	var wg sync.WaitGroup
	for i, ask := range asks {
		wg.Go(func() { results[i], errs[i] = l.schedulers[i].AdmitShare(l.ctx, l.product, ask, share) })
	}
	wg.Wait()
	if !l.m.present {
		l.absent(errors.Join(errs...))
		return
	}
	l.check(errors.Join(errs...))
	l.m.sweep()
	asked, admitted, short := 0, 0, false
	most, why := l.m.room()
	for i, r := range results {
		asked, admitted = asked+asks[i], admitted+r.Admitted
		byRate := r.Reason == waitingroom.AdmitRate && share == 1 || r.Reason == waitingroom.AdmitLag && share < 1
		short = short || byRate
		l.want(r.Admitted <= asks[i] && (r.Reason == waitingroom.AdmitFull) == (r.Admitted == asks[i]), "asked for %d: %+v", asks[i], r)
		l.want(r.Reason == waitingroom.AdmitFull || r.Reason == why || byRate, "reason %q, model %q", r.Reason, why)
	}
	l.want(admitted == min(asked, most) || short && admitted < most, "asked for %v, admitted %+v, model %d", asks, results, most)
	if l.m.set.State == product.Open {
		to := l.now()
		tokens, sure := l.m.bucket.fill(from, to, l.m.set.Rate*share, l.m.set.Burst)
		l.want(float64(admitted) < tokens+1e-6, "%d admitted of %g tokens (I8)", admitted, tokens)
		l.want(!short || sure-float64(admitted) < 1+1e-6, "short of tokens with %g, of which %d were taken", sure, admitted)
		l.m.bucket = bucket{tokens - float64(admitted), max(0, sure-float64(admitted)), from, to}
	}
	l.m.admit(admitted)
	l.want(admitted == 0 || l.m.holders()+l.m.ghost <= l.m.set.Capacity, "capacity is passed (I8)")
}

// now is Redis TIME in ms, of the server that has the slot.
func (l *life) now() int64 {
	l.t.Helper()
	line, err := l.room.Line(l.ctx, l.product)
	l.check(err)
	return line.NowMS
}

func (l *life) expire(rt *rapid.T) {
	u := l.among(rt, waitingroom.Active)
	p := l.m.of(u)
	l.check(l.room.Expire(l.ctx, l.product, u))
	p.over = true
	l.m.people[u] = p
}

func (l *life) bind(rt *rapid.T) {
	u := l.user(rt)
	if len(l.places[u]) == 0 {
		rt.Skip("has no place")
	}
	place := rapid.SampledFrom(l.places[u]).Draw(rt, "pass")
	p := l.m.of(u)
	holds := p.state == waitingroom.Active && p.place == place
	if place > l.front && place > l.m.front && !holds {
		rt.Skip("that place was never admitted")
	}
	request := l.request(u, place, rapid.IntRange(1, 2).Draw(rt, "quantity"))
	request.Epoch = rapid.Int64Range(max(1, l.latest().PassEpoch-1), l.latest().PassEpoch).Draw(rt, "epoch")
	expired := p.over && p.place == place || rapid.IntRange(0, 4).Draw(rt, "expired") == 0
	if holds && !p.over {
		expired = false // the lease and the pass end together
	}
	if expired {
		request.ExpiresMS = 1000
	}
	_, before := l.m.intents[request.OrderID]
	result, err := l.room.Bind(l.ctx, request)
	l.check(err)
	outcome, reason := l.m.bind(request, expired)
	l.want(result.Outcome == outcome && result.Reason == reason, "bind %s: %+v, model %s %s", request.OrderID, result, outcome, reason)
	if outcome == waitingroom.BindBound {
		l.want(result.First == !before, "first: %+v", result)
		l.want(string(result.Command) == l.m.intents[request.OrderID].command, "stored bytes: %q (I4)", result.Command)
		l.orders[request.OrderID] = stock.Judged{OrderID: request.OrderID, User: u, Place: place}
		again, err := l.room.Bind(l.ctx, request)
		l.check(err)
		l.want(again.Outcome == waitingroom.BindBound && !again.First, "bind again: %+v", again)
	}
}

// order draws one that was ever bound.
func (l *life) order(rt *rapid.T) stock.Judged {
	if len(l.orders) == 0 {
		rt.Skip("no order yet")
	}
	return l.orders[rapid.SampledFrom(slices.Sorted(maps.Keys(l.orders))).Draw(rt, "order")]
}

// settle judges an order for the first time, or tells the slot again what was judged, with the ledger's stock of then or now.
func (l *life) settle(rt *rapid.T) {
	judged := l.order(rt)
	if rapid.IntRange(0, 3).Draw(rt, "without place") == 0 {
		judged.Place = 0
	}
	if i, ok := l.m.intents[judged.OrderID]; ok {
		now := l.stocks[len(l.stocks)-1]
		if now.base >= int64(i.quantity) && rapid.IntRange(0, 3).Draw(rt, "rejected") > 0 {
			now.base -= int64(i.quantity)
		}
		l.stocks = append(l.stocks, stockAt{now.base, now.seq + 1})
	}
	at := rapid.SampledFrom(l.stocks).Draw(rt, "stock")
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		l.check(l.counter.Settle(l.ctx, l.product, at.base, at.seq, false, []stock.Judged{judged}))
		l.m.stock(at.base, at.seq, false)
		l.m.settle(judged.OrderID, judged.User, judged.Place)
		l.compare(rt)
	}
}

// sweep finds orders whose send nobody reported on: the bytes to send again are those that were bound.
func (l *life) sweep(rt *rapid.T) {
	for id := range l.m.intents {
		l.check(l.room.MakeDue(l.ctx, l.product, id))
	}
	due, err := l.room.Due(l.ctx, l.product, waitingroom.DueMax)
	l.check(err)
	got, want := map[order.ID]string{}, map[order.ID]string{}
	for _, i := range due {
		got[i.OrderID] = string(i.Command)
		l.check(l.room.Acked(l.ctx, l.product, i.OrderID))
	}
	for id, i := range l.m.intents {
		want[id] = i.command
	}
	l.want(cmp.Equal(got, want), "due: %v, model %v", got, want)
}

func (l *life) forsake(rt *rapid.T) {
	o := l.order(rt)
	got, err := l.room.Forsake(l.ctx, l.product, o.User, o.OrderID)
	l.check(err)
	want := l.m.forsake(o.User, o.OrderID)
	l.want(got == want, "forsake: %s, model %s", got, want)
}

// compare looks at every user and at the books.
func (l *life) compare(*rapid.T) {
	for n := 1; n <= people; n++ {
		u := user(n)
		found, err := l.room.Membership(l.ctx, l.product, u)
		l.check(err)
		want := l.m.of(u)
		l.want(found.Sets <= 1, "user %d is in %d states: %+v (I6)", n, found.Sets, found)
		got := person{state: found.Record, place: found.Place, order: found.OrderID, over: want.over}
		if found.Waiting > 0 {
			got = person{state: waitingroom.Waiting, place: found.Waiting}
		} else if found.Away > 0 {
			got = person{state: waitingroom.Away, place: found.Away, over: want.over}
		}
		l.want(got == want, "user %d: %+v, model %+v", n, got, want)
		l.want(got.state != waitingroom.Ordering || found.HasIntent, "user %d is ordering without an intent", n)
	}
	if !l.m.present {
		l.ends()
		return
	}
	books := l.balance()
	k := books.View
	l.want(k.Held == l.m.held() && k.InFlight == int64(len(l.m.intents)), "held %d in %d, model %d in %d (I10)", k.Held, k.InFlight, l.m.held(), len(l.m.intents))
	l.want(k.StockKnown == l.m.known && k.Base == l.m.base && k.Seq == l.m.seq, "stock %d@%d, model %d@%d", k.Base, k.Seq, l.m.base, l.m.seq)
	l.want(k.Front == l.m.front && k.Inc == l.m.inc, "front %d inc %d, model %d %d", k.Front, k.Inc, l.m.front, l.m.inc)
	l.want(k.Settings == l.m.set.Settings && k.SettingsV == l.m.set.V && k.PassEpoch == l.m.set.PassEpoch, "settings %+v, model %+v", k, l.m.set)
	l.want(int(k.Active) == l.m.holders() && int(k.Waiting) == l.m.count(waitingroom.Waiting) && int(k.Away) == l.m.count(waitingroom.Away), "%+v, model %+v", k, l.m.people)
	l.want(books.Tally == l.m.tally, "tally: %s", cmp.Diff(l.m.tally, books.Tally))
	l.reader.follow()
	line := map[product.Place]bool{}
	for _, u := range l.m.line() {
		line[l.m.of(u).place] = true
	}
	l.want(maps.Equal(l.reader.places, line), "the changes make %v of the line, model %v (F26)", l.reader.places, line)
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
