package httpapi

import (
	"context"
	"net/http"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/ticket"
	"hanjul/pkg/waitingroom"
)

// firstPoll is when somebody who found nobody in front asks for the pass.
const firstPoll = 200 * time.Millisecond

// joined is the answer of a join (schema Joined).
type joined struct {
	standing
	AlreadyInLine bool `json:"already_in_line"`
}

// join puts a person at the end of the line, or finds the place they have.
func (a *API) join(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	c, err := a.caller(r)
	if err != nil {
		return err
	}
	a.remember(r.Context(), c.product)
	s, err := a.enter(r.Context(), &c)
	if d, let := a.letIn(&c, redisconn.Away(err) != nil); let {
		return again(w, http.StatusOK, d.NextPollMS, &joined{d, false})
	}
	if err != nil {
		return err
	}
	d, err := a.describe(r.Context(), &c, s, a.fresh(c.product))
	if err != nil {
		return err
	}
	if s.Created && s.Position == 1 && d.Status == statusWaiting {
		// Nobody is in front, and the schedulers were told: they may well be through already.
		d.NextPollMS = firstPoll.Milliseconds()
	}
	status := http.StatusOK
	if s.Created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/products/"+string(c.product)+"/queue")
	}
	return again(w, status, d.NextPollMS, &joined{d, !s.Created})
}

// enter joins the line.
func (a *API) enter(ctx context.Context, c *call) (waitingroom.Standing, error) {
	if err := a.claim(ctx, c); err != nil {
		return waitingroom.Standing{}, err
	}
	s, err := a.room.Join(ctx, c.product, c.who.hash, c.claim)
	if err != nil {
		return s, a.views.missing(ctx, c.product, err)
	}
	return s, nil
}

// call is what every call about a line has: the person, the product, and the ticket, if any.
type call struct {
	who     person
	product product.ID
	ticket  *ticket.Ticket
	text    string                   // of the ticket
	claim   *waitingroom.TicketClaim // what the ticket claims of Redis; see API.claim
}

// caller reads and checks what a call about a line has.
func (a *API) caller(r *http.Request) (c call, err error) {
	if c.who, err = a.person(r); err != nil {
		return c, err
	}
	if c.product, err = pathProduct(r); err != nil {
		return c, err
	}
	if c.ticket, err = a.ticket(r, c.who, c.product, false); err == nil && c.ticket != nil {
		c.text = r.Header.Get(headerTicket)
	}
	return c, err
}

// claim derives what the ticket claims.
func (a *API) claim(ctx context.Context, c *call) error {
	if c.ticket == nil {
		return nil
	}
	view, err := a.views.get(ctx, c.product)
	if err != nil {
		return err
	}
	if view.OpenedUS != 0 { // else it was never opened, and nobody has a place to claim
		c.claim = &waitingroom.TicketClaim{Place: c.ticket.Place, OrderID: a.orderID(c.product, c.who, c.ticket.Place, view.OpenedUS)}
	}
	return nil
}
