package httpapi

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

// The headers that say who calls and with what.
const (
	headerUser   = "Hanjul-User"
	headerTicket = "Hanjul-Ticket"
	headerPass   = "Hanjul-Pass"
	headerKey    = "Idempotency-Key"
)

// person is who calls: the id goes into passes and commands, the hash to Redis.
type person struct {
	id   product.UserID
	hash product.UserHash
}

// person reads the local identity, a percent-encoded header. It is accepted only where the deployment chose so; there is no
// other identity yet.
func (a *API) person(r *http.Request) (person, error) {
	text, err := only(r, headerUser, errIdentity)
	if err != nil {
		return person{}, err
	}
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return person{}, faulty(errIdentity, headerUser, "expected a percent-encoded user id")
	}
	id, err := product.ParseUserID(decoded)
	if err != nil {
		return person{}, faulty(errIdentity, headerUser, "expected 1-256 bytes of UTF-8 without control characters")
	}
	return person{id, product.HashUser(a.keys.Users, id)}, nil
}

// product reads the path's product.
func pathProduct(r *http.Request) (product.ID, error) {
	p, err := product.ParseID(chi.URLParam(r, "product"))
	if err != nil {
		return "", faulty(errMalformed, "product", "expected 1-64 letters, digits and . _ -")
	}
	return p, nil
}

// ticket reads the ticket, which must be of this person and, unless p is empty, of this product. It returns nil without one;
// an expired one counts as none, since the person's place is known without it, unless it is required.
func (a *API) ticket(r *http.Request, who person, p product.ID, required bool) (*ticket.Ticket, error) {
	if len(r.Header.Values(headerTicket)) == 0 && !required {
		return nil, nil
	}
	text, err := only(r, headerTicket, errTicketInvalid)
	if err != nil {
		return nil, err
	}
	t, err := ticket.Verify(a.keys.Tickets, text, a.now())
	if errors.Is(err, ticket.ErrExpired) && !required {
		return nil, nil
	}
	if err != nil {
		return nil, faulty(errTicketInvalid, headerTicket, "expected a ticket of this service, not older than a day")
	}
	if t.User != who.hash || p != "" && t.Product != p {
		return nil, faulty(errTicketForeign, headerTicket, "expected this person's ticket for this product")
	}
	return &t, nil
}

// pass reads the pass, which must be of this person and, unless p is empty, of this product. It returns nil without one; one of no place
// counts as none, unless it is required.
func (a *API) pass(r *http.Request, who person, p product.ID, required bool) (pass.Pass, string, bool, error) {
	if len(r.Header.Values(headerPass)) == 0 && !required {
		return pass.Pass{}, "", false, nil
	}
	text, err := only(r, headerPass, errPassInvalid)
	if err != nil {
		return pass.Pass{}, "", false, err
	}
	got, err := a.passes.verify(text)
	placeless := errors.Is(err, pass.ErrPlaceless)
	if err != nil && !placeless {
		return pass.Pass{}, "", false, faulty(errPassInvalid, headerPass, "expected the pass of an admission")
	}
	if got.User != who.id || p != "" && got.Product != p {
		return pass.Pass{}, "", false, faulty(errPassForeign, headerPass, "expected this person's pass for this product")
	}
	if placeless && required {
		return pass.Pass{}, "", false, faulty(errPassPlaceless, headerPass, "expected the pass of an admission")
	}
	if placeless { // no order is of it
		return pass.Pass{}, "", false, nil
	}
	return got, text, true, nil
}

// only returns the value of a header that must be there once.
func only(r *http.Request, header string, err error) (string, error) {
	values := r.Header.Values(header)
	if len(values) != 1 || values[0] == "" {
		return "", faulty(err, header, "expected the header once, with a value")
	}
	return values[0], nil
}
