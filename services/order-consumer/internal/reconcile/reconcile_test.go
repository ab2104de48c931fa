package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
	"hanjul/services/order-consumer/internal/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("away")

// world is every store that reconcile meets, in memory. Its fields are set before the run, or under mu.
type world struct {
	mu       sync.Mutex
	rows     map[order.ID]ledger.OrderRow
	parked   map[order.ID]bool
	bound    map[order.ID]bool
	products []ledger.ProductRow
	lines    map[product.ID]waitingroom.Line
	wanted   []orderstatus.Wanted
	statuses map[order.ID]order.Status
	settled  map[order.ID]int // times
	created  bool
	sent     []kafka.Record
	outcome  kafka.Outcome
	faults   int // so many settles fail
	pages    []ledger.Cursor
	looks    int
}

func newWorld() *world {
	return &world{
		rows: make(map[order.ID]ledger.OrderRow), parked: make(map[order.ID]bool), bound: make(map[order.ID]bool),
		lines: make(map[product.ID]waitingroom.Line), statuses: make(map[order.ID]order.Status), settled: make(map[order.ID]int),
		outcome: kafka.Accepted,
	}
}

func (w *world) OrdersByID(_ context.Context, ids []order.ID) (map[order.ID]ledger.OrderRow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := make(map[order.ID]ledger.OrderRow)
	for _, id := range ids {
		if row, ok := w.rows[id]; ok {
			found[id] = row
		}
	}
	return found, nil
}

func (w *world) OrdersJudgedSince(_ context.Context, after ledger.Cursor, limit int) ([]ledger.OrderRow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages = append(w.pages, after)
	var page []ledger.OrderRow
	for _, row := range w.rows {
		if row.JudgedAt.After(after.At) || row.JudgedAt.Equal(after.At) && row.OrderID > after.ID {
			page = append(page, row)
		}
	}
	slices.SortFunc(page, func(a, b ledger.OrderRow) int {
		if c := a.JudgedAt.Compare(b.JudgedAt); c != 0 {
			return c
		}
		return slices.Compare([]byte(a.OrderID), []byte(b.OrderID))
	})
	return page[:min(limit, len(page))], nil
}

func (w *world) Parked(context.Context, []order.ID) (map[order.ID]bool, error) { return w.parked, nil }

func (w *world) StockOf(context.Context, product.ID) (ledger.Stock, error) {
	return ledger.Stock{Total: 10, Sold: 3, Seq: 7}, nil
}

func (w *world) Products(context.Context) ([]ledger.ProductRow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.products), nil
}

func (w *world) Settle(_ context.Context, _ product.ID, base, seq int64, create bool, judged []stock.Judged) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults > 0 {
		w.faults--
		return errAway
	}
	if base != 7 || seq != 7 {
		return fmt.Errorf("settled with %d@%d, want 7@7", base, seq)
	}
	w.created = w.created || create
	for _, j := range judged {
		w.settled[j.OrderID]++
	}
	return nil
}

func (w *world) PutMany(_ context.Context, entries []orderstatus.Entry) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		w.statuses[e.ID] = e.Status
	}
	return len(entries), nil
}

// TakeWanted puts what it hands out at the end, as the owner's script does by time.
func (w *world) TakeWanted(_ context.Context, n int) ([]orderstatus.Wanted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.wanted))
	taken := slices.Clone(w.wanted[:n])
	w.wanted = append(w.wanted[n:], taken...)
	w.looks++
	return taken, nil
}

func (w *world) Unwant(_ context.Context, answered ...orderstatus.Wanted) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = slices.DeleteFunc(w.wanted, func(x orderstatus.Wanted) bool { return slices.Contains(answered, x) })
	return nil
}

func (w *world) Line(_ context.Context, p product.ID) (waitingroom.Line, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[p], nil
}

func (w *world) Bound(context.Context, product.ID, []order.ID) (map[order.ID]bool, error) {
	return w.bound, nil
}

func (w *world) Produce(_ context.Context, records []kafka.Record) []kafka.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, records...)
	results := make([]kafka.Result, len(records))
	for i := range results {
		results[i].Outcome = w.outcome
		if w.outcome != kafka.Accepted {
			results[i].Err = errAway
		}
	}
	return results
}

// locked reads something of the world.
func locked[T any](w *world, read func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return read()
}

const (
	apple = product.ID("apple")
	user  = product.UserHash("0123456789abcdef0123456789abcdef")
)

func id(n int) order.ID { return order.ID(fmt.Sprintf("00000000-0000-7000-8000-%012d", n)) }

func row(n int, judged time.Time) ledger.OrderRow {
	return ledger.OrderRow{
		OrderID: id(n), Product: apple, User: user, Place: product.Place(n), Quantity: 1, State: order.StateConfirmed, Version: 1,
		Digest: "d", JudgedAt: judged,
	}
}

// start runs a reconciler on the world until the test ends.
func (w *world) start(t *testing.T, change func(*reconcile.Config)) {
	t.Helper()
	key, err := keyring.Parse("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	c := reconcile.Config{
		Ledger: w, Stock: w, Status: w, Room: w, Producer: w, Orders: "orders", Key: key,
		WantedEvery: time.Millisecond, CheckEvery: time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	r, err := reconcile.New(c)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func (w *world) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for pause := (kafka.Backoff{Min: time.Millisecond}); !locked(w, ok); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		if err := pause.Wait(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func wanted(n int, deadline int64) orderstatus.Wanted {
	return orderstatus.Wanted{Product: apple, User: user, OrderID: id(n), DeadlineMS: deadline}
}

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
		w.bound[id(2)] = true
		w.wanted = []orderstatus.Wanted{
			wanted(1, now.Add(-30*time.Second).UnixMilli()), // within the grace
			wanted(2, long.UnixMilli()),                     // with an intent, for a sweeper
		}
		w.start(t, func(c *reconcile.Config) { c.Now = func() time.Time { return now } })
		w.until(t, "some looks", func() bool { return w.looks > 5 })
		if locked(w, func() bool { return len(w.wanted) != 2 || len(w.sent) != 0 }) {
			t.Errorf("wanted %v, sent %v; want both kept and nothing sent", w.wanted, w.sent)
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
