package intake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrStuck means that a worker neither went on nor could be ended.
var ErrStuck = errors.New("intake: stuck")

// pulse says whether a worker lives: it beats whenever something returned, and rests while the worker waits for what it cannot hasten.
type pulse struct {
	mu      sync.Mutex
	last    time.Time
	resting int
	behind  bool // there are records that are not handled yet
}

func (p *pulse) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = now
}

func (p *pulse) lag(behind bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind = behind
}

// rest begins a wait and returns what ends it.
func (p *pulse) rest() (end func()) {
	p.mu.Lock()
	p.resting++
	p.mu.Unlock()

	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.resting--
		p.last = time.Now()
	})
}

// stuck says that there is work, that nothing returned for so long, and that this is nobody else's doing.
func (p *pulse) stuck(now time.Time, after time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.behind && p.resting == 0 && now.Sub(p.last) > after
}

type pulseKey struct{}

// AtStore tells the watchdog that the handler waits for a store until the returned function is called: a consumer is never ended because
// a store is away. ctx is the handler's; on any other the call does nothing. Safe concurrently and to nest.
func AtStore(ctx context.Context) (end func()) {
	p, given := ctx.Value(pulseKey{}).(*pulse)
	if !given {
		return func() {}
	}

	return p.rest()
}

// enter and exit keep the list of workers that the watchdog looks at.
func (i *Intake) enter(w *worker) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.workers[w] = nil
}

func (i *Intake) exit(w *worker) {
	i.mu.Lock()
	defer i.mu.Unlock()

	if timer := i.workers[w]; timer != nil {
		timer.Stop()
	}

	delete(i.workers, w)
}

// anyStuck looks for workers that are stuck. Each is given as long again to end with its generation; after that the intake fails, for
// only a new process gets rid of it.
func (i *Intake) anyStuck(now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()

	found := false

	for w, timer := range i.workers {
		if timer != nil || !w.pulse.stuck(now, i.cfg.StuckAfter) {
			continue
		}

		found = true
		i.metrics.stuck.WithLabelValues(w.label).Inc()
		w.log.Error("worker is stuck, its generation is dropped", slog.Duration("after", i.cfg.StuckAfter))
		i.workers[w] = time.AfterFunc(i.cfg.StuckAfter, func() { i.giveUp(w) })
	}

	return found
}

func (i *Intake) giveUp(w *worker) {
	i.mu.Lock()
	_, there := i.workers[w]
	i.mu.Unlock()

	if there {
		w.log.Error("worker does not end", slog.Duration("after", i.cfg.StuckAfter))
		i.fail(ErrStuck)
	}
}
