// Package streams knows who waits on a connection of this process, for an order or in a line, and hands each stream the newest of what it
// waits for: the Hub the status of an order, the Crowd a place in a line. It owns one subscription to the hints of orderstatus and one slow
// re-read for all streams of orders together, and one look at the snapshot of a line for all streams of that line, so that neither a stream
// nor a change costs a call of its own. It writes nothing to anybody: httpapi does, one stream per request. It knows no owner but by the
// hash it is told, and decides nothing about orders or lines.
package streams

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/telemetry"
)

var (
	// ErrFull says that as many streams are open as this process, or this person, may have.
	ErrFull = errors.New("too many streams are open")
	// ErrStopping says that this process takes no more streams since it ends; another one does.
	ErrStopping = errors.New("streams are ending here")
)

// Statuses is what the hub needs of orderstatus.
type Statuses interface {
	Follow(ctx context.Context, begun func(), hint func(id order.ID)) error
	GetMany(ctx context.Context, ids []order.ID) ([]orderstatus.Entry, error)
}

// Config is what an operator chooses. Zero values take the defaults.
type Config struct {
	Max      int           // streams open at once, of orders and of lines together; default 10,000
	PerUser  int           // of one person; default 8
	Reread   time.Duration // between two looks at all statuses waited for, for hints that were lost; default 2 s
	Refollow time.Duration // between two tries to listen for hints, ± 50 %; default 200 ms
}

// Hub is the open streams of orders of a process, and counts those of lines with them. Safe for concurrent use. Nobody is woken unless Run runs.
type Hub struct {
	statuses Statuses
	log      *telemetry.Repeats
	metrics  *Metrics
	cfg      Config
	wake     chan struct{} // a hint came, or all is to be read
	stopping chan struct{}

	mu      sync.Mutex
	open    int
	stopped bool
	orders  map[order.ID]map[*Stream]struct{}
	people  map[product.UserHash]int
	hinted  map[order.ID]struct{} // hinted at and not yet read; only of orders in the map above, so bounded as it is
	all     bool                  // hints may have been lost: read everything
}

// New returns a hub without streams. It does not connect.
func New(statuses Statuses, logger *slog.Logger, metrics *Metrics, cfg Config) *Hub {
	if cfg.Max <= 0 {
		cfg.Max = 10_000
	}
	if cfg.PerUser <= 0 {
		cfg.PerUser = 8
	}
	if cfg.Reread <= 0 {
		cfg.Reread = 2 * time.Second
	}
	if cfg.Refollow <= 0 {
		cfg.Refollow = 200 * time.Millisecond
	}
	return &Hub{
		statuses: statuses, log: telemetry.NewRepeats(logger, 10*time.Second), metrics: metrics, cfg: cfg,
		wake: make(chan struct{}, 1), stopping: make(chan struct{}),
		orders: map[order.ID]map[*Stream]struct{}{}, people: map[product.UserHash]int{}, hinted: map[order.ID]struct{}{},
	}
}

// Open takes a stream for an order, or says ErrFull or ErrStopping. What is written to the status from now on reaches the stream;
// the caller reads what was there before, afterwards, and closes the stream.
func (h *Hub) Open(id order.ID, user product.UserHash) (*Stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.sit(user); err != nil {
		return nil, err
	}
	s := &Stream{hub: h, id: id, user: user, changed: make(chan struct{}, 1), told: -1}
	if h.orders[id] == nil {
		h.orders[id] = map[*Stream]struct{}{}
	}
	h.orders[id][s] = struct{}{}
	h.metrics.open.Inc()
	return s, nil
}

func (h *Hub) close(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, found := h.orders[s.id][s]; !found {
		return
	}
	delete(h.orders[s.id], s)
	if len(h.orders[s.id]) == 0 {
		delete(h.orders, s.id)
		delete(h.hinted, s.id)
	}
	h.rise(s.user)
	h.metrics.open.Dec()
}

// sit takes a place for a stream, of whatever kind; h.mu is held.
func (h *Hub) sit(user product.UserHash) error {
	switch {
	case h.stopped:
		return ErrStopping
	case h.open >= h.cfg.Max || h.people[user] >= h.cfg.PerUser:
		h.metrics.refused.Inc()
		return ErrFull
	}
	h.people[user]++
	h.open++
	return nil
}

// rise gives the place back; h.mu is held.
func (h *Hub) rise(user product.UserHash) {
	if h.people[user]--; h.people[user] == 0 {
		delete(h.people, user)
	}
	h.open--
}

// Full says whether a stream would be refused to anybody now.
func (h *Hub) Full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopped || h.open >= h.cfg.Max
}

// Run wakes streams until ctx ends, then tells each to stop, takes no more, and returns nil. Call it once.
func (h *Hub) Run(ctx context.Context) error {
	var listener sync.WaitGroup
	listener.Go(func() { h.listen(ctx) })
	defer listener.Wait()
	reread := time.NewTicker(h.cfg.Reread)
	defer reread.Stop()
	for {
		select {
		case <-ctx.Done():
			h.mu.Lock()
			h.stopped = true
			h.mu.Unlock()
			close(h.stopping)
			return nil
		case <-reread.C:
			h.everything()
		case <-h.wake:
			h.read(ctx)
		}
	}
}

// listen follows the hints, again and again.
func (h *Hub) listen(ctx context.Context) {
	const message = "hints of statuses are not heard"
	for {
		err := h.statuses.Follow(ctx, func() {
			h.log.Over(ctx, message)
			h.everything()
		}, h.hint)
		if ctx.Err() != nil {
			return
		}
		h.log.Warn(ctx, message, slog.Any("err", err))
		pause := time.NewTimer(time.Duration((0.5 + rand.Float64()) * float64(h.cfg.Refollow))) //nolint:gosec // a pause, no secret
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// hint notes an order whose status was written, if somebody here waits for it.
func (h *Hub) hint(id order.ID) {
	h.mu.Lock()
	_, waited := h.orders[id]
	if waited {
		h.hinted[id] = struct{}{}
	}
	h.mu.Unlock()
	if waited {
		h.rouse()
	}
}

func (h *Hub) everything() {
	h.mu.Lock()
	h.all = true
	h.mu.Unlock()
	h.rouse()
}

func (h *Hub) rouse() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// read reads what is due, in pipelines, and hands it out. What could not be read is read again with everything.
func (h *Hub) read(ctx context.Context) {
	const message = "statuses of open streams are not read"
	h.mu.Lock()
	hinted, all := h.hinted, h.all
	h.hinted, h.all = map[order.ID]struct{}{}, false
	ids := make([]order.ID, 0, len(hinted))
	for id := range hinted {
		ids = append(ids, id)
	}
	if all {
		for id := range h.orders {
			if _, found := hinted[id]; !found {
				ids = append(ids, id)
			}
		}
	}
	h.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	entries, err := h.statuses.GetMany(ctx, ids)
	switch {
	case err == nil:
		h.log.Over(ctx, message)
	case ctx.Err() == nil:
		h.log.Warn(ctx, message, slog.Any("err", err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		_, wasHinted := hinted[e.ID]
		for s := range h.orders[e.ID] {
			if s.tell(e.Status) {
				h.metrics.changed(wasHinted)
			}
		}
	}
}
