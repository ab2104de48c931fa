package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hanjul/pkg/product"
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
	advise  bool

	mu  sync.Mutex
	all map[product.ID]*view
}

// view is one product's state; its mutex lets one caller at a time ask for it.
type view struct {
	mu     sync.Mutex
	state  waitingroom.ProductView
	until  time.Time
	warned bool
}

func newViews(room Room, logger *slog.Logger, longest time.Duration, advise bool) *views {
	return &views{room: room, logger: logger, longest: longest, advise: advise, all: map[product.ID]*view{}}
}

// get returns the product's state, at most viewLife old; errUnknownProduct where the catalogue is complete and does not
// name it, errNotReady while nobody can say or its settings are missing, errUnavailable when Redis is away.
func (v *views) get(ctx context.Context, p product.ID) (waitingroom.ProductView, error) {
	v.mu.Lock()
	entry := v.all[p]
	v.mu.Unlock()
	if entry == nil {
		state, err := v.read(ctx, p)
		if err != nil {
			return state, err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.all[p] == nil {
			v.all[p] = &view{}
		}
		return state, v.all[p].keep(v, p, state)
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	if time.Now().Before(entry.until) {
		return entry.state, nil
	}
	state, err := v.read(ctx, p)
	if err != nil {
		return state, err
	}
	return state, entry.keep(v, p, state)
}

// keep notes a state that was read, and says once when the pass's life is too short for the cadence: somebody who polls as
// asked could then be late for the own turn (F36).
func (e *view) keep(v *views, p product.ID, state waitingroom.ProductView) error {
	if least := 2*v.longest + 90*time.Second; state.PassMS < least.Milliseconds() {
		if !v.advise {
			return errNotReady
		}
		if !e.warned {
			e.warned = true
			v.logger.Warn("pass life is short for the cadence", "product", p, "pass_ms", state.PassMS, "advised_ms", least.Milliseconds())
		}
	}
	e.state, e.until = state, time.Now().Add(viewLife)
	return nil
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
	case errors.Is(err, waitingroom.ErrNoCatalogue):
		return errNotReady
	case err != nil:
		return stored(err)
	case !known:
		return errUnknownProduct
	default:
		return errNotReady
	}
}
