package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
)

// orderAnswer is the answer about one order (schema Order).
type orderAnswer struct {
	OrderID        order.ID      `json:"order_id"`
	OrderURL       string        `json:"order_url"`
	Product        product.ID    `json:"product"`
	Status         order.State   `json:"status"`
	Reason         *order.Reason `json:"reason"`
	Quantity       *int          `json:"quantity"`
	QuantityReason *string       `json:"quantity_reason"`
	Known          bool          `json:"known"`
	NextPollMS     *int64        `json:"next_poll_ms"`
	JudgedAt       *time.Time    `json:"judged_at"`
	JudgedAtReason string        `json:"judged_at_reason"`
}

func (a *API) describeOrder(id order.ID, s order.Status, known bool) orderAnswer {
	d := orderAnswer{
		OrderID: id, OrderURL: orderURL(id), Product: s.Product, Status: s.State, Known: known, JudgedAtReason: reasonNotOffered,
	}
	if s.Reason != "" {
		d.Reason = &s.Reason
	}
	if s.Quantity > 0 {
		d.Quantity = &s.Quantity
	} else {
		reason := reasonNotKnown
		d.QuantityReason = &reason
	}
	if s.Version < order.VersionVerdict {
		next := a.cfg.Cadence.near()
		d.NextPollMS = &next
	}
	return d
}

// readOrder tells the owner what became of an order. It looks at the status, then into the product's slot, and if nothing
// is there it answers pending for an id that the caller's pass or ticket belongs to, and asks the books (F3).
func (a *API) readOrder(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	who, err := a.person(r)
	if err != nil {
		return err
	}
	id, err := order.ParseID(chi.URLParam(r, "order"))
	if err != nil {
		return faulty(errMalformed, "order", "expected an order id, a UUID in lower case")
	}
	claims, err := a.claims(r, who)
	if err != nil {
		return err
	}
	status, found, err := a.statuses.Get(r.Context(), id)
	if err != nil {
		return stored(err)
	}
	if found && status.User != who.hash {
		return errOrderUnknown
	}
	if found && status.Version >= order.VersionVerdict {
		return send(w, http.StatusOK, a.describeOrder(id, status, true))
	}
	wanted := orderstatus.Wanted{Product: status.Product, User: who.hash, OrderID: id}
	if claim, err := a.claimed(r.Context(), who, id, claims); err != nil {
		return err
	} else if claim != nil {
		wanted.Product, wanted.DeadlineMS = claim.product, claim.deadlineMS
	} else if !found {
		return errOrderUnknown
	}
	// Not judged as far as the status says. While the intent is there that is so; without one the verdict is on its way or was
	// lost, or nobody can account for the order.
	bound, err := a.room.HasIntent(r.Context(), wanted.Product, id)
	if err != nil {
		return stored(err)
	}
	if !bound {
		a.want(r.Context(), wanted)
	}
	if !found {
		status = order.Status{State: order.StatePending, Product: wanted.Product, User: who.hash}
	}
	return send(w, http.StatusOK, a.describeOrder(id, status, found || bound))
}

// claim is a proof that an order id is of the caller's place.
type claim struct {
	product    product.ID
	place      product.Place
	id         order.ID // of the pass; empty with a ticket
	endsMS     int64    // of the pass
	deadlineMS int64    // when nobody can send the order any more; 0 for not known, which asks for a look-up only
}

// claims reads pass and ticket, the pass first since it knows an end. They must be the caller's whether they help or not (F28).
func (a *API) claims(r *http.Request, who person) ([]claim, error) {
	var all []claim
	p, _, given, err := a.pass(r, who, "", false)
	if err != nil {
		return nil, err
	}
	if given {
		all = append(all, claim{product: p.Product, place: p.Place, id: p.OrderID, endsMS: p.ExpiresAt.UnixMilli()})
	}
	t, err := a.ticket(r, who, "", false)
	if err != nil {
		return nil, err
	}
	if t != nil {
		all = append(all, claim{product: t.Product, place: t.Place})
	}
	return all, nil
}

// claimed returns the claim that the id belongs to, or nil. Only the product knows how long its orders live and, for a
// ticket, when it opened.
func (a *API) claimed(ctx context.Context, who person, id order.ID, claims []claim) (*claim, error) {
	for _, c := range claims {
		if c.id != "" && c.id != id {
			continue
		}
		view, err := a.views.get(ctx, c.product)
		if err != nil {
			return nil, err
		}
		if c.id == id {
			c.deadlineMS = c.endsMS + view.OrderTTLMS
			return &c, nil
		}
		if a.orderID(c.product, who, c.place, view.OpenedUS) == id {
			return &c, nil
		}
	}
	return nil, nil
}
