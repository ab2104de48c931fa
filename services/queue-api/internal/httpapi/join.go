package httpapi

import (
	"net/http"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// joined is the answer of a join (schema Joined).
type joined struct {
	standing
	AlreadyInLine bool `json:"already_in_line"`
}

// join puts a person at the end of the line, or finds the place they have.
func (a *API) join(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	who, p, claim, err := a.caller(r)
	if err != nil {
		return err
	}
	s, err := a.room.Join(r.Context(), p, who.hash, claim)
	if err != nil {
		return a.views.missing(r.Context(), p, err)
	}
	d, err := a.describe(r.Context(), who, p, s, claim)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if s.Created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/products/"+string(p)+"/queue")
	}
	return send(w, status, joined{d, !s.Created})
}

// caller reads what every call about a line has: the person, the product, and the place that a ticket claims.
func (a *API) caller(r *http.Request) (person, product.ID, *waitingroom.TicketClaim, error) {
	who, err := a.person(r)
	if err != nil {
		return who, "", nil, err
	}
	p, err := pathProduct(r)
	if err != nil {
		return who, "", nil, err
	}
	t, err := a.ticket(r, who, p, false)
	if err != nil || t == nil {
		return who, p, nil, err
	}
	view, err := a.views.get(r.Context(), p)
	if err != nil {
		return who, p, nil, err
	}
	if view.OpenedUS == 0 {
		return who, p, nil, nil // never opened: nobody has a place to claim
	}
	return who, p, &waitingroom.TicketClaim{Place: t.Place, OrderID: a.orderID(p, who, t.Place, view.OpenedUS)}, nil
}
