package admit_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

// counted is a ledger and a Redis of many open products, of which the first few have people waiting for tokens, that counts its calls.
type counted struct {
	admit.Room
	rows   []ledger.ProductRow
	moving int
	calls  atomic.Int64
	idle   atomic.Int64 // runs of the script for products that nobody waits for
}

func newCounted(products, moving int) *counted {
	c := &counted{moving: moving}
	for n := range products {
		row := ledger.ProductRow{ID: product.ID("p" + strconv.Itoa(n)), Settings: product.DefaultSettings(), SettingsV: 1, LineInc: 1, OpenedUS: 1, Total: 1000}
		row.Settings.State = product.Open
		c.rows = append(c.rows, row)
	}
	return c
}

func (c *counted) Products(context.Context) ([]ledger.ProductRow, error) { return c.rows, nil }
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
	if n, _ := strconv.Atoi(string(p[1:])); n < c.moving {
		return waitingroom.AdmitResult{Admitted: 4, Reason: waitingroom.AdmitRate, Waiting: 10, NextToken: 10 * time.Millisecond}, nil
	}
	c.idle.Add(1)
	return waitingroom.AdmitResult{Reason: waitingroom.AdmitEmpty}, nil
}

// begin runs a loop until the test ends.
func (c *counted) begin(t *testing.T, sources map[admit.Trigger]admit.Source) {
	t.Helper()
	loop, err := admit.New(slog.New(slog.DiscardHandler), admit.Config{
		Room: c, Admitter: c, Ledger: c, Commands: keyring.Key{}, Triggers: []admit.Trigger{admit.Tick, admit.PubSub}, Sources: sources,
		Tick: 100 * time.Millisecond, Deadline: time.Second, Concurrency: 32,
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
}

// Products of which a tenth moves cost calls of Redis for that tenth, and now and then one for each of the others; the clock is the
// test's, so the counts are exact.
func TestProductsThatNobodyWaitsForAreLookedAtRarely(t *testing.T) {
	t.Parallel()
	heard := func(ctx context.Context, begun func(), _ func(product.ID)) error {
		begun()
		<-ctx.Done()
		return ctx.Err()
	}
	for name, sources := range map[string]map[admit.Trigger]admit.Source{"Heard": {admit.PubSub: heard}, "NotHeard": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const products, moving, seconds = 200, 20, 5
				c := newCounted(products, moving)
				c.begin(t, sources)
				time.Sleep(10 * time.Second)
				calls, idle := c.calls.Load(), c.idle.Load()
				time.Sleep(seconds * time.Second)
				calls, idle = c.calls.Load()-calls, c.idle.Load()-idle
				if most := int64((products - moving) * (seconds + 1)); idle > most || idle < most/2 {
					t.Errorf("%d looks at lines that are empty in %d s, expected about %d", idle, seconds, most)
				}
				// A turn of the hundred comes every 40 ms (rate 50, burst 5), and each product is compared with the books once a second.
				if most := int64(moving*(seconds+1)*25 + products*(seconds+1) + (products-moving)*(seconds+1) + seconds + 1); calls > most {
					t.Errorf("%d calls in %d s, at most %d", calls, seconds, most)
				}
				t.Logf("%d calls of Redis for each tick", calls/(seconds*10))
			})
		})
	}
}
