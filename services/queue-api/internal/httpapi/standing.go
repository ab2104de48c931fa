package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
	"hanjul/pkg/waitingroom"
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
	reasonNotMeasured = "not_yet_measured"
	reasonNotOffered  = "not_yet_offered"
	reasonNotWaiting  = "not_waiting"
	reasonNotLoaded   = "stock_not_loaded"
	reasonNotKnown    = "not_known"
)

// standing is the answer about one person (schema Standing). What later parts fill is null from the start, with its reason.
type standing struct {
	Product             product.ID     `json:"product"`
	Status              string         `json:"status"`
	Place               *product.Place `json:"place"`
	Position            *int64         `json:"position"`
	Ahead               *int64         `json:"ahead"`
	Total               int64          `json:"total"`
	EstimatedWait       *struct{}      `json:"estimated_wait"`
	EstimatedWaitReason string         `json:"estimated_wait_reason"`
	Progress            *float64       `json:"progress"`
	ProgressReason      string         `json:"progress_reason"`
	NextPollMS          int64          `json:"next_poll_ms"`
	Ticket              *string        `json:"ticket"`
	Pass                *string        `json:"pass"`
	PassExpiresAt       *time.Time     `json:"pass_expires_at"`
	OrderID             *order.ID      `json:"order_id"`
	OrderURL            *string        `json:"order_url"`
	StreamURL           *string        `json:"stream_url"`
	StreamURLReason     string         `json:"stream_url_reason"`
	CanJoin             bool           `json:"can_join"`
	Message             *string        `json:"message"`
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

// describe makes the answer, signs what the person may hold, and asks the books about a place that was called before a loss.
func (a *API) describe(ctx context.Context, who person, p product.ID, s waitingroom.Standing, ticket *waitingroom.TicketClaim) (standing, error) {
	d := standing{
		Product: p, Status: shown(s), Total: s.Total, NextPollMS: a.nextPoll(s),
		EstimatedWaitReason: reasonNotWaiting, ProgressReason: reasonNotWaiting, StreamURLReason: reasonNotOffered,
		CanJoin: canJoin(s),
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
		d.EstimatedWaitReason, d.ProgressReason = reasonNotMeasured, reasonNotMeasured
		d.Position, d.Ahead = &s.Position, &s.Ahead
		d.Ticket, err = a.signTicket(who, p, s.Place)
	case waitingroom.Active:
		// A ticket too, since giving the pass back needs it.
		if d.Ticket, err = a.signTicket(who, p, s.Place); err == nil {
			d.Pass, d.PassExpiresAt, err = a.signPass(who, p, s)
		}
	case waitingroom.Ordering, waitingroom.Ordered:
		if s.OrderID != "" {
			url := orderURL(s.OrderID)
			d.OrderID, d.OrderURL = &s.OrderID, &url
		}
	default:
	}
	if s.CalledNow && ticket != nil {
		// The ticket's place was called before a loss: ordered, if the books have a row. A look-up only, since the place may
		// never have been used (U3).
		a.want(ctx, orderstatus.Wanted{Product: p, User: who.hash, OrderID: ticket.OrderID})
	}
	return d, err
}

func (a *API) nextPoll(s waitingroom.Standing) int64 {
	switch s.State {
	case waitingroom.Waiting, waitingroom.Away:
		return a.cfg.Cadence.at(s.Position)
	case waitingroom.Active, waitingroom.Ordering:
		return a.cfg.Cadence.near()
	default:
		return a.cfg.Cadence.far()
	}
}

func (a *API) signTicket(who person, p product.ID, place product.Place) (*string, error) {
	text, err := ticket.Sign(a.keys.Tickets.Current(), ticket.Ticket{Product: p, User: who.hash, Place: place, IssuedAt: a.now()})
	return &text, err
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

func (a *API) orderID(p product.ID, who person, place product.Place, openedUS int64) order.ID {
	return order.DeriveID(a.keys.Orders, p, who.hash, place, openedUS)
}

// want asks the books for a status. The question is a help, its loss none: whoever polls asks again.
func (a *API) want(ctx context.Context, w orderstatus.Wanted) {
	if err := a.statuses.Want(ctx, w); err != nil {
		a.logger.DebugContext(ctx, "status not asked for", "order_id", w.OrderID, "err", err)
	}
}

// send writes a JSON answer.
func send(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone; there is nobody left to tell
	return nil
}
