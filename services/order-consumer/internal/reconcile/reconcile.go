// Package reconcile brings back to Redis what Redis lost and the ledger knows: the status of an order that somebody asks for, and
// after a loss the statuses and settles of recent orders. It owns two loops and their pace; what it writes goes through the
// owners of the keys, under the ledger's own numbers and versions, so that it never overtakes: a write that comes late changes
// nothing. It judges nothing. The one thing it sends is a void, for an order that nobody can account for after its deadline.
// Any number of processes may run it. Before it in the flow are those who ask (queue-api) and the ledger, after it Redis and, for a
// void, the topic orders.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
)

// Ledger is what is known for good; *ledger.Ledger has it.
type Ledger interface {
	OrdersByID(ctx context.Context, ids []order.ID) (map[order.ID]ledger.OrderRow, error)
	OrdersJudgedSince(ctx context.Context, after ledger.Cursor, limit int) ([]ledger.OrderRow, error)
	Parked(ctx context.Context, ids []order.ID) (map[order.ID]bool, error)
	StockOf(ctx context.Context, p product.ID) (ledger.Stock, error)
	Products(ctx context.Context) ([]ledger.ProductRow, error)
}

// Stock ends orders in a product's slot; *stock.Counter does.
type Stock interface {
	Settle(ctx context.Context, p product.ID, base, seq int64, create bool, judged []stock.Judged) error
}

// Status is the list of wanted orders and their statuses; *orderstatus.Store has them.
type Status interface {
	PutMany(ctx context.Context, entries []orderstatus.Entry) (written int, err error)
	TakeWanted(ctx context.Context, n int) ([]orderstatus.Wanted, error)
	Unwant(ctx context.Context, answered ...orderstatus.Wanted) error
}

// Room tells how a line stands, and closes order ids in it; *waitingroom.Room does.
type Room interface {
	Line(ctx context.Context, p product.ID) (waitingroom.Line, error)
	Forsake(ctx context.Context, p product.ID, user product.UserHash, id order.ID) (waitingroom.Forsaken, error)
}

// Producer sends; *kafka.Producer does.
type Producer interface {
	Produce(ctx context.Context, records []kafka.Record) []kafka.Result
}

// Config is what a Reconciler is made of. The stores, the producer, the topic and the key are needed; zero numbers take the
// defaults.
type Config struct {
	Ledger   Ledger
	Stock    Stock
	Status   Status
	Room     Room
	Producer Producer
	Orders   string      // the topic that a void goes to
	Key      keyring.Key // signs a void

	VoidGrace   time.Duration // an order without a row is voided this long after its deadline; default 60 s
	WantedEvery time.Duration // pause between two looks at the list of wanted orders; default 200 ms
	WantedBatch int           // most wanted orders that are looked up at once, and most voids of one look; default 200
	CheckEvery  time.Duration // pause between two looks at the lines, jittered; default 2 s
	RecentEvery time.Duration // pause between two rewrites of what was judged in the last RecentSpan, jittered; default 1 min
	RecentSpan  time.Duration // default 5 min
	LossMargin  time.Duration // a rewrite after a loss begins this long before the last good look; default 10 min
	Page        int           // most orders of one page of a rewrite; default 500

	Registerer prometheus.Registerer
	Logger     *slog.Logger
	Now        func() time.Time // nil means time.Now
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.VoidGrace, time.Minute},
		{&c.WantedEvery, 200 * time.Millisecond},
		{&c.CheckEvery, 2 * time.Second},
		{&c.RecentEvery, time.Minute},
		{&c.RecentSpan, 5 * time.Minute},
		{&c.LossMargin, 10 * time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.WantedBatch == 0 {
		c.WantedBatch = 200
	}
	if c.Page == 0 {
		c.Page = 500
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Reconciler is one process's share of the work.
type Reconciler struct {
	Config
	metrics *metrics
	repeats *telemetry.Repeats
	lines   map[product.ID]seen
	job     *job
}

// New makes a Reconciler; Run does the work.
func New(c Config) (*Reconciler, error) {
	c = c.withDefaults()
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	return &Reconciler{
		Config: c, metrics: m, repeats: telemetry.NewRepeats(c.Logger, time.Minute), lines: make(map[product.ID]seen),
	}, nil
}

// Run works until ctx ends; it returns nil. A store that is away is waited out. Nothing in hand need be finished: all of it comes
// again.
func (r *Reconciler) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.loop(ctx, "wanted orders not served", r.WantedEvery, r.serve) })
	wg.Go(func() { r.loop(ctx, "recent orders not reconciled", r.CheckEvery, r.rounds()) })
	wg.Wait()
	return nil
}

// loop calls fn with jittered pauses until ctx ends; after an error the pause is longer. complaint is a constant.
func (r *Reconciler) loop(ctx context.Context, complaint string, every time.Duration, fn func(context.Context) error) {
	const away = time.Second
	for ctx.Err() == nil {
		pause := every
		if err := fn(ctx); err == nil {
			r.repeats.Over(ctx, complaint)
		} else if ctx.Err() == nil {
			r.metrics.failures.Inc()
			r.repeats.Warn(ctx, complaint, slog.Any("err", err))
			pause = max(every, away)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// rewrite brings rows back to Redis, first the settles, then the statuses, as fulfil does. The stock is read after the rows: its
// number is of an event no older than theirs, so no hold is freed whose unit is not taken off.
func (r *Reconciler) rewrite(ctx context.Context, rows []ledger.OrderRow) error {
	judged := make(map[product.ID][]stock.Judged)
	entries := make([]orderstatus.Entry, len(rows))
	for i, row := range rows {
		judged[row.Product] = append(judged[row.Product], stock.Judged{OrderID: row.OrderID, User: row.User, Place: row.Place})
		entries[i] = orderstatus.Entry{ID: row.OrderID, Status: row.Status()}
	}
	for p, orders := range judged {
		have, err := r.Ledger.StockOf(ctx, p)
		if errors.Is(err, ledger.ErrUnknownProduct) {
			continue // Without stock there is nothing to settle; its users are told all the same.
		}
		if err != nil {
			return fmt.Errorf("reconcile product %s: %w", p, err)
		}
		// Never create: only a load_stock, which travels behind everything accepted, may say what is left where Redis knows nothing.
		if err := r.Stock.Settle(ctx, p, have.Left(), have.Seq, false, orders); err != nil {
			return fmt.Errorf("reconcile product %s: %w", p, err)
		}
	}
	written, err := r.Status.PutMany(ctx, entries)
	if err != nil {
		return fmt.Errorf("reconcile %d statuses: %w", len(entries), err)
	}
	r.metrics.orders.Add(float64(len(rows)))
	r.metrics.written.Add(float64(written))
	return nil
}
