package httpapi

import "net/http"

// leave gives up the place of the ticket, and the unused pass with it. It carries the place, so that a call which was held
// up on its way cannot end a later place (F25).
func (a *API) leave(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	who, err := a.person(r)
	if err != nil {
		return err
	}
	p, err := pathProduct(r)
	if err != nil {
		return err
	}
	t, err := a.ticket(r, who, p, true)
	if err != nil {
		return err
	}
	s, err := a.room.Leave(r.Context(), p, who.hash, t.Place)
	if err != nil {
		return a.views.missing(r.Context(), p, err)
	}
	d, err := a.describe(r.Context(), &call{who: who, product: p, ticket: t, text: r.Header.Get(headerTicket)}, s, a.fresh(p))
	if err != nil {
		return err
	}
	return send(w, http.StatusOK, &d)
}
