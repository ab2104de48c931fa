// Package lifecycle starts the parts of a process in one order and stops them in the other. It owns the goroutine of
// each part and the order of starting and stopping; it handles no signals itself (only main.go asks the system for them)
// and knows nothing about what a part does. app.go builds the parts before, main.go ends the process after.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// DefaultStopWithin is how long a component without StopWithin may take to stop.
const DefaultStopWithin = 10 * time.Second

// Component is one part of a process.
type Component struct {
	// Name stands in logs and errors.
	Name string
	// Run does the work until its context ends, then drains and returns nil. Its context ends when it is this
	// component's turn to stop, not when the process is asked to stop. Returning context.Canceled after that counts as nil;
	// returning anything before that stops the whole process.
	Run func(ctx context.Context) error
	// Ready, where set, blocks until the component can serve those that start after it. It returns an error when it
	// never will, and when its context ends.
	Ready func(ctx context.Context) error
	// StopWithin bounds the time from the end of Run's context to its return; 0 means DefaultStopWithin. A component that
	// takes longer is left behind with its goroutine and the rest are stopped: the process is about to end anyway.
	StopWithin time.Duration
}

// StopWithin is the longest time that Run takes to stop the components, one after the other, when each takes all of its time. What
// ends a process by force must wait longer.
func StopWithin(components ...Component) time.Duration {
	var sum time.Duration
	for _, c := range components {
		sum += c.stopWithin()
	}
	return sum
}

func (c Component) stopWithin() time.Duration {
	if c.StopWithin <= 0 {
		return DefaultStopWithin
	}
	return c.StopWithin
}

var (
	// ErrEndedEarly is returned for a component whose Run returned nil although nobody had asked it to stop.
	ErrEndedEarly = errors.New("ended although nobody asked it to stop")
	// ErrStillRunning is returned for a component that did not stop within its time.
	ErrStillRunning = errors.New("still running after its time to stop")
)

// Run starts the components from the last to the first, each when the one before is ready, and waits until ctx ends or
// a component does. Then it stops them from the first to the last, each fully before the next. List them in the order in
// which work flows through them, sources first: a source then starts when everything it feeds is there, and stops before it.
//
// It returns nil when ctx ended and every component stopped in time without an error; else the first error, with the
// component's name. Later errors are only logged. It returns after every component has, but for those that overran their time.
func Run(ctx context.Context, logger *slog.Logger, components ...Component) error {
	r := &run{logger: logger, ended: make(chan *part, len(components))}
	if r.start(ctx, components) {
		logger.Info("running", "components", len(components))
		select {
		case p := <-r.ended:
			r.early(p)
		case <-ctx.Done():
		}
	}
	logger.Info("stopping", "cause", r.cause(ctx))
	r.stop()
	return r.first
}

// run is one call of Run. parts holds what was started, in flow order.
type run struct {
	logger *slog.Logger
	parts  []*part
	ended  chan *part
	first  error
}

// part is a started component. err may be read once done is closed.
type part struct {
	Component
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// start starts the components, last first. It returns false when it gave up on the way: ctx ended, one was not
// ready, or one ended.
func (r *run) start(ctx context.Context, components []Component) bool {
	for i := len(components) - 1; i >= 0; i-- {
		if ctx.Err() != nil {
			return false
		}
		p := r.launch(ctx, components[i])
		r.parts = append([]*part{p}, r.parts...)
		if !r.ready(ctx, p) {
			return false
		}
		r.logger.Debug("component started", "component", p.Name)
	}
	return true
}

func (r *run) launch(ctx context.Context, component Component) *part {
	p := &part{Component: component, done: make(chan struct{})}
	// Detached: the end of ctx asks for an orderly stop, it must not cut off work in hand.
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		p.err = p.Run(p.ctx)
		close(p.done)
		r.ended <- p
	}()
	return p
}

// ready waits for p, but no longer than ctx and no longer than every started component runs.
func (r *run) ready(ctx context.Context, p *part) bool {
	if p.Ready == nil {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- p.Ready(ctx) }()
	select {
	case err := <-ready:
		if err == nil {
			return true
		}
		// What ended on its own tells more than the readiness that therefore never came.
		select {
		case p := <-r.ended:
			r.early(p)
		default:
		}
		if ctx.Err() == nil {
			r.fail(p, fmt.Errorf("wait until ready: %w", err))
		}
		return false
	case p := <-r.ended:
		cancel()
		_ = <-ready // it returns once its context has ended
		r.early(p)
		return false
	}
}

// stop stops the started components, first first.
func (r *run) stop() {
	for _, p := range r.parts {
		select {
		case <-p.done:
			// It ended before its turn; only an error is of interest now, and early may have told it already.
			if p.err != nil && !errors.Is(r.first, p.err) {
				r.fail(p, p.err)
			}
			p.cancel()
			continue
		default:
		}
		r.stopOne(p)
	}
}

func (r *run) stopOne(p *part) {
	within := p.stopWithin()
	timer := time.NewTimer(within)
	defer timer.Stop()
	p.cancel()
	select {
	case <-p.done:
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			r.fail(p, p.err)
		}
		r.logger.Debug("component stopped", "component", p.Name)
	case <-timer.C:
		r.fail(p, fmt.Errorf("%w (%s)", ErrStillRunning, within))
	}
}

// early notes that p ended before anybody asked it to.
func (r *run) early(p *part) {
	if p.err == nil {
		r.fail(p, ErrEndedEarly)
		return
	}
	r.fail(p, p.err)
}

func (r *run) fail(p *part, err error) {
	r.logger.Error("component failed", "component", p.Name, "err", err)
	if r.first == nil {
		r.first = fmt.Errorf("%s: %w", p.Name, err)
	}
}

func (r *run) cause(ctx context.Context) error {
	if r.first != nil {
		return r.first
	}
	return context.Cause(ctx)
}
