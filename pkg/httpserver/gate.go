package httpserver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"hanjul/pkg/lifecycle"
)

// ErrGate is a closed gate's answer to /readyz.
var ErrGate = errors.New("starting or stopping")

// Gate tells /readyz that a process begins or ends: it opens when it runs and closes before anything is
// stopped, so that a load balancer turns away in time. Its place is first in the list of a process's components.
type Gate struct {
	wait time.Duration
	open atomic.Bool
}

// NewGate returns a closed gate. wait is how long the rest of the process goes on after the gate has closed, for the
// load balancer to notice; 0 for none.
func NewGate(wait time.Duration) *Gate { return &Gate{wait: wait} }

// Component is the gate as a part of a process.
func (g *Gate) Component() lifecycle.Component {
	return lifecycle.Component{Name: "gate", Run: g.Run, StopWithin: g.wait + time.Second}
}

// Run keeps the gate open until ctx ends, then closes it and waits. It returns nil.
func (g *Gate) Run(ctx context.Context) error {
	g.open.Store(true)
	<-ctx.Done()
	g.open.Store(false)
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	<-timer.C
	return nil
}

// Check is the gate as a condition of being ready.
func (g *Gate) Check() Check {
	return Check{Name: "gate", Check: func(context.Context) error {
		if g.open.Load() {
			return nil
		}
		return ErrGate
	}}
}
