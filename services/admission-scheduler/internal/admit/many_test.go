package admit_test

import (
	"context"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

// counted is a ledger and a Redis of many open products, of which the first few have people waiting for tokens, that counts its calls.
type counted struct {
	admit.Room
	rows   atomic.Pointer[[]ledger.ProductRow]
	moving int
	calls  atomic.Int64
	idle   atomic.Int64                                        // runs of the script for products that nobody waits for
	answer func(p product.ID) (waitingroom.AdmitResult, error) // of the script, where it is not by number
}

func newCounted(products, moving int) *counted {
	c := &counted{moving: moving}
	var ids []product.ID
	for n := range products {
		ids = append(ids, product.ID("p"+strconv.Itoa(n)))
	}
	c.hold(ids)
	return c
}

// hold makes these the products of the books.
func (c *counted) hold(ids []product.ID) {
	var rows []ledger.ProductRow
	for _, id := range ids {
		row := ledger.ProductRow{ID: id, Settings: product.DefaultSettings(), SettingsV: 1, LineInc: 1, OpenedUS: 1, Total: 1000}
		row.Settings.State = product.Open
		rows = append(rows, row)
	}
	c.rows.Store(&rows)
}

func (c *counted) Products(context.Context) ([]ledger.ProductRow, error) { return *c.rows.Load(), nil }

func (c *counted) NextInc(context.Context, product.ID) (ledger.ProductRow, error) {
	return ledger.ProductRow{}, ledger.ErrTransient
}

func (c *counted) Bans(context.Context, product.ID, int64, bool, int) ([]ledger.Ban, int64, error) {
	return nil, 0, ledger.ErrTransient
}

func (c *counted) PersistLine(context.Context, product.ID, product.Place, int, time.Time) error {
	return nil
}

func (c *counted) PutCatalogue(context.Context, []product.ID) error {
	c.calls.Add(1)
	return nil
}

func (c *counted) Line(context.Context, product.ID) (waitingroom.Line, error) {
	c.calls.Add(1)
	return waitingroom.Line{Present: true, Inc: 1, SettingsV: 1, StockKnown: true, NowMS: time.Now().UnixMilli()}, nil
}

func (c *counted) Listen(context.Context) error { return nil }

func (c *counted) AdmitShare(_ context.Context, p product.ID, _ int, _ float64) (waitingroom.AdmitResult, error) {
	c.calls.Add(1)
	if c.answer != nil {
		return c.answer(p)
	}
	if n, _ := strconv.Atoi(string(p[1:])); n < c.moving {
		return waitingroom.AdmitResult{Admitted: 4, Reason: waitingroom.AdmitRate, Waiting: 10, NextToken: 10 * time.Millisecond}, nil
	}
	c.idle.Add(1)
	return waitingroom.AdmitResult{Reason: waitingroom.AdmitEmpty}, nil
}

// begin runs a loop until the test ends, and returns its metrics.
func (c *counted) begin(t *testing.T, sources map[admit.Trigger]admit.Source) *scheduler {
	t.Helper()
	registry := prometheus.NewRegistry()
	loop, err := admit.New(slog.New(slog.DiscardHandler), admit.Config{
		Room: c, Admitter: c, Ledger: c, Commands: keyring.Key{}, Triggers: []admit.Trigger{admit.Tick, admit.PubSub}, Sources: sources,
		Tick: 100 * time.Millisecond, Deadline: time.Second, Concurrency: 32, Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &scheduler{registry: registry}
}

// oneProcessor is for bubbles of many goroutines, in tests that are not parallel: of timers that are due while goroutines select on them, two
// may fire at once on two processors, and do so under one name for the race detector, which ends the whole process then.
func oneProcessor(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// What products cost in commands of Redis (TestEachCallIsOneCommand). A line that moves is looked at every 40 ms at the usual rate of 50 and
// burst of 5, and compared with the books once a second; one that rests is compared and looked at once a second; the catalogue is written once a second.
const (
	callsPerTickMoving     = 3 // of 100 ms
	callsPerSecondResting  = 2
	callsPerSecondProducts = 1
)

// A thousand products of which a hundred move cost calls of Redis for the hundred, and now and then one for each of the others; the clock is
// the test's, so the counts are exact.
func TestProductsThatNobodyWaitsForAreLookedAtRarely(t *testing.T) {
	oneProcessor(t)
	heard := func(ctx context.Context, begun func(), _ func(product.ID)) error {
		begun()
		<-ctx.Done()
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		sources  map[admit.Trigger]admit.Source
		products int
		settle   time.Duration // until empty lines are at rest
	}{"Heard": {map[admit.Trigger]admit.Source{admit.PubSub: heard}, 1000, 2 * time.Second}, "NotHeard": {nil, 200, 6 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const seconds = 2
				products, moving, sources, settle := c.products, c.products/10, c.sources, c.settle
				c := newCounted(products, moving)
				c.begin(t, sources)
				time.Sleep(settle)
				calls, idle := c.calls.Load(), c.idle.Load()
				time.Sleep(seconds * time.Second)
				calls, idle = c.calls.Load()-calls, c.idle.Load()-idle
				// Of what is done once a second there may be one more in these seconds, or one less.
				rest := int64(products - moving)
				if idle > rest*(seconds+1) || idle < rest*(seconds-1) {
					t.Errorf("%d looks at lines that are empty in %d s, expected about %d", idle, seconds, rest*seconds)
				}
				most := int64(moving*callsPerTickMoving*seconds*10 + ((products-moving)*callsPerSecondResting+callsPerSecondProducts)*(seconds+1))
				if calls > most {
					t.Errorf("%d calls in %d s, at most %d", calls, seconds, most)
				}
				t.Logf("%d calls of Redis for each tick", calls/(seconds*10))
			})
		})
	}
}

// counting counts the commands that a client sends.
type counting struct{ n atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// Whatever is counted above is one command: a look, a comparison with the books, and the catalogue of a thousand products.
func TestEachCallIsOneCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, func(*product.Settings) {})
	first := w.scheduler(nil)
	w.open()
	first.stop()
	admitter := waitingroom.NewAdmitter(w.once, w.keys)
	many := make([]product.ID, 1000)
	for n := range many {
		many[n] = product.ID("p" + strconv.Itoa(n))
	}
	calls := map[string]func() error{
		"a look":       func() error { _, err := admitter.AdmitShare(t.Context(), p, 5, 1); return err },
		"a comparison": func() error { _, err := w.room.Line(t.Context(), p); return err },
		"a catalogue":  func() error { return w.room.PutCatalogue(t.Context(), many) },
	}
	for name, call := range calls { // the first one may have to bring its script
		if err := call(); err != nil {
			t.Fatal(name, err)
		}
	}
	count := &counting{}
	w.rdb.AddHook(count)
	w.once.AddHook(count)
	for name, call := range calls {
		before := count.n.Load()
		if err := call(); err != nil {
			t.Fatal(name, err)
		}
		if n := count.n.Load() - before; n != 1 {
			t.Errorf("%s costs %d commands", name, n)
		}
	}
}

// Products come into the books and go from them while the loop runs: each is looked at while it is there, and costs nothing afterwards.
func TestProductsComeAndGo(t *testing.T) {
	oneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		looks := map[product.ID]int{}
		looked := func() map[product.ID]bool {
			mu.Lock()
			clear(looks)
			mu.Unlock()
			time.Sleep(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			found := map[product.ID]bool{}
			for id := range looks {
				found[id] = true
			}
			return found
		}
		c := newCounted(0, 0)
		c.answer = func(p product.ID) (waitingroom.AdmitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			looks[p]++
			return waitingroom.AdmitResult{Reason: waitingroom.AdmitEmpty, Waiting: 0}, nil
		}
		s := c.begin(t, nil)
		for _, ids := range [][]product.ID{{"a"}, {"a", "b", "c"}, {"b", "d"}, {"a", "b", "c", "d"}, {}, {"c"}} {
			c.hold(ids)
			time.Sleep(2 * time.Second)
			want := map[product.ID]bool{}
			for _, id := range ids {
				want[id] = true
			}
			if diff := cmp.Diff(want, looked()); diff != "" {
				t.Fatal(ids, diff)
			}
			if n := s.gauge(t, "hanjul_admit_products"); int(n) != len(ids) {
				t.Fatalf("%g products, %v", n, ids)
			}
		}
	})
}

// Every reason why nobody was let through is a metric of its own, and so is each kind of failure; none of them keeps another product from its turn.
func TestEveryReasonIsCounted(t *testing.T) {
	oneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		reasons := []product.ID{"admitted", "lost", "error"}
		for _, r := range []waitingroom.AdmitReason{
			waitingroom.AdmitEmpty, waitingroom.AdmitCapacity, waitingroom.AdmitRate, waitingroom.AdmitLag, waitingroom.AdmitAway, waitingroom.AdmitPaused,
			waitingroom.AdmitClosed, waitingroom.AdmitNotOpen, waitingroom.AdmitSoldOut, waitingroom.AdmitStockUnknown,
		} {
			reasons = append(reasons, product.ID(r))
		}
		c := newCounted(0, 0)
		c.hold(reasons)
		c.answer = func(p product.ID) (waitingroom.AdmitResult, error) {
			switch p {
			case "admitted":
				return waitingroom.AdmitResult{Admitted: 1, Reason: waitingroom.AdmitFull, Waiting: 1}, nil
			case "lost":
				return waitingroom.AdmitResult{}, waitingroom.ErrNotReady
			case "error":
				return waitingroom.AdmitResult{}, context.DeadlineExceeded
			}
			return waitingroom.AdmitResult{Reason: waitingroom.AdmitReason(p), Waiting: 1, NextToken: 10 * time.Millisecond}, nil
		}
		s := c.begin(t, nil)
		time.Sleep(5 * time.Second)
		for _, r := range reasons {
			if n := s.count(t, "hanjul_admit_runs_total", string(r)); n < 3 {
				t.Errorf("%s: counted %g times in 5 s", r, n)
			}
		}
		if n := s.count(t, "hanjul_admit_admitted_total"); n < 3 {
			t.Errorf("%g admitted", n)
		}
	})
}
