package admit_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

func (w *world) evict(n int) {
	w.t.Helper()
	e := ledger.Eviction{User: product.UserID("u" + strconv.Itoa(n)), Hash: user(n), For: time.Hour}
	if _, err := w.books.Evict(w.t.Context(), w.action(), e); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) unban(n int) {
	w.t.Helper()
	if _, err := w.books.Unban(w.t.Context(), w.action(), product.UserID("u"+strconv.Itoa(n)), user(n)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) state(n int) waitingroom.State {
	w.t.Helper()
	s, err := w.room.Status(w.t.Context(), p, user(n), nil)
	if err != nil {
		return waitingroom.None // the line is not there at the moment
	}
	return s.State
}

// U10: what the books say reaches the line, whoever is put out waits or holds a pass, and a ban that is lifted lets them in again.
func TestEvictionsReachTheLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 10, 1 })
	s := w.scheduler(nil)
	w.open()
	w.join(0, 4)
	until(t, "somebody is let through", func() bool { return w.view().Active == 1 && w.state(0) == waitingroom.Active })
	w.evict(0)
	w.evict(2)
	w.evict(9) // never seen here
	s.Changed()
	until(t, "they are out, and the slot is given to the next", func() bool {
		return w.state(0) == waitingroom.Evicted && w.state(1) == waitingroom.Active && w.state(2) == waitingroom.Evicted && w.state(3) == waitingroom.Waiting &&
			w.state(9) == waitingroom.Evicted // told by the ban alone
	})
	for _, n := range []int{0, 2, 9} {
		if _, err := w.room.Join(t.Context(), p, user(n), nil); !errors.Is(err, waitingroom.ErrBanned) {
			t.Fatal(n, err)
		}
	}
	until(t, "both are counted", func() bool { return s.count(t, "hanjul_admit_evicted_total") == 2 })
	w.unban(2)
	until(t, "the ban is lifted", func() bool {
		_, err := w.room.Join(t.Context(), p, user(2), nil)
		return err == nil
	})
}

// A revocation of all passes reaches the line with the settings; who is admitted stays so.
func TestRevokedPassesReachTheLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(*product.Settings) {})
	w.scheduler(nil)
	w.open()
	w.join(0, 1)
	until(t, "somebody is let through", func() bool { return w.state(0) == waitingroom.Active })
	if _, err := w.books.RevokePasses(t.Context(), w.action(), "leaked"); err != nil {
		t.Fatal(err)
	}
	until(t, "the epoch is raised", func() bool { return w.view().PassEpoch == 2 })
	if w.state(0) != waitingroom.Active {
		t.Fatal(w.state(0))
	}
	w.lose()
	w.open()
	if v := w.view(); v.PassEpoch != 2 {
		t.Fatalf("after a loss: %+v", v)
	}
}

// unwilling is a room in which copying bans ends in a crash, before it is done or behind it.
type unwilling struct {
	admit.Room
	behind bool
	tries  atomic.Int64
}

func (u *unwilling) Evict(ctx context.Context, id product.ID, bans []waitingroom.Ban, above, upTo int64) (n int, err error) {
	u.tries.Add(1)
	if u.behind {
		n, err = u.Room.Evict(ctx, id, bans, above, upTo)
	}
	return n, errors.Join(errCrash, err)
}

// A crash between the books and Redis, before or behind the copy, is healed by the next upkeep of any scheduler, and the line goes on meanwhile.
func TestEvictionsSurviveACrash(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]bool{"Before": false, "Behind": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 1000, 10, 2 })
			u := &unwilling{Room: w.room, behind: behind}
			dying := w.scheduler(func(c *admit.Config) { c.Room = u })
			w.open()
			w.join(0, 5)
			until(t, "people are let through", func() bool { return w.view().Active == 2 })
			w.evict(0)
			w.evict(4)
			least := int64(3)
			if behind {
				least = 1
			}
			until(t, "it was tried", func() bool { return u.tries.Load() >= least })
			runs := dying.count(t, "hanjul_admit_runs_total", "capacity")
			until(t, "the line is looked at", func() bool { return dying.count(t, "hanjul_admit_runs_total", "capacity") > runs })
			if !behind && w.state(4) != waitingroom.Waiting {
				t.Fatal(w.state(4))
			}
			dying.stop()
			w.scheduler(nil)
			until(t, "another one does what is left", func() bool {
				return w.state(0) == waitingroom.Evicted && w.state(4) == waitingroom.Evicted && w.line().BansV == w.row().BansV
			})
			until(t, "the slot is given to the next", func() bool { return w.view().Active == 2 && w.view().Waiting == 1 })
		})
	}
}

// F32: a line that was lost begins with its bans, more of them than one slice holds; nobody comes back by an old ticket.
func TestBansSurviveALoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(s *product.Settings) { s.State, s.Rate, s.Burst, s.Capacity = product.Open, 0.001, 1, 1 })
	s := w.scheduler(nil)
	w.open()
	places := w.join(0, 3)
	w.evict(2)
	w.evict(1)
	w.unban(1)
	until(t, "it is out", func() bool { return w.state(2) == waitingroom.Evicted && w.line().BansV == w.row().BansV })
	s.stop()
	if _, err := w.books.Pool().Exec(t.Context(), `
INSERT INTO bans SELECT 'p', lpad(to_hex(n), 32, '0'), n::text, now() + interval '1 hour', bans_v + n FROM products, generate_series(1, 450) n WHERE id = 'p'`); err != nil {
		t.Fatal(err)
	}
	if _, err := w.books.Pool().Exec(t.Context(), `UPDATE products SET bans_v = bans_v + 450 WHERE id = 'p'`); err != nil {
		t.Fatal(err)
	}
	w.lose()
	again := w.scheduler(nil)
	w.open()
	again.stop() // what is there now came with the restore
	opened := w.view().OpenedUS
	if _, err := w.room.Join(t.Context(), p, user(2), claim(t, user(2), places[user(2)], opened)); !errors.Is(err, waitingroom.ErrBanned) {
		t.Fatal(err)
	}
	if s, err := w.room.Join(t.Context(), p, user(1), claim(t, user(1), places[user(1)], opened)); err != nil {
		t.Fatal(s, err)
	}
	for _, n := range []string{"1", "c8", "c9", "1c2"} { // 1, 200, 201, 450
		hash := product.UserHash(("00000000000000000000000000000000" + n)[len(n):])
		if _, err := w.room.Join(t.Context(), p, hash, nil); !errors.Is(err, waitingroom.ErrBanned) {
			t.Fatal(n, err)
		}
	}
	if l := w.line(); l.BansV != w.row().BansV {
		t.Fatalf("%+v", l)
	}
}

// U11: a slot that went back to a moment before an eviction hears of it again.
func TestBansAfterARollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 0.001, 1, 1 })
	w.scheduler(nil)
	w.open()
	w.join(0, 3)
	waiting := w.keys.Product(p)
	place := w.rdb.ZScore(t.Context(), waiting.Waiting, string(user(2))).Val()
	has := w.line().BansV
	w.evict(2)
	until(t, "it is out", func() bool { return w.state(2) == waitingroom.Evicted })
	pipe := w.rdb.TxPipeline()
	pipe.HDel(t.Context(), waiting.Who, string(user(2)))
	pipe.ZRem(t.Context(), waiting.WhoT, string(user(2)))
	pipe.HDel(t.Context(), waiting.Bans, string(user(2)))
	pipe.ZAdd(t.Context(), waiting.Waiting, redis.Z{Score: place, Member: string(user(2))})
	pipe.HSet(t.Context(), waiting.Clock, "bans_v", has)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it is out again", func() bool { return w.state(2) == waitingroom.Evicted })
}
