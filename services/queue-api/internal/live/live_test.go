package live

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

func TestMain(m *testing.M) { localtest.Main(m) }

func lines(t *testing.T, room Room, hearer Hearer, cfg Config) *Lines {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return New(room, hearer, slog.New(slog.DiscardHandler), metrics, cfg)
}

func user(n int) product.UserHash {
	const digits = "0123456789abcdef"
	h := []byte("00000000000000000000000000000000")
	for i := len(h) - 1; n > 0; i, n = i-1, n/16 {
		h[i] = digits[n%16]
	}
	return product.UserHash(h)
}

// TestLinesAgainstRedis has people join, leave and be admitted from several connections at once, and compares every position with
// Redis's own whenever all is quiet; also after the stream was trimmed, after Redis lost everything and after a rollback.
func TestLinesAgainstRedis(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	conn := redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second}
	rdb, once := redisconn.New(redisconn.ClientOptions(conn)), redisconn.New(redisconn.OnceOptions(conn))
	t.Cleanup(func() { _, _ = rdb.Close(), once.Close() })
	keys, ctx := product.Keyspace{Prefix: fixture.Prefix}, t.Context()
	room, admitter, counter := waitingroom.New(rdb, keys), waitingroom.NewAdmitter(once, keys), stock.New(rdb, keys)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const p = product.ID("shoe")
	names := keys.Product(p)
	settings := product.DefaultSettings()
	settings.State, settings.Rate, settings.Burst, settings.Capacity = product.Open, 100_000, 100_000, 100_000
	opened := time.Now().Add(-time.Hour).UnixMicro()
	open := func(inc int) {
		t.Helper()
		nonce := "n" + product.Place(inc).String()
		check(room.RestoreBegin(ctx, p, nonce))
		check(room.RestoreCommit(ctx, p, nonce, waitingroom.LineSettings{Settings: settings, V: int64(inc), OpenedUS: opened, PassEpoch: 1}, inc, 0, 0))
		check(counter.Settle(ctx, p, 1_000_000, 0, true, nil))
	}
	open(1)
	all := lines(t, room, nil, Config{Every: time.Nanosecond, Wait: 30 * time.Second, Timeout: 20 * time.Second})
	same := func(when string) {
		t.Helper()
		entries, err := room.WaitingFrom(ctx, p, 0, 100_000)
		check(err)
		for i, e := range entries {
			if i%7 != 0 && i != len(entries)-1 {
				continue
			}
			look, found := all.Find(ctx, p, e.Place)
			if !found || look.Position != int64(i)+1 || look.View.Waiting != int64(len(entries)) || look.Head != entries[0].Place {
				t.Fatalf("%s: place %d is at %d of %d (%v), want %d of %d", when, e.Place, look.Position, look.View.Waiting, found, i+1, len(entries))
			}
		}
		if look, found := all.Find(ctx, p, product.MakePlace(1000, 1)); !found || look.Position != 0 {
			t.Fatalf("%s: nobody's place is at %d (%v)", when, look.Position, found)
		}
		places, positions := []product.Place{product.MakePlace(1000, 1)}, make([]int64, len(entries)+1)
		positions[0] = 7
		for _, e := range entries {
			places = append(places, e.Place)
		}
		if look, found := all.Survey(ctx, p, places, positions); !found || look.View.Waiting != int64(len(entries)) {
			t.Fatalf("%s: %d waiting (%v)", when, look.View.Waiting, found)
		}
		for i, position := range positions {
			if position != int64(i) {
				t.Fatalf("%s: place %d is at %d, want %d", when, places[i], position, i)
			}
		}
	}
	crowd := func(seed int) {
		t.Helper()
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(seed), uint64(worker))) //nolint:gosec // a test's own
				for range 60 {
					u := user(random.IntN(400))
					switch random.IntN(10) {
					case 0, 1:
						if s, err := room.Status(ctx, p, u, nil); err == nil && s.Place > 0 {
							_, _ = room.Leave(ctx, p, u, s.Place)
						}
					case 2:
						_, _ = admitter.Admit(ctx, p, 1+random.IntN(5))
					default:
						_, _ = room.Join(ctx, p, u, nil)
					}
					if look, found := all.Find(ctx, p, 1); !found || look.View.NowMS == 0 {
						t.Error("no snapshot while the line moves")
					}
				}
			})
		}
		wg.Wait()
	}
	for round := range 4 {
		crowd(round)
		same("quiet")
	}
	crowd(10)
	check(rdb.XTrimMaxLen(ctx, names.Changes, 3).Err())
	same("trimmed")

	// A rollback: the slot and its stream are what they were, and go on otherwise.
	dumps := map[string]string{}
	for _, key := range []string{names.Settings, names.Clock, names.Waiting, names.Active, names.Who, names.WhoT, names.Tally, names.Admits, names.Stock, names.Changes} {
		dump, err := rdb.Dump(ctx, key).Result()
		if err == nil {
			dumps[key] = dump
		}
	}
	crowd(20)
	same("before the rollback")
	for key, dump := range dumps {
		check(rdb.RestoreReplace(ctx, key, 0, dump).Err())
	}
	same("rolled back")
	crowd(30)
	same("after the rollback")

	lost := []string{names.Settings, names.Clock, names.Waiting, names.Active, names.Who, names.WhoT, names.Tally, names.Admits, names.Stock, names.Changes}
	check(rdb.Del(ctx, lost...).Err())
	if look, found := all.Find(ctx, p, 1); found {
		t.Fatalf("a snapshot of a lost line: %+v", look)
	}
	open(2)
	crowd(40)
	same("restored")
}

// fake is a line of three that the test moves and takes away.
type fake struct {
	calls atomic.Int64
	fail  atomic.Bool
	err   error // what it fails with; nil for a word
	hangs atomic.Bool
	hold  chan struct{} // a refresh that hangs waits for it
}

func (f *fake) Watch(ctx context.Context, _ product.ID, after string) (waitingroom.Changed, error) {
	f.calls.Add(1)
	if f.hangs.Load() {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return waitingroom.Changed{}, ctx.Err()
		}
	}
	if f.fail.Load() {
		return waitingroom.Changed{}, cmp.Or(f.err, errors.New("away"))
	}
	return waitingroom.Changed{Known: true, Last: after, View: waitingroom.ProductView{Waiting: 3, Inc: 1}}, nil
}

func (f *fake) WaitingSlice(_ context.Context, p product.ID, _ product.Place) (waitingroom.Slice, error) {
	if p == "absent" {
		return waitingroom.Slice{}, waitingroom.ErrNotReady
	}
	if f.fail.Load() {
		return waitingroom.Slice{}, errors.New("away")
	}
	return waitingroom.Slice{Places: []product.Place{5, 6, 9}, Last: "1-0", View: waitingroom.ProductView{Waiting: 3, Inc: 1}}, nil
}

// TestLines goes through the life of a snapshot by a clock of its own.
func TestLines(t *testing.T) {
	t.Parallel()
	find := func(t *testing.T, l *Lines, want bool) Look {
		t.Helper()
		look, found := l.Find(t.Context(), "shoe", 6)
		if found != want || found && look.Position != 2 {
			t.Fatalf("found %v at %d, want %v", found, look.Position, want)
		}
		return look
	}

	t.Run("OneCallARefreshWhateverTheCrowd", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			room := &fake{}
			l := lines(t, room, nil, Config{})
			find(t, l, true)
			before := room.calls.Load()
			for range 4 {
				time.Sleep(250 * time.Millisecond)
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() { find(t, l, true) })
				}
				wg.Wait()
			}
			if n := room.calls.Load() - before; n != 4 {
				t.Fatalf("%d calls in a second, want 4", n)
			}
		})
	})

	t.Run("StaleForABoundedTimeWhileRedisIsAway", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			room := &fake{}
			l := lines(t, room, nil, Config{StaleFor: 10 * time.Second})
			if look := find(t, l, true); look.Stale() {
				t.Fatal(look)
			}
			room.fail.Store(true)
			time.Sleep(1100 * time.Millisecond)
			if look := find(t, l, true); !look.Stale() {
				t.Fatal(look)
			}
			calls := room.calls.Load()
			for range 1000 {
				find(t, l, true)
			}
			if n := room.calls.Load() - calls; n > 1 {
				t.Fatalf("%d calls of a store that is away, in no time", n)
			}
			time.Sleep(9 * time.Second)
			find(t, l, false)
			room.fail.Store(false)
			time.Sleep(time.Second)
			if look := find(t, l, true); look.Stale() {
				t.Fatal(look)
			}
		})
	})

	t.Run("NobodyWaitsForARefreshThatRedisLeftUnanswered", func(t *testing.T) {
		t.Parallel()
		for name, err := range map[string]error{"unanswered": errors.New("away"), "refused": &redisconn.AwayError{}} {
			synctest.Test(t, func(t *testing.T) {
				room := &fake{err: err, hold: make(chan struct{})}
				l := lines(t, room, nil, Config{StaleFor: 10 * time.Second, Timeout: time.Hour})
				find(t, l, true)
				room.fail.Store(true)
				time.Sleep(2 * time.Second)
				find(t, l, true)
				room.hangs.Store(true)
				for range 5 {
					time.Sleep(time.Second)
					began := time.Now()
					if look := find(t, l, true); !look.Stale() || look.Away != (name == "refused") || time.Since(began) != 0 {
						t.Fatalf("%s: stale %v, away %v, after %s", name, look.Stale(), look.Away, time.Since(began))
					}
				}
				room.fail.Store(false)
				close(room.hold)
				synctest.Wait()
				if look := find(t, l, true); look.Away || look.Stale() {
					t.Fatalf("%s: %+v", name, look)
				}
			})
		}
	})

	t.Run("ASlowProductDelaysNoOther", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			slow := &fake{hold: make(chan struct{})}
			slow.hangs.Store(true)
			l := lines(t, both{slow, &fake{}}, nil, Config{})
			slowly, began := make(chan bool), time.Now()
			go func() { _, found := l.Find(t.Context(), "slow", 6); slowly <- found }()
			synctest.Wait()
			find(t, l, true)
			if took := time.Since(began); took != 0 {
				t.Fatalf("it took %s", took)
			}
			if <-slowly {
				t.Fatal("found before it was read")
			}
			close(slow.hold)
		})
	})

	t.Run("IdleLinesAreDroppedAndTheirNumberBounded", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := lines(t, &fake{}, nil, Config{Products: 1, Idle: time.Second})
			find(t, l, true)
			if _, found := l.Find(t.Context(), "other", 6); found {
				t.Fatal("two lines of one at most")
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- l.Run(ctx) }()
			time.Sleep(2 * time.Second)
			if _, found := l.Find(t.Context(), "other", 6); !found {
				t.Fatal("no room after the idle line was dropped")
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		})
	})

	t.Run("PlacesAreBoundedAndAbsentProductsHaveNone", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			find(t, lines(t, &fake{}, nil, Config{PlacesMax: 2}), false)
			if _, found := lines(t, &fake{}, nil, Config{}).Find(t.Context(), "absent", 6); found {
				t.Fatal("found")
			}
		})
	})

	t.Run("WhoWasHeardOfIsToldOnceARefresh", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			told := make(hears, 10)
			l := lines(t, &fake{}, told, Config{})
			find(t, l, true)
			for range 3 {
				l.Heard("shoe", user(1))
				l.Heard("shoe", user(2))
			}
			time.Sleep(time.Second)
			find(t, l, true)
			time.Sleep(time.Second)
			find(t, l, true)
			if len(told) != 1 || len(<-told) != 2 {
				t.Fatal("not told once of two")
			}
		})
	})
}

// both gives the product slow a room of its own.
type both struct{ slow, other Room }

func (b both) of(p product.ID) Room {
	if p == "slow" {
		return b.slow
	}
	return b.other
}

func (b both) Watch(ctx context.Context, p product.ID, after string) (waitingroom.Changed, error) {
	return b.of(p).Watch(ctx, p, after)
}

func (b both) WaitingSlice(ctx context.Context, p product.ID, behind product.Place) (waitingroom.Slice, error) {
	return b.of(p).WaitingSlice(ctx, p, behind)
}

type hears chan []product.UserHash

func (h hears) Heard(_ context.Context, _ product.ID, users []product.UserHash) ([]product.UserHash, error) {
	h <- users
	return nil, nil
}

// TestFlow measures lines that move evenly, in jerks and not at all.
func TestFlow(t *testing.T) {
	t.Parallel()
	var f flow
	at := time.Now()
	if got := f.note(at, 0); got != (Flow{}) {
		t.Fatal(got)
	}
	var got Flow
	for range 400 { // ten a second
		at = at.Add(250 * time.Millisecond)
		f.note(at, 2)
		at = at.Add(250 * time.Millisecond)
		got = f.note(at, 3)
	}
	if got.Low > 10 || got.High < 10 || got.Low < 6 || got.High > 14 || len(f.samples) > samplesMax {
		t.Fatal(got, len(f.samples))
	}
	if least, most, ok := got.Wait(100); !ok || least > 10 || most < 10 || most > 20 {
		t.Fatal(least, most, ok)
	}
	for range 30 { // half a minute of nothing
		at = at.Add(time.Second)
		got = f.note(at, 0)
	}
	if got.High == 0 || got.Low >= 10 {
		t.Fatal(got)
	}
	for range 60 {
		at = at.Add(time.Second)
		got = f.note(at, 0)
	}
	if _, _, ok := got.Wait(1); ok {
		t.Fatal("a line that stands still has no estimate", got)
	}
}
