package httpapi

import (
	"errors"
	"net/http"

	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// checkPass tells a gateway whether to let a person through to the shop behind the line: 204, or 401 and why not. The product comes from the
// gateway's own settings, never from the person. What it says is what a verifier with the published keys would say, with three things more that only we
// know: passes of a line are revoked, a pass lasts longer than it says while its time stands still, and a queue that is off asks for none. A pass that was
// used opens the shop until its end, since its holder comes back to see what was bought. It changes nothing.
func (a *API) checkPass(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	p, err := product.ParseID(r.URL.Query().Get("product"))
	if err != nil {
		return faulty(errMalformed, "product", "expected the product as a parameter: 1-64 letters, digits and . _ -")
	}
	who, err := a.person(r)
	if err != nil {
		return err
	}
	view, err := a.views.get(r.Context(), p)
	if errors.Is(err, errUnknownProduct) {
		return err
	}
	known := err == nil // else the pass speaks for itself, as it does to everybody who has the keys
	if !known || view.QueueOn {
		epoch := int64(0)
		if known {
			epoch = view.PassEpoch
		}
		if err := a.opens(r, who, p, epoch); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// opens says why the call's pass opens no shop, nil where it does.
func (a *API) opens(r *http.Request, who person, p product.ID, epoch int64) error {
	text, err := only(r, headerPass, errPassInvalid)
	if err != nil {
		return err
	}
	got, err := a.passes.verify(text)
	placeless := errors.Is(err, pass.ErrPlaceless)
	switch {
	case err != nil && !placeless:
		return faulty(errPassInvalid, headerPass, "expected the pass of an admission")
	case got.User != who.id || got.Product != p:
		return faulty(errPassInvalid, headerPass, "expected this person's pass for this product")
	case got.Epoch < epoch:
		return faulty(errPassInvalid, headerPass, "expected a pass that was not revoked; poll for another one")
	case a.now().Before(got.ExpiresAt):
		return nil
	case placeless: // nothing but its own word keeps it alive
		return faulty(errPassInvalid, headerPass, "expected a pass that has not ended")
	}
	// Its own end is a hint; the lease decides, whose time stands still in an outage of ours.
	s, err := a.room.Status(r.Context(), p, who.hash, nil)
	if err != nil {
		return a.views.missing(r.Context(), p, err)
	}
	if s.State != waitingroom.Active || s.Place != got.Place {
		return faulty(errPassInvalid, headerPass, "expected a pass that has not ended")
	}
	return nil
}
