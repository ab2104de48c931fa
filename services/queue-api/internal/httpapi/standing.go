package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/live"
)

// What a person's standing is called in answers.
const (
	statusNotInLine = "not_in_line"
	statusWaiting   = "waiting"
	statusAdmitted  = "admitted"
	statusOrdered   = "ordered"
	statusLeft      = "left"
	statusLapsed    = "lapsed"
	statusEvicted   = "evicted"
	statusSoldOut   = "sold_out"
	statusPaused    = "paused"
	statusNotOpen   = "not_open"
	statusClosed    = "closed"
	statusQueueOff  = "queue_off"
)

// Why a value is null.
const (
	reasonNotMoving  = "not_yet_moving"
	reasonNotOffered = "not_yet_offered"
	reasonNotWaiting = "not_waiting"
	reasonNotLoaded  = "stock_not_loaded"
	reasonNotKnown   = "not_known"
	reasonTooFar     = "too_far"
	reasonOff        = "streams_off"
	reasonFull       = "streams_full"
)

// wait is a range (schema Wait).
type wait struct {
	Least int64 `json:"min_seconds"`
	Most  int64 `json:"max_seconds"`
}

// standing is the answer about one person (schema Standing). What is null has its reason beside it.
type standing struct {
	Product             product.ID     `json:"product"`
	Status              string         `json:"status"`
	Place               *product.Place `json:"place"`
	Position            *int64         `json:"position"`
	Ahead               *int64         `json:"ahead"`
	Total               int64          `json:"total"`
	EstimatedWait       *wait          `json:"estimated_wait"`
	EstimatedWaitReason *string        `json:"estimated_wait_reason"`
	Progress            *float64       `json:"progress"`
	ProgressReason      *string        `json:"progress_reason"`
	NextPollMS          int64          `json:"next_poll_ms"`
	Ticket              *string        `json:"ticket"`
	Pass                *string        `json:"pass"`
	PassExpiresAt       *time.Time     `json:"pass_expires_at"`
	OrderID             *order.ID      `json:"order_id"`
	OrderURL            *string        `json:"order_url"`
	StreamURL           *string        `json:"stream_url"`
	StreamURLReason     *string        `json:"stream_url_reason"`
	CanJoin             bool           `json:"can_join"`
	Message             *string        `json:"message"`
	SnapshotAt          time.Time      `json:"snapshot_at"`
	AgeMS               int64          `json:"age_ms"`
	Stale               bool           `json:"stale"`
}

// shown names a standing. The person comes first; only waiting and not_in_line give way to what the product says.
func shown(s waitingroom.Standing) string {
	own := statusNotInLine
	switch s.State {
	case waitingroom.Active:
		return statusAdmitted
	case waitingroom.Ordering, waitingroom.Ordered:
		return statusOrdered
	case waitingroom.Left:
		return statusLeft
	case waitingroom.Lapsed, waitingroom.Called:
		return statusLapsed
	case waitingroom.Evicted:
		return statusEvicted
	case waitingroom.Waiting, waitingroom.Away:
		own = statusWaiting
	case waitingroom.None:
	}
	switch p := s.Product; {
	case p.State == product.Closed:
		return statusClosed
	case p.State == product.NotOpen:
		return statusNotOpen
	case !p.QueueOn:
		return statusQueueOff
	case p.StockKnown && p.Base == 0:
		return statusSoldOut
	case p.State == product.Paused:
		return statusPaused
	default:
		return own
	}
}

// canJoin says whether a join would give a new place.
func canJoin(s waitingroom.Standing) bool {
	open := s.Product.State == product.Open || s.Product.State == product.Paused
	switch s.State {
	case waitingroom.None, waitingroom.Left, waitingroom.Lapsed, waitingroom.Called, waitingroom.Ordered:
		return open && s.Product.QueueOn
	default:
		return false
	}
}

// describe makes the answer, signs what the person may hold, and asks the books about a place that was called before a loss. The call has
// the ticket of the answer afterwards.
func (a *API) describe(ctx context.Context, c *call, s waitingroom.Standing, m moment) (standing, error) {
	notWaiting := reasonNotWaiting
	d := standing{
		Product: c.product, Status: shown(s), Total: s.Total, NextPollMS: a.nextPoll(s, m),
		EstimatedWaitReason: &notWaiting, ProgressReason: &notWaiting,
		CanJoin: canJoin(s), SnapshotAt: a.now().Add(-m.age).UTC(), AgeMS: m.age.Milliseconds(), Stale: m.age > live.StaleAfter,
	}
	if s.Product.Reason != "" {
		d.Message = &s.Product.Reason
	}
	if s.Place > 0 {
		d.Place = &s.Place
	}
	var err error
	switch s.State {
	case waitingroom.Waiting, waitingroom.Away:
		d.Position, d.Ahead = &s.Position, &s.Ahead
		d.estimate(s, m)
		t := a.progress(&d, c, s)
		d.Ticket, err = a.signTicket(c, t)
	case waitingroom.Active:
		// A ticket too, since giving the pass back needs it. What was promised is compared once, as a rule: it is not in the new one.
		if c.ticket != nil && c.ticket.Place == s.Place && c.ticket.Promise > 0 {
			a.metrics.waited(c.ticket.Promise, waited(s, s.AdmittedMS))
		}
		if d.Ticket, err = a.signTicket(c, ticket.Ticket{Product: c.product, User: c.who.hash, Place: s.Place}); err == nil {
			d.Pass, d.PassExpiresAt, err = a.signPass(c.who, c.product, s)
			a.lease(ctx, c.who, c.product, s)
		}
	case waitingroom.Ordering, waitingroom.Ordered:
		if s.OrderID != "" {
			d.order(s.OrderID)
		}
	case waitingroom.Called:
		// Redis lost what became of the pass, so lapsed is not the last word: the order of this place may be in the books.
		if c.claim != nil && c.claim.Place == s.Place {
			d.order(c.claim.OrderID)
		}
	default:
	}
	if s.CalledNow && c.claim != nil {
		// The ticket's place was called before a loss: ordered, if the books have a row. A look-up only, since the place may
		// never have been used (U3).
		a.want(ctx, orderstatus.Wanted{Product: c.product, User: c.who.hash, OrderID: c.claim.OrderID})
	}
	if err == nil {
		a.offerStream(&d, c, s)
	}
	return d, err
}

// order tells which order is, or may be, of this place.
func (d *standing) order(id order.ID) {
	url := orderURL(id)
	d.OrderID, d.OrderURL = &id, &url
}

// estimate tells the wait of somebody in line, or why nobody knows it.
func (d *standing) estimate(s waitingroom.Standing, m moment) {
	reason := d.Status
	if d.Status == statusWaiting {
		least, most, moves := m.flow.Wait(s.Ahead)
		if moves {
			d.EstimatedWait, d.EstimatedWaitReason = &wait{least, most}, nil
			return
		}
		reason = reasonNotMoving
	}
	d.EstimatedWaitReason = &reason
}

// progress tells how much of the way is behind the person, and gives the ticket that remembers where it began and what was promised first.
func (a *API) progress(d *standing, c *call, s waitingroom.Standing) ticket.Ticket {
	t := ticket.Ticket{Product: c.product, User: c.who.hash, Place: s.Place}
	if c.ticket != nil && c.ticket.Place == s.Place {
		t = *c.ticket
	}
	known := t.Start > 0 || s.Created
	if t.Start == 0 {
		t.Start = s.Position
	}
	if known {
		done := 1.0
		if t.Start > 1 {
			done = min(1, max(0, float64(t.Start-s.Position)/float64(t.Start-1)))
		}
		d.Progress, d.ProgressReason = &done, nil
	} else {
		reason := reasonNotKnown
		d.ProgressReason = &reason
	}
	if t.Promise == 0 && d.EstimatedWait != nil {
		if so := waited(s, a.now().UnixMilli()); so >= 0 {
			t.Promise = max(1, so+(d.EstimatedWait.Least+d.EstimatedWait.Most)/2)
		}
	}
	return t
}

// waited is how many seconds after the join a moment was, by the place, which tells when it was given out; -1 where it does not, after the
// counter began anew.
func waited(s waitingroom.Standing, atMS int64) int64 {
	took := atMS/1000 - (s.Product.OpenedUS+s.Place.Low())/1_000_000
	if took < 0 || took > int64(ticket.Life.Seconds()) {
		return -1
	}
	return took
}

func (a *API) nextPoll(s waitingroom.Standing, m moment) int64 {
	load := a.cfg.Cadence.load(a.calls.Load(), m.lag)
	switch s.State {
	case waitingroom.Waiting, waitingroom.Away:
		return a.cfg.Cadence.at(s.Position, load)
	case waitingroom.Active, waitingroom.Ordering:
		return a.cfg.Cadence.near()
	default:
		return a.cfg.Cadence.far()
	}
}

// signTicket signs what a ticket says. The one that the person showed is given again while it says the same and most of its life is left;
// another one takes its place in the call.
func (a *API) signTicket(c *call, t ticket.Ticket) (*string, error) {
	if c.ticket != nil && t == *c.ticket && a.now().Sub(t.IssuedAt) < ticket.Life/4 {
		return &c.text, nil
	}
	t.IssuedAt = a.now()
	text, err := ticket.Sign(a.keys.Tickets.Current(), t)
	if err != nil {
		return nil, err
	}
	c.ticket, c.text = &t, text
	return &text, nil
}

// signPass makes the pass of a lease: the same text each time, since it says only what the lease says.
func (a *API) signPass(who person, p product.ID, s waitingroom.Standing) (*string, *time.Time, error) {
	admitted, ends := time.UnixMilli(s.AdmittedMS).UTC(), time.UnixMilli(s.LeaseEndMS).UTC()
	says := pass.Pass{
		User: who.id, Product: p, Place: s.Place, OrderID: a.orderID(p, who, s.Place, s.Product.OpenedUS),
		Epoch: s.Product.PassEpoch, Admitted: admitted, IssuedAt: admitted, ExpiresAt: ends,
	}
	text, err := a.keys.Passes.Sign(says)
	if err == nil {
		a.passes.keep(text, says.Told())
	}
	return &text, &ends, err
}

// lease has Redis tell when the pass is over. Its loss is none: the tick finds a pass that lapsed.
func (a *API) lease(ctx context.Context, who person, p product.ID, s waitingroom.Standing) {
	if !a.cfg.Leases {
		return
	}
	if err := a.room.Lease(ctx, p, who.hash, time.UnixMilli(s.LeaseEndMS)); err != nil {
		a.logger.DebugContext(ctx, "lease not written", "product_id", p, "err", err)
	}
}

func (a *API) orderID(p product.ID, who person, place product.Place, openedUS int64) order.ID {
	return order.DeriveID(a.keys.Orders, p, who.hash, place, openedUS)
}

// want asks the books for a status. The question is a help, its loss none: whoever polls asks again.
func (a *API) want(ctx context.Context, w orderstatus.Wanted) {
	if err := a.statuses.Want(ctx, w); err != nil {
		a.logger.DebugContext(ctx, "status not asked for", "order_id", w.OrderID, "err", err)
	}
}

// again sends an answer about a person who is to ask again after a pause, and says so in the header too: in whole seconds, for clients that
// heed nothing else.
func again(w http.ResponseWriter, status int, pauseMS int64, body any) error {
	w.Header()["Retry-After"] = []string{strconv.FormatInt((pauseMS+999)/1000, 10)}
	return send(w, status, body)
}

// send writes a JSON answer.
func send(w http.ResponseWriter, status int, body any) error {
	text, err := encode(body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	values := []string{"application/json", "nosniff"} // one piece of memory, under names in their canonical form
	w.Header()["Content-Type"], w.Header()["X-Content-Type-Options"] = values[:1:1], values[1:]
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone; there is nobody left to tell
	return nil
}
