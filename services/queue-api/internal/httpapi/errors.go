package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/problem"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/streams"
	"hanjul/services/queue-api/internal/submit"
)

// What the handlers themselves find wrong.
var (
	errMalformed      = errors.New("the request is malformed")
	errIdentity       = errors.New("nobody is named")
	errTicketInvalid  = errors.New("the ticket is not valid")
	errTicketForeign  = errors.New("the ticket is another person's or another product's")
	errPassInvalid    = errors.New("the pass is not valid")
	errPassForeign    = errors.New("the pass is another person's or another product's")
	errPassPlaceless  = errors.New("the pass is of no place in the line")
	errNotFound       = errors.New("no such path")
	errMethod         = errors.New("the path has no such method")
	errUnknownProduct = errors.New("no such product")
	errOrderUnknown   = errors.New("no such order of this person")
	errTooLarge       = errors.New("the body is too large")
	errContentType    = errors.New("the body's type is not understood")
	errField          = errors.New("a field is out of its form")
	errNoKey          = errors.New("an order without a pass needs a key")
	errTooFast        = errors.New("polled faster than asked")
	errNotReady       = errors.New("the product is not ready")
	errUnavailable    = errors.New("a store is away")
)

// answer is what an error becomes. Statuses of 429 and 503 say when to come again.
type answer struct {
	err        error
	status     int
	typ, title string
	retry      time.Duration
}

// answers is the only map from errors to statuses. The first that fits counts: outcome-unknown stands before the store's fault
// that may have caused it.
func answers() []answer {
	const soon, later = time.Second, 5 * time.Second
	return []answer{
		{errMalformed, 400, "malformed-request", "The request is malformed", 0},
		{errNoKey, 400, "idempotency-key-required", "Idempotency-Key is required", 0},
		{errIdentity, 401, "identity-invalid", "The call names no person", 0},
		{errTicketInvalid, 401, "ticket-invalid", "The ticket is not valid", 0},
		{errTicketForeign, 403, "ticket-foreign", "The ticket belongs to another person or product", 0},
		{errPassInvalid, 401, "pass-invalid", "The pass is not valid", 0},
		{submit.ErrNeedsPass, 401, "pass-invalid", "The pass is not valid", 0},
		{errPassForeign, 403, "pass-foreign", "The pass belongs to another person or product", 0},
		{errPassPlaceless, 403, "pass-placeless", "The pass was handed out without the line and buys nothing here; join the line", 0},
		{submit.ErrLapsed, 403, "lapsed", "The pass has lapsed", 0},
		{submit.ErrRevoked, 403, "revoked", "The admission was revoked", 0},
		{waitingroom.ErrBanned, 403, "revoked", "The admission was revoked", 0},
		{errOrigin, 403, "origin-refused", "Pages of this origin may not do this", 0},
		{errStreamTokenInvalid, 401, "stream-token-invalid", "The token of the stream is not valid", 0},
		{errStreamTokenExpired, 401, "stream-token-expired", "The token of the stream has expired", 0},
		{errStreamTokenForeign, 403, "stream-token-foreign", "The token is for another product's stream", 0},
		{errNotFound, 404, "not-found", "There is no such path", 0},
		{errMethod, 405, "method-not-allowed", "The path has no such method", 0},
		{errUnknownProduct, 404, "unknown-product", "There is no such product", 0},
		{errOrderUnknown, 404, "order-unknown", "There is no such order", 0},
		{waitingroom.ErrNotOpen, 409, "not-open", "The product is not open yet", 0},
		{waitingroom.ErrClosed, 409, "closed", "The product is closed", 0},
		{waitingroom.ErrQueueOff, 409, "queue-off", "The queue is off; orders need no pass", 0},
		{submit.ErrLeft, 409, "left", "The place was given up", 0},
		{submit.ErrSpent, 409, "pass-spent", "The pass has bought another order", 0},
		{submit.ErrKeySpent, 409, "key-spent", "The Idempotency-Key has bought another order", 0},
		{submit.ErrSoldOut, 409, "sold-out", "Not enough units are left", 0},
		{errTooLarge, 413, "body-too-large", "The body is too large", 0},
		{errContentType, 415, "unsupported-content-type", "The body must be application/json", 0},
		{errField, 422, "invalid-field", "A field is out of its form", 0},
		{errTooFast, 429, "too-many-polls", "You ask more often than you were asked to; your place is kept", soon},
		{submit.ErrPending, 429, "order-pending", "An order of yours has no verdict yet; ask again when it has", soon},
		{submit.ErrOutcomeUnknown, 503, "outcome-unknown", "The order may have been taken; ask again", soon},
		{waitingroom.ErrFull, 503, "line-full", "The line is full", later},
		{submit.ErrHalted, 503, "orders-halted", "Orders are halted; a pass is kept, and its time stands still", later},
		{submit.ErrBusy, 503, "busy", "Too many orders are on their way", soon},
		{streams.ErrFull, 503, "streams-full", "Too many streams are open", later},
		{streams.ErrStopping, 503, "unavailable", "The service cannot answer now", soon},
		{submit.ErrNotReady, 503, "not-ready", "The product is not ready", soon},
		{errNotReady, 503, "not-ready", "The product is not ready", soon},
		{waitingroom.ErrPlacesEnded, 503, "not-ready", "The product is not ready", later},
		{waitingroom.ErrNotReady, 503, "not-ready", "The product is not ready", soon},
		{errUnavailable, 503, "unavailable", "The service cannot answer now", soon},
		{nil, 500, "internal", "The service failed", 0},
	}
}

// fault is an error with what the caller should know of it.
type fault struct {
	err     error
	field   string        // the faulty field: a body member, a header or a path part
	detail  string        // what was expected
	orderID order.ID      // the order that the answer links to
	retry   time.Duration // when to come again, where the error itself does not say it
}

func (f *fault) Error() string {
	text := f.err.Error()
	if f.field != "" {
		text = f.field + ": " + text
	}
	if f.detail != "" {
		text += ": " + f.detail
	}
	return text
}

func (f *fault) Unwrap() error { return f.err }

// faulty names the field of an error and what was expected.
func faulty(err error, field, detail string) error {
	return &fault{err: err, field: field, detail: detail}
}

// aboutOrder links an error to the order it is about; nil stays nil.
func aboutOrder(err error, id order.ID) error {
	if err == nil {
		return nil
	}
	return &fault{err: err, orderID: id}
}

// fail writes the problem of an error.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	found := find(err)
	away := redisconn.Away(err)
	p := problem.Problem{Status: found.status, Type: found.typ, Title: found.title, RetryAfter: found.retry, Members: map[string]any{}}
	for f := (*fault)(nil); errors.As(err, &f); err = f.err {
		if f.field != "" {
			p.Fields = append(p.Fields, problem.Field{Name: f.field, Detail: f.detail})
			p.Members["field"] = f.field
		}
		if f.retry > 0 {
			p.RetryAfter = f.retry
		}
		if f.detail != "" {
			p.Detail = f.detail
		}
		if f.orderID != "" {
			p.Members["order_id"], p.Members["order_url"] = f.orderID, orderURL(f.orderID)
			w.Header().Set("Location", orderURL(f.orderID))
		}
	}
	if away != nil && found.status == http.StatusServiceUnavailable {
		p.RetryAfter = away.RetryAfter
	}
	level := slog.LevelDebug
	if found.status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	a.logger.Log(r.Context(), level, "refused", "type", found.typ, "method", r.Method, "err", err)
	problem.Write(w, p)
}

func find(err error) answer {
	all := answers()
	away := redisconn.Away(err) != nil // after everything that is said in other words
	for _, known := range all {
		if known.err != nil && (errors.Is(err, known.err) || away && known.err == errUnavailable) { //nolint:errorlint // an entry of the map itself
			return known
		}
	}
	return all[len(all)-1]
}

// stored classes an error of a store: an outcome stays what it is, anything else means that the store is away.
func stored(err error) error {
	if err == nil || find(err).err != nil {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return errors.Join(errUnavailable, context.Canceled) // the caller has gone; nobody reads it
	}
	return errors.Join(errUnavailable, err)
}

func orderURL(id order.ID) string { return "/v1/orders/" + string(id) }
