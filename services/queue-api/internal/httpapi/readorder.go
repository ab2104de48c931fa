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

// readOrder tells the owner what became of an order.
func (a *API) readOrder(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	q, err := a.asked(r)
	if err != nil {
		return err
	}
	found, err := a.look(r.Context(), q)
	if err != nil {
		return err
	}
	return send(w, http.StatusOK, a.describeOrder(q.id, found.status, found.known))
}

// asked is a question about an order: who asks, and with what.
type asked struct {
	who    person
	id     order.ID
	claims []claim
}

func (a *API) asked(r *http.Request) (asked, error) {
	who, err := a.person(r)
	if err != nil {
		return asked{}, err
	}
	id, err := order.ParseID(chi.URLParam(r, "order"))
	if err != nil {
		return asked{}, faulty(errMalformed, "order", "expected an order id, a UUID in lower case")
	}
	claims, err := a.claims(r, who)
	return asked{who, id, claims}, err
}

// look is what one look found.
type look struct {
	status order.Status
	known  bool // by Redis; else the status is a guess
}

// look looks at the status, then into the product's slot, and if nothing is there it answers pending for an id that the caller's
// pass or ticket belongs to, and asks the books (F3).
func (a *API) look(ctx context.Context, q asked) (look, error) {
	status, found, err := a.statuses.Get(ctx, q.id)
	if err != nil {
		return look{}, stored(err)
	}
	if found && status.User != q.who.hash {
		return look{}, errOrderUnknown
	}
	if found && status.Version >= order.VersionVerdict {
		return look{status, true}, nil
	}
	wanted := orderstatus.Wanted{Product: status.Product, User: q.who.hash, OrderID: q.id}
	if claim, err := a.claimed(ctx, q.who, q.id, q.claims); err != nil {
		return look{}, err
	} else if claim != nil {
		wanted.Product, wanted.DeadlineMS = claim.product, claim.deadlineMS
	} else if !found {
		return look{}, errOrderUnknown
	}
	// Not judged as far as the status says. While the intent is there that is so; without one the verdict is on its way or was
	// lost, or nobody can account for the order.
	bound, err := a.room.HasIntent(ctx, wanted.Product, q.id)
	if err != nil {
		return look{}, stored(err)
	}
	if !bound {
		a.want(ctx, wanted)
	}
	if !found {
		status = order.Status{State: order.StatePending, Product: wanted.Product, User: q.who.hash}
	}
	return look{status, found || bound}, nil
}

// claim is a proof that an order id is of the caller's place, or of the caller's key.
type claim struct {
	product    product.ID
	place      product.Place
	id         order.ID // of the pass; empty with a ticket
	endsMS     int64    // of the pass
	deadlineMS int64    // when nobody can send the order any more; 0 for not known, which asks for a look-up only
	direct     bool     // of an Idempotency-Key, which has neither place nor end
}

// claims reads pass and ticket, the pass first since it knows an end, and the key of an order without a pass, whose product the query
// names. They must be the caller's whether they help or not (F28).
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
	key, err := idempotencyKey(r)
	if err != nil || key == "" || !r.URL.Query().Has("product") {
		return all, err
	}
	of, err := product.ParseID(r.URL.Query().Get("product"))
	if err != nil {
		return nil, faulty(errMalformed, "product", "expected 1-64 letters, digits and . _ -")
	}
	return append(all, claim{product: of, id: order.DeriveDirectID(a.keys.Orders, of, who.hash, key), direct: true}), nil
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
		if c.direct {
			return &c, nil
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
