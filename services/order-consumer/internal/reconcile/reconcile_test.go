package reconcile_test

import (
	"testing"
	"time"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/waitingroom"
	"hanjul/services/order-consumer/internal/reconcile"
)

func TestWanted(t *testing.T) {
	t.Parallel()
	long := time.Now().Add(-time.Hour)

	t.Run("ARowComesBackAndIsStruckOff", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.rows[id(1)] = row(1, long)
		w.wanted = []orderstatus.Wanted{wanted(1, 0)}
		w.start(t, nil)
		w.until(t, "struck off", func() bool { return len(w.wanted) == 0 })
		want := order.Status{Version: 2, State: order.StateConfirmed, Product: apple, User: user, Quantity: 1, Digest: "d"}
		if got := locked(w, func() order.Status { return w.statuses[id(1)] }); got != want {
			t.Errorf("status %+v, want %+v", got, want)
		}
		if locked(w, func() bool { return w.settled[id(1)] != 1 || w.created || len(w.sent) > 0 }) {
			t.Errorf("settled %v, created %v, sent %d; want one settle that creates nothing", w.settled, w.created, len(w.sent))
		}
	})

	t.Run("ALookUpWithoutRowIsNeverVoided", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.wanted = []orderstatus.Wanted{wanted(1, 0)}
		w.start(t, nil)
		w.until(t, "struck off", func() bool { return len(w.wanted) == 0 })
		if locked(w, func() int { return len(w.sent) }) != 0 {
			t.Errorf("sent %v, want nothing", w.sent)
		}
	})

	t.Run("NoRowAfterDeadlineAndGraceIsVoidedOnce", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.wanted = []orderstatus.Wanted{wanted(1, long.UnixMilli())}
		w.start(t, nil)
		w.until(t, "struck off", func() bool { return len(w.wanted) == 0 })
		looks := locked(w, func() int { return w.looks })
		w.until(t, "more looks", func() bool { return w.looks > looks+3 })
		sent := locked(w, func() []kafka.Record { return w.sent })
		if len(sent) != 1 {
			t.Fatalf("%d voids, want 1", len(sent))
		}
		c, err := order.DecodeCommand(sent[0].Value)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		key, _ := keyring.Parse("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
		if err := c.Verify(keyring.Ring{key}); err != nil {
			t.Errorf("verify: %v", err)
		}
		if c.Kind != order.KindVoid || c.ID != order.VoidID(id(1)) || c.OrderID != id(1) || c.UserHash != user || c.Product != apple ||
			string(sent[0].Key) != "apple" || sent[0].Topic != "orders" {
			t.Errorf("sent %+v to %s", c, sent[0].Topic)
		}
	})

	t.Run("WhatMayStillComeIsKept", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		now := time.Now()
		w.bound[id(2)], w.inLine[id(3)] = true, true
		w.wanted = []orderstatus.Wanted{
			wanted(1, now.Add(-30*time.Second).UnixMilli()), // within the grace
			wanted(2, long.UnixMilli()),                     // with an intent, for a sweeper
			wanted(3, long.UnixMilli()),                     // of a user who stands in the line
		}
		w.start(t, func(c *reconcile.Config) { c.Now = func() time.Time { return now } })
		w.until(t, "some looks", func() bool { return w.looks > 5 })
		if locked(w, func() bool { return len(w.wanted) != 3 || len(w.sent) != 0 }) {
			t.Errorf("wanted %v, sent %v; want all kept and nothing sent", w.wanted, w.sent)
		}
	})

	t.Run("AVoidWaitsUntilALostLineIsRestored", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.lost = true
		w.wanted = []orderstatus.Wanted{wanted(1, long.UnixMilli())}
		w.start(t, nil)
		w.until(t, "some looks", func() bool { return w.looks > 5 })
		if locked(w, func() bool { return len(w.wanted) != 1 || len(w.sent) != 0 }) {
			t.Errorf("wanted %v, sent %v; want it kept and nothing sent", w.wanted, w.sent)
		}
		w.mu.Lock()
		w.lost = false
		w.mu.Unlock()
		w.until(t, "struck off", func() bool { return len(w.wanted) == 0 })
		if n := locked(w, func() int { return len(w.sent) }); n != 1 {
			t.Errorf("%d voids, want 1", n)
		}
	})

	t.Run("AParkedOrderWaitsForItsOperator", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.parked[id(1)] = true
		w.wanted = []orderstatus.Wanted{wanted(1, long.UnixMilli())}
		w.start(t, nil)
		w.until(t, "struck off", func() bool { return len(w.wanted) == 0 })
		if locked(w, func() int { return len(w.sent) }) != 0 {
			t.Errorf("sent %v, want nothing", w.sent)
		}
	})

	t.Run("AVoidInDoubtIsSentAgainUnderTheSameID", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.outcome = kafka.Unknown
		w.wanted = []orderstatus.Wanted{wanted(1, long.UnixMilli())}
		w.start(t, nil)
		w.until(t, "sent", func() bool { return len(w.sent) == 1 })
		w.mu.Lock()
		w.outcome = kafka.Accepted
		w.mu.Unlock()
		w.until(t, "struck off", func() bool { return len(w.wanted) == 0 })
		sent := locked(w, func() []kafka.Record { return w.sent })
		first, _ := order.DecodeCommand(sent[0].Value)
		last, _ := order.DecodeCommand(sent[len(sent)-1].Value)
		if len(sent) < 2 || first.ID != last.ID {
			t.Errorf("%d voids, ids %s and %s", len(sent), first.ID, last.ID)
		}
	})

	t.Run("AFloodSendsSoManyVoidsPerLook", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		for n := range 1000 {
			w.wanted = append(w.wanted, wanted(n, long.UnixMilli()))
		}
		w.start(t, func(c *reconcile.Config) { c.WantedBatch, c.WantedEvery = 10, time.Hour })
		w.until(t, "a look", func() bool { return w.looks == 10 })
		w.until(t, "struck off", func() bool { return len(w.wanted) == 990 })
		if n := locked(w, func() int { return len(w.sent) }); n != 10 {
			t.Errorf("%d voids in one look, want 10", n)
		}
	})
}

func TestRecent(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	// bundle is a world whose clock the test moves, with a line that is well, and no wanted orders.
	bundle := func(t *testing.T, change func(*reconcile.Config)) (w *world, advance func(time.Duration)) {
		t.Helper()
		w = newWorld()
		now := start
		w.products = []ledger.ProductRow{{ID: apple, OpenedUS: 1, LineInc: 1}}
		w.lines[apple] = waitingroom.Line{Present: true, Inc: 1, RunID: "run-1"}
		for n := range 30 { // One a minute, the last one now.
			w.rows[id(n)] = row(n, start.Add(-time.Duration(29-n)*time.Minute))
		}
		w.start(t, func(c *reconcile.Config) {
			c.Now = func() time.Time {
				w.mu.Lock()
				defer w.mu.Unlock()
				return now
			}
			c.WantedEvery, c.RecentEvery, c.Page = time.Hour, 1000*time.Hour, 4
			if change != nil {
				change(c)
			}
		})
		return w, func(d time.Duration) {
			w.mu.Lock()
			now = now.Add(d)
			w.mu.Unlock()
		}
	}

	t.Run("AtStartAsFarBackAsAfterALoss", func(t *testing.T) {
		t.Parallel()
		w, _ := bundle(t, nil)
		w.until(t, "ten minutes rewritten", func() bool { return len(w.statuses) == 11 && len(w.settled) == 11 })
		if locked(w, func() bool { return w.settled[id(20)] != 1 || w.created }) {
			t.Errorf("settled %v, want each of the last eleven once", w.settled)
		}
	})

	t.Run("APageThatFailsIsDoneAgainAndTheRestGoesOn", func(t *testing.T) {
		t.Parallel()
		w, _ := bundle(t, func(c *reconcile.Config) { c.Stock.(*world).faults = 1 })
		w.until(t, "rewritten", func() bool { return len(w.statuses) == 11 })
		if got := locked(w, func() bool {
			for _, times := range w.settled {
				if times != 1 {
					return false
				}
			}
			return true
		}); !got {
			t.Errorf("settled %v, want each once: a page that was done is not done again", w.settled)
		}
	})

	t.Run("ALossIsNoticedAndReachesBackBeforeTheLastGoodLook", func(t *testing.T) {
		t.Parallel()
		w, advance := bundle(t, nil)
		w.until(t, "the start", func() bool { return len(w.statuses) == 11 })
		// Emptied: no settings for a while, then a new incarnation.
		w.mu.Lock()
		w.lines[apple] = waitingroom.Line{}
		w.products[0].LineInc = 2
		w.statuses = make(map[order.ID]order.Status)
		w.mu.Unlock()
		advance(5 * time.Minute)
		w.until(t, "looks", func() bool { return len(w.pages) > 2 })
		w.mu.Lock()
		w.lines[apple] = waitingroom.Line{Present: true, Inc: 2, RunID: "run-1"}
		w.mu.Unlock()
		// Well until noon, so from ten minutes before noon.
		w.until(t, "rewritten", func() bool { return len(w.statuses) == 11 })
	})

	t.Run("AnotherRunOfTheServerIsALossToo", func(t *testing.T) {
		t.Parallel()
		w, _ := bundle(t, nil)
		w.until(t, "the start", func() bool { return len(w.statuses) == 11 })
		w.mu.Lock()
		w.statuses = make(map[order.ID]order.Status)
		w.lines[apple] = waitingroom.Line{Present: true, Inc: 1, RunID: "run-2"}
		w.mu.Unlock()
		w.until(t, "rewritten", func() bool { return len(w.statuses) == 11 })
	})

	t.Run("EachMinuteTheLastFive", func(t *testing.T) {
		t.Parallel()
		w, advance := bundle(t, func(c *reconcile.Config) { c.RecentEvery = time.Minute })
		w.until(t, "the start", func() bool { return len(w.statuses) == 11 })
		w.mu.Lock()
		w.statuses = make(map[order.ID]order.Status)
		w.mu.Unlock()
		advance(2 * time.Minute)
		w.until(t, "rewritten", func() bool { return len(w.statuses) == 4 }) // of minutes -3 to 0
	})
}
