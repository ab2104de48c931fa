package httpapi

import (
	"context"
	"net/http"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/live"
)

// status tells a person where they stand, and hands out the pass once admitted. Whoever waits, by the line that this process holds, is
// answered from it without a call of Redis; everybody else is asked about there: who was admitted, has no ticket, or holds one of a
// place that the line has forgotten.
func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	c, err := a.caller(r)
	if err != nil {
		return err
	}
	if pause, ok := a.paces.admit(c.who.hash, c.product); !ok {
		return &fault{err: errTooFast, retry: pause}
	}
	a.remember(r.Context(), c.product)
	s, seen, err := a.stands(r.Context(), &c)
	if d, let := a.letIn(&c, seen.away || redisconn.Away(err) != nil); let {
		a.paces.told(c.who.hash, c.product, d.NextPollMS)
		a.metrics.polled(d.Status)
		return again(w, http.StatusOK, d.NextPollMS, &d)
	}
	if err != nil {
		return err
	}
	d, err := a.describe(r.Context(), &c, s, seen)
	if err != nil {
		return err
	}
	a.paces.told(c.who.hash, c.product, d.NextPollMS)
	a.metrics.polled(d.Status)
	return again(w, http.StatusOK, d.NextPollMS, &d)
}

// moment is when an answer about a person is of, and how the line moved then.
type moment struct {
	age  time.Duration
	flow live.Flow
	lag  time.Duration
	away bool // Redis is not asked now
}

// fresh is the moment of an answer of Redis.
func (a *API) fresh(p product.ID) moment { return moment{flow: a.lines.Flow(p)} }

// stands finds out where a person stands: by the line that this process holds, else at Redis.
func (a *API) stands(ctx context.Context, c *call) (waitingroom.Standing, moment, error) {
	if s, m, found := a.seen(ctx, c); found {
		return s, m, nil
	}
	return a.ask(ctx, c)
}

// ask asks Redis where a person stands, which is a sign of life, too.
func (a *API) ask(ctx context.Context, c *call) (waitingroom.Standing, moment, error) {
	if err := a.claim(ctx, c); err != nil {
		return waitingroom.Standing{}, moment{}, err
	}
	s, err := a.room.Status(ctx, c.product, c.who.hash, c.claim)
	if err != nil {
		return s, moment{}, a.views.missing(ctx, c.product, err)
	}
	return s, a.fresh(c.product), nil
}

// seen looks for the ticket's place in the line that this process holds.
func (a *API) seen(ctx context.Context, c *call) (waitingroom.Standing, moment, bool) {
	if c.ticket == nil {
		return waitingroom.Standing{}, moment{}, false
	}
	look, found := a.lines.Find(ctx, c.product, c.ticket.Place)
	if !found || look.Position == 0 || !a.views.fits(look.View) {
		return waitingroom.Standing{}, moment{}, false
	}
	if c.ticket.Place <= look.View.Near {
		a.lines.Heard(c.product, c.who.hash)
	}
	s, m := waits(c.ticket.Place, look)
	return s, m, true
}

// waits is what a snapshot says of somebody whom it has found.
func waits(place product.Place, look live.Look) (waitingroom.Standing, moment) {
	v := look.View
	return waitingroom.Standing{
		State: waitingroom.Waiting, Place: place, Position: look.Position, Ahead: look.Position - 1, Total: v.Waiting,
		Product: waitingroom.Sale{
			State: v.State, QueueOn: v.QueueOn, Reason: v.Reason, OpenedUS: v.OpenedUS, PassEpoch: v.PassEpoch, StockKnown: v.StockKnown, Base: v.Base,
		},
	}, moment{age: look.Age, flow: look.Flow, lag: look.Lag, away: look.Away}
}
