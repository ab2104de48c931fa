package httpapi

import "net/http"

// status tells a person where they stand, and hands out the pass once admitted.
func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	who, p, claim, err := a.caller(r)
	if err != nil {
		return err
	}
	s, err := a.room.Status(r.Context(), p, who.hash, claim)
	if err != nil {
		return a.views.missing(r.Context(), p, err)
	}
	d, err := a.describe(r.Context(), who, p, s, claim)
	if err != nil {
		return err
	}
	a.metrics.polled(d.Status)
	return send(w, http.StatusOK, d)
}
