// Package admit lets people through: one goroutine per product asks the admit script as often and for as many as pace says, so
// that a slow or failing product disturbs no other. It opens the slot of a new product, restores one that Redis lost, copies settings
// to Redis, asks for the stock where it is unknown, and writes down how far each line has come. Any number of schedulers may do
// so at the same time: the scripts and the ledger decide who wins. Before it in the flow are the operators' desk and the joins, behind it the
// polls that find their pass. It judges nothing, and owns no key and no table: rooms and ledger do.
package admit

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
	"hanjul/pkg/telemetry"
)

// ErrNotYet is the answer of Ready before products and Redis were reached once.
var ErrNotYet = errors.New("products were not read yet, or the catalogue not written")

// Ledger is what the loop asks of the books; ledger.Ledger is it.
type Ledger interface {
	Products(ctx context.Context) ([]ledger.ProductRow, error)
	NextInc(ctx context.Context, p product.ID) (ledger.ProductRow, error)
	Bans(ctx context.Context, p product.ID, above int64, running bool, limit int) (bans []ledger.Ban, upTo int64, err error)
	PersistLine(ctx context.Context, p product.ID, front product.Place, active int, at time.Time) error
}

// Producer hands commands to Kafka; kafka.Producer is it.
type Producer interface {
	Produce(ctx context.Context, records []kafka.Record) []kafka.Result
}

// Fault stands for a crash in tests: it is called behind each step of a restore, and an error ends the work there. Nil in
// production.
type Fault func(step string) error

// Config is what a loop needs. Room, Admitter, Ledger and Producer are safe for concurrent use.
type Config struct {
	Room     Room
	Admitter Admitter
	Ledger   Ledger
	Producer Producer

	TopicOrders string
	Commands    keyring.Key // signs load_stock (F31)

	Triggers    []Trigger          // none means Tick
	Sources     map[Trigger]Source // of the triggers among them that are told of lines
	Slots       Slots              // of the trigger Stream; nil without it
	Readers     int                // lines whose stream is read at the same time
	Tick        time.Duration      // longest time between two looks at a line that may move; coverEvery at least without the trigger Tick
	Lag         Lag
	Deadline    time.Duration // longest time one look may take
	Concurrency int           // looks at the same time
	Upkeep      time.Duration // from one comparison of the books with the lines to the next; 0 means 1 s

	Registerer prometheus.Registerer
	Fault      Fault
	// Nonce makes a text that no other restore ever used; nil means a random one.
	Nonce func() string
}

const (
	booksWithin = 5 * time.Second
	upkeepEvery = time.Second
	backoffMost = 5 * time.Second
	// restoresMost bounds the restores at work at the same time, so that they leave connections to the ledger for other calls.
	restoresMost = 4
)

// Loop is the gate of every product.
type Loop struct {
	Config
	logger  *slog.Logger
	repeats *telemetry.Repeats
	metrics *metrics

	looks    chan struct{} // one token per look at work
	restores chan struct{} // one token per restore at work
	readers  chan struct{} // one token per stream that is read
	reads    sync.WaitGroup
	reader   string // this process's name among the readers
	changed  chan struct{}
	ready    atomic.Bool
	heard    atomic.Bool // whoever joins an empty line is heard of

	shares atomic.Pointer[map[int]float64] // of the rate, by partition of the commands; nil before a measure

	mu    sync.Mutex
	lines map[product.ID]*line // only the books add to it
}

// New makes a loop; it does nothing before Run.
func New(logger *slog.Logger, c Config) (*Loop, error) {
	if c.Upkeep <= 0 {
		c.Upkeep = upkeepEvery
	}
	if c.Nonce == nil {
		c.Nonce = randomNonce
	}
	if c.Fault == nil {
		c.Fault = func(string) error { return nil }
	}
	if len(c.Triggers) > 0 && !slices.Contains(c.Triggers, Tick) {
		c.Tick = max(c.Tick, coverEvery)
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	return &Loop{
		Config: c, logger: logger, repeats: telemetry.NewRepeats(logger, 30*time.Second), metrics: m,
		looks: make(chan struct{}, max(c.Concurrency, 1)), restores: make(chan struct{}, restoresMost), changed: make(chan struct{}, 1),
		lines:   make(map[product.ID]*line),
		readers: make(chan struct{}, max(c.Readers, 1)), reader: randomNonce(),
	}, nil
}

// Changed makes the loop read the products at once. It never waits.
func (l *Loop) Changed() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Ready says whether products and Redis were reached once; ErrNotYet until then.
func (l *Loop) Ready(context.Context) error {
	if !l.ready.Load() {
		return ErrNotYet
	}
	return nil
}

// Run works until ctx ends and every goroutine of it has returned. Nothing that a store answers ends it.
func (l *Loop) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer l.reads.Wait() // begun by lines, which have ended by then
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, trigger := range l.Triggers {
		up := new(atomic.Bool)
		if trigger == PubSub {
			up = &l.heard
		}
		if source := l.Sources[trigger]; source != nil {
			wg.Go(func() { l.follow(ctx, trigger, source, up) })
		}
	}
	if l.Slots != nil {
		l.metrics.triggerUp.WithLabelValues(string(Stream)).Set(0)
	}
	if l.Lag.Measure != nil {
		wg.Go(func() { l.measure(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	wg.Go(func() { l.listen(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		case <-timer.C:
		}
		l.books(ctx, func(n *line) {
			ctx, end := context.WithCancel(ctx)
			n.end = end
			wg.Go(func() { n.run(ctx) })
		})
		timer.Reset(l.Upkeep)
	}
}

// books reads every product, hands each line its row, begins the lines that are new, ends those whose product is gone, tells Redis which
// products there are, and writes down how far the lines have come. What fails is done again a second later; lines go on with what they know.
func (l *Loop) books(ctx context.Context, begin func(*line)) {
	ctx, cancel := context.WithTimeout(ctx, booksWithin)
	defer cancel()
	rows, err := l.Ledger.Products(ctx)
	if err != nil {
		l.complain(ctx, "products not read", err)
		return
	}
	l.repeats.Over(ctx, "products not read")
	ids := make([]product.ID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
		n := l.find(row.ID)
		if n == nil {
			n = newLine(l, row)
			l.mu.Lock()
			l.lines[row.ID] = n
			l.mu.Unlock()
			begin(n)
			continue
		}
		n.update(row)
	}
	l.keep(ids)
	l.metrics.products.Set(float64(len(rows)))
	if err := l.Room.PutCatalogue(ctx, ids); err != nil {
		l.complain(ctx, "catalogue not written", err)
	} else {
		l.repeats.Over(ctx, "catalogue not written")
		l.ready.Store(true)
	}
	l.persist(ctx)
}

// keep ends the lines of all other products: their rows were removed, long after the sale. A scheduler that still looks at one changes nothing
// that anybody is shown.
func (l *Loop) keep(ids []product.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == len(ids) {
		return // each of them has a line by now
	}
	named := make(map[product.ID]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	for id, n := range l.lines {
		if !named[id] {
			n.end()
			delete(l.lines, id)
		}
	}
}

// persist writes down front and active count of every line that was ever opened (L4), also while nobody was admitted yet: a loss a
// moment after the first admissions must count them.
func (l *Loop) persist(ctx context.Context) {
	var waiting, active int64
	for _, n := range l.all() {
		seen := n.seen.Load()
		if seen == nil {
			continue
		}
		waiting, active = waiting+seen.Waiting, active+int64(seen.Active)
		if n.row.Load().OpenedUS == 0 || n.persisted == seen {
			continue
		}
		if err := l.Ledger.PersistLine(ctx, n.id, seen.Front, seen.Active, seen.At); err != nil {
			l.complain(ctx, "front not written", err, slog.String("product_id", string(n.id)))
			return
		}
		n.persisted = seen
	}
	l.repeats.Over(ctx, "front not written")
	l.metrics.waiting.Set(float64(waiting))
	l.metrics.active.Set(float64(active))
}

// complain logs what a round ran into, unless the process is ending.
func (l *Loop) complain(ctx context.Context, message string, err error, attrs ...slog.Attr) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	l.repeats.Warn(ctx, message, append(attrs, slog.Any("err", err))...)
}

// alarm is complain for what only a person can mend.
func (l *Loop) alarm(ctx context.Context, message string, err error, attrs ...slog.Attr) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	l.repeats.Error(ctx, message, append(attrs, slog.Any("err", err))...)
}

// backoff is the wait behind the nth failure in a row: doubled from the tick, at most backoffMost, and half of it drawn, so that
// schedulers do not come back together.
func (l *Loop) backoff(n int) time.Duration {
	wait := min(l.Tick<<min(n, 10), backoffMost)
	return wait/2 + rand.N(wait/2+1) //nolint:gosec // it spreads load and protects nothing
}
