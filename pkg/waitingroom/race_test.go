package waitingroom_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/lua"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

const (
	racers  = 8               // that make each of the moves of a race
	claimed = 5 * time.Second // the life of a claim
)

// words counts what was answered.
type words map[string]int

// start lets racers make each of the moves at the same moment, and counts what they were answered; n is another number for each.
func (b *bundle) start(moves ...func(n int) string) words {
	gun := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	answers := words{}
	for n := range racers * len(moves) {
		wg.Go(func() {
			<-gun
			answer := moves[n%len(moves)](n)
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
	}
	close(gun)
	wg.Wait()
	return answers
}

// quick is start for moves by which something is claimed for a while. A machine that is too busy to end the race within that time shows
// nothing, and the answers are none.
func (b *bundle) quick(claim time.Duration, moves ...func(n int) string) (answers words, ok bool) {
	begun := time.Now()
	answers = b.start(moves...)
	return answers, time.Since(begun) < claim
}

func (b *bundle) statuses() *orderstatus.Store {
	return orderstatus.New(b.rdb, b.keys, orderstatus.Config{})
}

// word is what an error is counted as.
func word(err error) string {
	for _, known := range []error{
		waitingroom.ErrBanned, waitingroom.ErrNotHolder, waitingroom.ErrOpen, waitingroom.ErrNotReady, waitingroom.ErrBehind,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "failed: " + err.Error()
	}
	return "done"
}

func yes(name string, ok bool, err error) string {
	if err != nil {
		return word(err)
	}
	if ok {
		return name
	}
	return "not " + name
}

// The moves of the races, each with what it is counted as.

func (b *bundle) joins(u int) func(int) string {
	return func(int) string {
		s, err := b.room.Join(b.ctx, b.product, user(u), nil)
		return yes("created", s.Created, err)
	}
}

func (b *bundle) leaves(u int, place product.Place) func(int) string {
	return func(int) string { return word(errorOf(b.room.Leave(b.ctx, b.product, user(u), place))) }
}

func (b *bundle) polls(u int) func(int) string {
	return func(int) string {
		s, err := b.room.Status(b.ctx, b.product, user(u), nil)
		return yes(string(s.State), true, err)
	}
}

func (b *bundle) hears(u int) func(int) string {
	return func(int) string {
		back, err := b.room.Heard(b.ctx, b.product, []product.UserHash{user(u)})
		return yes("back", len(back) == 1, err)
	}
}

func (b *bundle) admits(most int) func(int) string {
	return func(int) string {
		r, err := b.admitter.Admit(b.ctx, b.product, most)
		return yes(fmt.Sprintf("admitted %d", r.Admitted), true, err)
	}
}

func (b *bundle) binds(r waitingroom.BindRequest) func(int) string {
	return func(int) string {
		result, err := b.room.Bind(b.ctx, r)
		if result.First {
			return "first"
		}
		return yes(string(result.Outcome), true, err)
	}
}

func (b *bundle) bindsDirect(r waitingroom.DirectRequest) func(int) string {
	return func(int) string {
		result, err := b.room.BindDirect(b.ctx, r)
		if result.First {
			return "first"
		}
		return yes(string(result.Outcome), true, err)
	}
}

func (b *bundle) evicts(u int) func(int) string {
	ban := waitingroom.Ban{User: user(u), UntilMS: time.Now().Add(time.Hour).UnixMilli(), V: 1}
	return func(int) string {
		n, err := b.room.Evict(b.ctx, b.product, []waitingroom.Ban{ban}, 0, 1)
		return yes("evicted", n == 1, err)
	}
}

func (b *bundle) settles(base, seq int64, judged ...stock.Judged) func(int) string {
	return func(int) string { return word(b.counter.Settle(b.ctx, b.product, base, seq, false, judged)) }
}

// same fails unless got is one of the allowed.
func same[T any](b *bundle, what string, got T, allowed ...T) {
	b.t.Helper()
	if !slices.ContainsFunc(allowed, func(want T) bool { return cmp.Equal(got, want) }) {
		b.t.Fatalf("%s: %+v, expected one of %+v", what, got, allowed)
	}
}

// pass lets one person through, who then holds a pass, and returns a bind of it.
func (b *bundle) pass(u, quantity int) waitingroom.BindRequest {
	b.t.Helper()
	s := b.join(user(u))
	b.admit(1)
	return b.request(user(u), s.Place, quantity)
}

func judgedOf(r waitingroom.BindRequest) stock.Judged {
	return stock.Judged{OrderID: r.OrderID, User: r.User, Place: r.Place}
}

// race is two or more moves at one moment: whichever comes first, there is one effect, and the books balance.
type race struct {
	scripts []string // those whose moves meet
	run     func(b *bundle)
}

func races() map[string]race {
	return map[string]race{
		"join and join": {[]string{"waitingroom_join"}, func(b *bundle) {
			same(b, "joins", b.start(b.joins(1)), words{"created": 1, "not created": racers - 1})
			same(b, "joined", b.books().Tally.Joined, 1)
		}},
		"join and leave": {[]string{"waitingroom_join", "waitingroom_leave"}, func(b *bundle) {
			place := b.join(user(1)).Place
			created := b.start(b.joins(1), b.leaves(1, place))["created"]
			same(b, "created", created, 0, 1)
			found, tally := b.status(user(1)), b.books().Tally
			same(b, "state", found.State, []waitingroom.State{waitingroom.Left, waitingroom.Waiting}[created])
			same(b, "the new place is higher", found.Place > place, created == 1)
			same(b, "tally", tally, waitingroom.Tally{Joined: int64(1 + created), Left: 1})
		}},
		"leave and admit": {[]string{"waitingroom_leave", "waitingroom_admit"}, func(b *bundle) {
			place := b.join(user(1)).Place
			b.join(user(2))
			b.start(b.leaves(1, place), b.admits(1))
			same(b, "state", b.status(user(1)).State, waitingroom.Left)
			same(b, "state of who stays", b.status(user(2)).State, waitingroom.Active)
			same(b, "left", b.books().Tally.Left, 1)
		}},
		"admit and admit": {[]string{"waitingroom_admit"}, func(b *bundle) {
			b.set("cap", 5)
			for n := range 20 {
				b.join(user(n))
			}
			b.start(b.admits(1), b.admits(2), b.admits(3))
			for n := range 20 {
				same(b, fmt.Sprintf("first come, first served: %d", n), b.found(n) == waitingroom.Active, n < 5)
			}
		}},
		"bind and bind again": {[]string{"waitingroom_bind"}, func(b *bundle) {
			r := b.pass(1, 2)
			same(b, "binds", b.start(b.binds(r)), words{"first": 1, "bound": racers - 1})
			same(b, "held", b.view().Held, 2)
		}},
		"bind and bind of another body": {[]string{"waitingroom_bind"}, func(b *bundle) {
			one := b.pass(1, 2)
			other := b.request(one.User, one.Place, 3)
			same(b, "binds", b.start(b.binds(one), b.binds(other)), words{"first": 1, "bound": racers - 1, "conflict": racers})
			same(b, "held", b.view().Held, 2, 3)
		}},
		"bind and bind of the last unit": {[]string{"waitingroom_bind"}, func(b *bundle) {
			one, other := b.pass(1, 1), b.pass(2, 1)
			b.check(b.counter.Settle(b.ctx, b.product, 1, 1, false, nil))
			same(b, "binds", b.start(b.binds(one), b.binds(other)), words{"first": 1, "bound": racers - 1, "sold_out": racers})
			same(b, "held", b.view().Held, 1)
		}},
		"bind and leave": {[]string{"waitingroom_bind", "waitingroom_leave"}, func(b *bundle) {
			r := b.pass(1, 1)
			bound := b.start(b.binds(r), b.leaves(1, r.Place))["first"]
			same(b, "bound", bound, 0, 1)
			same(b, "state", b.found(1), []waitingroom.State{waitingroom.Left, waitingroom.Ordering}[bound])
			same(b, "tally", b.books().Tally, waitingroom.Tally{Joined: 1, Admitted: 1, Bound: int64(bound), Left: int64(1 - bound)})
		}},
		"bind and evict": {[]string{"waitingroom_bind", "waitingroom_evict"}, func(b *bundle) {
			r := b.pass(1, 1)
			bound := b.start(b.binds(r), b.evicts(1))["first"]
			same(b, "bound", bound, 0, 1)
			same(b, "state", b.found(1), []waitingroom.State{waitingroom.Evicted, waitingroom.Ordering}[bound])
			same(b, "tally", b.books().Tally, waitingroom.Tally{Joined: 1, Admitted: 1, Bound: int64(bound), Evicted: int64(1 - bound)})
		}},
		"bind and lapse": {[]string{"waitingroom_bind", "waitingroom_status", "waitingroom_admit"}, func(b *bundle) {
			r := b.pass(1, 1)
			b.check(b.room.Expire(b.ctx, b.product, r.User))
			same(b, "bound", b.start(b.binds(r), b.polls(1), b.admits(1))["first"], 0)
			same(b, "tally", b.books().Tally, waitingroom.Tally{Joined: 1, Admitted: 1, Lapsed: 1})
		}},
		"bind direct and bind direct of another key": {[]string{"waitingroom_bind_direct"}, func(b *bundle) {
			b.set("queue_on", 0)
			got := b.start(b.bindsDirect(b.direct(1, "one", 2)), b.bindsDirect(b.direct(1, "other", 2)))
			same(b, "binds", got, words{"first": 1, "bound": racers - 1, "pending": racers})
			same(b, "held", b.view().Held, 2)
		}},
		"bind direct and bind": {[]string{"waitingroom_bind_direct", "waitingroom_bind"}, func(b *bundle) {
			r := b.pass(1, 2)
			b.set("queue_on", 0)
			same(b, "binds", b.start(b.bindsDirect(b.direct(1, "one", 2)), b.binds(r)),
				words{"first": 1, "bound": racers - 1, "pending": racers}, words{"first": 1, "bound": racers - 1, "refused": racers})
			same(b, "held", b.view().Held, 2)
		}},
		"bind direct and leave": {[]string{"waitingroom_bind_direct", "waitingroom_leave"}, func(b *bundle) {
			place := b.join(user(1)).Place
			b.set("queue_on", 0)
			same(b, "bound", b.start(b.bindsDirect(b.direct(1, "one", 2)), b.leaves(1, place))["first"], 1)
			same(b, "state", b.found(1), waitingroom.Ordering)
			tally := b.books().Tally
			same(b, "tally", tally, waitingroom.Tally{Joined: 1 + tally.Left, Bound: 1, Left: tally.Left})
		}},
		"join and evict": {[]string{"waitingroom_join", "waitingroom_evict"}, func(b *bundle) {
			got := b.start(b.joins(1), b.evicts(1))
			same(b, "evicted", got["evicted"], got["created"])
			same(b, "state", b.status(user(1)).State, waitingroom.Evicted)
			same(b, "waiting", b.view().Waiting, 0)
		}},
		"evict and evict": {[]string{"waitingroom_evict"}, func(b *bundle) {
			b.join(user(1))
			same(b, "evictions", b.start(b.evicts(1)), words{"evicted": 1, "not evicted": racers - 1})
		}},
		"settle and settle": {[]string{"stock_decrement"}, func(b *bundle) {
			r := b.pass(1, 2)
			b.bind(r)
			b.start(b.settles(98, 1, judgedOf(r)), b.settles(97, 2, judgedOf(r)), b.settles(99, 0))
			v := b.view()
			same(b, "stock", []int64{v.Base, v.Seq, v.Held}, []int64{97, 2, 0})
			same(b, "ordered", b.books().Tally.Ordered, 1)
		}},
		"settle and bind": {[]string{"stock_decrement", "waitingroom_bind"}, func(b *bundle) {
			r := b.pass(1, 2)
			got := b.start(b.settles(98, 1, judgedOf(r)), b.binds(r))
			same(b, "first", got["first"], 0, 1)
			same(b, "held", b.view().Held, 0)
			same(b, "state", b.found(1), waitingroom.Ordered)
			same(b, "ordered", b.books().Tally.Ordered, 1)
		}},
		"settle and leave": {[]string{"stock_decrement", "waitingroom_leave"}, func(b *bundle) {
			r := b.pass(1, 2)
			b.start(b.settles(98, 1, judgedOf(r)), b.leaves(1, r.Place)) // judged, though the slot forgot the bind
			same(b, "state", b.found(1), waitingroom.Ordered)
			same(b, "tally", b.books().Tally, waitingroom.Tally{Joined: 1, Admitted: 1, Ordered: 1})
		}},
		"sweep, report and settle": {[]string{"waitingroom_due", "waitingroom_acked", "stock_decrement"}, func(b *bundle) {
			var judged []stock.Judged
			for n := range 5 {
				r := b.pass(n, 1)
				b.bind(r)
				b.check(b.room.MakeDue(b.ctx, b.product, r.OrderID))
				judged = append(judged, judgedOf(r))
			}
			got, ok := b.quick(claimed, func(int) string {
				due, err := b.room.Due(b.ctx, b.product, 3)
				return yes(fmt.Sprint(len(due)), true, err)
			})
			same(b, "handed out once", !ok || got["1"]+2*got["2"]+3*got["3"] == 5, true)
			b.start(func(n int) string { return word(b.room.Acked(b.ctx, b.product, judged[n%5].OrderID)) }, b.settles(95, 5, judged...))
			same(b, "in flight", b.view().InFlight, 0)
		}},
		"forsake and bind": {[]string{"waitingroom_forsake", "waitingroom_bind"}, func(b *bundle) {
			r := b.pass(1, 1)
			b.check(b.room.Forget(b.ctx, b.product))
			b.open(settings(), 2, 100)
			got := b.start(b.binds(r), func(int) string {
				f, err := b.room.Forsake(b.ctx, b.product, r.User, r.OrderID)
				return yes(string(f), true, err)
			})
			same(b, "binds and forsakes", got,
				words{"first": 1, "bound": 2*racers - 1}, words{"forsaken": racers, "judged": racers})
		}},
		"heard and heard": {[]string{"waitingroom_heard", "waitingroom_join", "waitingroom_status"}, func(b *bundle) {
			place := b.join(user(1)).Place
			b.check(b.room.SendAway(b.ctx, b.product, user(1)))
			got := b.start(b.hears(1), b.joins(1), b.polls(1))
			same(b, "back", got["back"] <= 1 && got["created"] == 0, true)
			same(b, "place", b.status(user(1)).Place, place)
			same(b, "tally", b.books().Tally, waitingroom.Tally{Joined: 1, Away: 1, Back: 1})
		}},
		"heard and the end of the grace": {[]string{"waitingroom_heard", "waitingroom_admit"}, func(b *bundle) {
			b.set("cap", 0)
			b.join(user(1))
			b.check(b.room.SendAway(b.ctx, b.product, user(1)))
			b.check(b.room.EndGrace(b.ctx, b.product, user(1)))
			back := b.start(b.hears(1), b.admits(1))["back"]
			same(b, "state", b.found(1), []waitingroom.State{waitingroom.Lapsed, waitingroom.Waiting}[back])
		}},
		"heard and leave": {[]string{"waitingroom_heard", "waitingroom_leave"}, func(b *bundle) {
			place := b.join(user(1)).Place
			b.check(b.room.SendAway(b.ctx, b.product, user(1)))
			b.start(b.hears(1), b.leaves(1, place))
			same(b, "state", b.found(1), waitingroom.Left)
			same(b, "left", b.books().Tally.Left, 1)
		}},
		"an old ticket and a new join": {[]string{"waitingroom_join", "waitingroom_status"}, func(b *bundle) {
			place := b.join(user(1)).Place
			b.check(b.room.Forget(b.ctx, b.product))
			b.open(settings(), 2, 100)
			claim := &waitingroom.TicketClaim{Place: place, OrderID: b.id(user(1), place)}
			b.start(b.joins(1), func(int) string { return word(errorOf(b.room.Status(b.ctx, b.product, user(1), claim))) })
			same(b, "place", b.status(user(1)).Place, place)
			same(b, "waiting", b.view().Waiting, 1)
		}},
		"settings of several versions": {[]string{"waitingroom_settings_put"}, func(b *bundle) {
			s := settings()
			put := func(n int) string {
				s := s
				s.Capacity = 2 + n/2
				applied, err := b.room.SettingsPut(b.ctx, b.product, b.line(s, int64(s.Capacity)))
				return yes(fmt.Sprint(s.Capacity), applied, err)
			}
			got := b.start(put, put)
			for name, n := range got {
				same(b, "applied "+name, strings.HasPrefix(name, "not ") || n == 1, true)
			}
			same(b, "the highest wins", int64(b.view().Capacity), racers+1)
			same(b, "version", b.view().SettingsV, racers+1)
		}},
		"restores": {[]string{"waitingroom_restore_begin", "waitingroom_restore_renew", "waitingroom_restore_commit"}, func(b *bundle) {
			b.check(b.room.Forget(b.ctx, b.product))
			got, ok := b.quick(claimed, func(n int) string {
				nonce := fmt.Sprint("nonce", n)
				if err := b.room.RestoreBegin(b.ctx, b.product, nonce); err != nil {
					return "late"
				}
				return word(errors.Join(b.room.RestoreRenew(b.ctx, b.product, nonce),
					b.room.RestoreCommit(b.ctx, b.product, nonce, b.line(settings(), 1), n+2, 0, 0)))
			})
			same(b, "restored once", !ok || cmp.Equal(got, words{"done": 1, "late": racers - 1}), true)
		}},
		"advances": {[]string{"waitingroom_advance_begin", "waitingroom_advance"}, func(b *bundle) {
			got := b.start(func(n int) string {
				nonce := fmt.Sprint("nonce", n)
				if err := b.room.AdvanceBegin(b.ctx, b.product, nonce); err != nil {
					return "late"
				}
				return yes(fmt.Sprint(n+2), true, b.room.Advance(b.ctx, b.product, nonce, n+2, 0))
			})
			highest := 0
			for inc := range racers {
				if got[fmt.Sprint(inc+2)] == 1 {
					highest = inc + 2
				}
			}
			same(b, "the highest incarnation", b.view().Inc, highest)
		}},
		"asking for the stock": {[]string{"waitingroom_load_asked"}, func(b *bundle) {
			b.check(b.room.Forget(b.ctx, b.product))
			b.restore(settings(), 2, 0, 0)
			got, ok := b.quick(time.Second, func(int) string {
				asked, err := b.room.LoadAsked(b.ctx, b.product)
				return yes("asked", asked, err)
			})
			same(b, "asked once", !ok || got["asked"] == 1, true)
		}},
		"statuses": {[]string{"orderstatus_put"}, func(b *bundle) {
			store := b.statuses()
			id := b.id(user(1), 1)
			versions := []order.Status{
				{Version: order.VersionPending, State: order.StatePending}, {Version: order.VersionAccepted, State: order.StateAccepted},
			}
			put := func(s order.Status) func(int) string {
				return func(int) string {
					written, err := store.Put(b.ctx, id, s)
					return yes(string(s.State), written, err)
				}
			}
			got := b.start(put(versions[0]), put(versions[1]))
			same(b, "accepted", got["accepted"], 1)
			kept, _, err := store.Get(b.ctx, id)
			b.check(err)
			same(b, "kept", kept.State, order.StateAccepted)
		}},
		"wanted": {[]string{"orderstatus_want", "orderstatus_take_wanted"}, func(b *bundle) {
			store := b.statuses()
			var wants []orderstatus.Wanted
			for n := range 5 {
				want := orderstatus.Wanted{Product: b.product, User: user(n), OrderID: b.id(user(n), 1)}
				wants = append(wants, want)
				same(b, "wanted", b.start(func(int) string { return word(store.Want(b.ctx, want)) }), words{"done": racers})
			}
			got, ok := b.quick(claimed, func(int) string {
				taken, err := store.TakeWanted(b.ctx, 3)
				return yes(fmt.Sprint(len(taken)), true, err)
			})
			same(b, "handed out once", !ok || got["1"]+2*got["2"]+3*got["3"] == 5, true)
			for _, want := range wants {
				b.check(store.Unwant(b.ctx, want))
			}
		}},
	}
}

// Every script that moves something, against itself and against those that move the same: at whatever moment they meet there is one effect.
func TestStartGun(t *testing.T) {
	t.Parallel()
	const rounds = 5
	for name, race := range races() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			for round := range rounds {
				b.product = product.ID(fmt.Sprint("race", round))
				b.open(settings(), 1, 100)
				b.awaitTokens()
				race.run(b)
				b.balance()
			}
		})
	}
}

// A script that writes and is in no race is missing above.
func TestStartGunHasEveryScript(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(lua.FS, "*.lua")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, name := range names {
		source, err := fs.ReadFile(lua.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(source), "#!lua flags=no-writes\n") {
			want[strings.TrimSuffix(name, ".lua")] = true
		}
	}
	got := map[string]bool{}
	for _, race := range races() {
		for _, name := range race.scripts {
			got[name] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Fatalf("scripts that move something, and those of the races:\n%s", diff)
	}
}
