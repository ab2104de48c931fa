package httpapi

import (
	"net/http"
	"net/url"

	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
	"hanjul/pkg/waitingroom"
)

// offerStream gives those who are near, or hold a pass, the address of their stream; the others the reason why not. The call has the ticket
// of the answer.
func (a *API) offerStream(d *standing, c *call, s waitingroom.Standing) {
	reason := reasonNotWaiting
	switch s.State {
	case waitingroom.Waiting, waitingroom.Away, waitingroom.Active:
		switch {
		case a.cfg.StreamNearest == 0:
			reason = reasonOff
		case s.State != waitingroom.Active && s.Position > a.cfg.StreamNearest:
			reason = reasonTooFar
		case a.streams.Full():
			reason = reasonFull
		default:
			address := "/v1/products/" + string(c.product) + "/queue/stream?token=" + a.tokens.seal(streamToken{
				user: c.who.id, ticket: *c.ticket, expires: streamTokenExpiry(a.now()),
			})
			d.StreamURL = &address
			return
		}
	default:
	}
	d.StreamURLReason = &reason
}

// tokenCaller reads and checks the token of a stream, which stands for the person who was given it.
func (a *API) tokenCaller(r *http.Request) (*call, error) {
	p, err := pathProduct(r)
	if err != nil {
		return nil, err
	}
	// Parsed here, since an error of the parser must not repeat a piece of the token.
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query["token"]) != 1 {
		return nil, faulty(errStreamTokenInvalid, "token", "expected the token of a stream_url, once")
	}
	token, err := a.tokens.open(query.Get("token"), a.now())
	if err != nil {
		return nil, faulty(err, "token", "expected the token of a stream_url, not older than a minute; poll for a new one")
	}
	if token.ticket.Product != p {
		return nil, faulty(errStreamTokenForeign, "token", "expected the token of a stream_url of this product")
	}
	hash := product.HashUser(a.keys.Users, token.user)
	token.ticket.User = hash
	text, err := ticket.Sign(a.keys.Tickets.Current(), token.ticket)
	if err != nil {
		return nil, err
	}
	return &call{who: person{token.user, hash}, product: token.ticket.Product, ticket: &token.ticket, text: text}, nil
}
