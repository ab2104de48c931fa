package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
)

// viewLife is how old a product's public state may be. What must be exact (state, queue, stock, epoch) is read by the scripts.
const viewLife = time.Second

// views keeps the public state of products for a second, so that neither a crowd of readers nor the tickets of a line cost a
// call each. Only products that exist are kept. Safe for concurrent use.
type views struct {
	room    Room
	logger  *slog.Logger
	longest time.Duration
	within  time.Duration
	advise  bool

	mu  sync.Mutex
	all map[product.ID]*view
}

// view is one product's state, and the question on its way, if any.
type view struct {
	state  waitingroom.ProductView
	until  time.Time
	asking *question
	away   bool // the last question was refused, since Redis is away
	warned bool
}

// question is one look at Redis that everybody who comes meanwhile waits for, whatever its end: with Redis away they must
// not stand in a row and try one after the other.
type question struct {
	answered chan struct{}
	state    waitingroom.ProductView
	err      error
}

func newViews(room Room, logger *slog.Logger, longest, within time.Duration, advise bool) *views {
	return &views{room: room, logger: logger, longest: longest, within: within, advise: advise, all: map[product.ID]*view{}}
}

// get returns the product's state, at most viewLife old; errUnknownProduct where the catalogue is complete and does not
// name it, errNotReady while nobody can say or its settings are missing, errUnavailable when Redis is away.
func (v *views) get(ctx context.Context, p product.ID) (waitingroom.ProductView, error) {
	v.mu.Lock()
	entry := v.all[p]
	switch {
	case entry == nil, entry.asking != nil && entry.away: // nobody waits while one tries whether Redis is back: the others are refused
		v.mu.Unlock()
		state, err := v.read(ctx, p)
		if err == nil {
			err = v.keep(p, state)
		}
		return state, err
	case time.Now().Before(entry.until):
		defer v.mu.Unlock()
		return entry.state, nil
	case entry.asking != nil:
		asked := entry.asking
		v.mu.Unlock()
		select {
		case <-asked.answered:
			return asked.state, asked.err
		case <-ctx.Done():
			return waitingroom.ProductView{}, stored(ctx.Err())
		}
	}
	asked := &question{answered: make(chan struct{})}
	entry.asking = asked
	v.mu.Unlock()

	// It is everybody's question now: it does not end with the call that happened to ask it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.within)
	defer cancel()
	asked.state, asked.err = v.read(ctx, p)
	if asked.err == nil {
		asked.err = v.keep(p, asked.state)
	}
	v.mu.Lock()
	entry.asking, entry.away = nil, redisconn.Away(asked.err) != nil
	v.mu.Unlock()
	close(asked.answered)
	return asked.state, asked.err
}

// remembered is how long the last state counts that was read of a product while Redis is away.
const remembered = time.Hour

// last is the state that was read last, and when, if that was not too long ago. It asks nobody.
func (v *views) last(p product.ID) (waitingroom.ProductView, time.Time, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry := v.all[p]
	if entry == nil || entry.until.IsZero() {
		return waitingroom.ProductView{}, time.Time{}, false
	}
	at := entry.until.Add(-viewLife)
	return entry.state, at, time.Since(at) < remembered
}

// keep notes a state that was read, and says once when the pass's life is too short for the cadence: somebody who polls as
// asked could then be late for the own turn (F36).
func (v *views) keep(p product.ID, state waitingroom.ProductView) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry := v.all[p]
	if entry == nil {
		entry = &view{}
		v.all[p] = entry
	}
	if !v.fits(state) {
		return errNotReady
	}
	if least := v.least(); state.PassMS < least.Milliseconds() {
		if !entry.warned {
			entry.warned = true
			v.logger.Warn("pass life is short for the cadence", "product", p, "pass_ms", state.PassMS, "advised_ms", least.Milliseconds())
		}
	}
	entry.state, entry.until = state, time.Now().Add(viewLife)
	return nil
}

// least is the shortest life of a pass that is safe with the cadence (F36).
func (v *views) least() time.Duration { return 2*v.longest + 90*time.Second }

// fits says whether the product can be served with the cadence.
func (v *views) fits(state waitingroom.ProductView) bool {
	return v.advise || state.PassMS >= v.least().Milliseconds()
}

func (v *views) read(ctx context.Context, p product.ID) (waitingroom.ProductView, error) {
	state, err := v.room.View(ctx, p)
	if err == nil {
		return state, nil
	}
	return state, v.missing(ctx, p, err)
}

// missing tells a product that does not exist from one that is not there yet: 404 is said only by a complete catalogue.
func (v *views) missing(ctx context.Context, p product.ID, err error) error {
	if !errors.Is(err, waitingroom.ErrNotReady) {
		return stored(err)
	}
	known, err := v.room.InCatalogue(ctx, p)
	switch {
	case errors.Is(err, waitingroom.ErrNoCatalogue), redisconn.Away(err) != nil:
		return errNotReady // the product's own node has answered
	case err != nil:
		return stored(err)
	case !known:
		return errUnknownProduct
	default:
		return errNotReady
	}
}
