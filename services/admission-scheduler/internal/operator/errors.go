package operator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/outbox"
	"hanjul/pkg/problem"
)

var (
	errMalformed = errors.New("malformed body")
	errMediaType = errors.New("expected Content-Type: application/json")
	errTooLarge  = errors.New("the body is larger than 16 KiB")
	errNoToken   = errors.New("expected Authorization: Bearer with an operator's token")
	errNoKey     = errors.New("expected the header Idempotency-Key: 1-128 printable ASCII characters, new for each change")
	errNotFound  = errors.New("no such path")
	errMethod    = errors.New("the path has no such method")
)

// retryAfter is what is said when a store did not answer.
const retryAfter = 2 * time.Second

// write answers with the problem that stands for the error. This is the only map from errors to answers.
func (d *Desk) write(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.Problem{Detail: err.Error()}
	var fields faults
	switch {
	case errors.As(err, &fields):
		p.Status, p.Type, p.Title, p.Fields = http.StatusUnprocessableEntity, "invalid-field", "A field is not as expected", fields
		p.Members = map[string]any{"field": fields[0].Name}
	case errors.Is(err, errNoToken):
		w.Header().Set("WWW-Authenticate", `Bearer realm="hanjul operators"`)
		p.Status, p.Type, p.Title = http.StatusUnauthorized, "token-invalid", "No operator's token"
	case errors.Is(err, errNoKey):
		p.Status, p.Type, p.Title = http.StatusBadRequest, "idempotency-key-required", "Idempotency-Key is required"
		p.Fields = []problem.Field{{Name: "Idempotency-Key", Detail: "expected 1-128 printable ASCII characters"}}
		p.Members = map[string]any{"field": "Idempotency-Key"}
	case errors.Is(err, errMalformed):
		p.Status, p.Type, p.Title = http.StatusBadRequest, "malformed-request", "The body cannot be read"
	case errors.Is(err, errMediaType):
		p.Status, p.Type, p.Title = http.StatusUnsupportedMediaType, "unsupported-content-type", "The body is of another type"
	case errors.Is(err, errTooLarge):
		p.Status, p.Type, p.Title = http.StatusRequestEntityTooLarge, "body-too-large", "The body is too large"
	case errors.Is(err, errNotFound):
		p.Status, p.Type, p.Title = http.StatusNotFound, "not-found", "No such path"
	case errors.Is(err, errMethod):
		p.Status, p.Type, p.Title = http.StatusMethodNotAllowed, "method-not-allowed", "No such method"
	case errors.Is(err, ledger.ErrUnknownProduct):
		p.Status, p.Type, p.Title = http.StatusNotFound, "unknown-product", "No such product"
	case errors.Is(err, ledger.ErrUnknownOrder):
		p.Status, p.Type, p.Title = http.StatusNotFound, "order-unknown", "No such order"
	case errors.Is(err, outbox.ErrNoReplay):
		p.Status, p.Type, p.Title = http.StatusNotFound, "replay-unknown", "No such replay"
	case errors.Is(err, outbox.ErrNothing):
		p.Status, p.Type, p.Title = http.StatusConflict, "no-events", "Nothing to publish again"
	case errors.Is(err, ledger.ErrInvalid):
		p.Status, p.Type, p.Title = http.StatusUnprocessableEntity, "invalid-field", "A field is not as expected"
	case errors.Is(err, ledger.ErrRequestReused), errors.Is(err, outbox.ErrRequestReused):
		p.Status, p.Type, p.Title = http.StatusConflict, "request-reused", "The Idempotency-Key belongs to another change"
		p.Fields = []problem.Field{{Name: "Idempotency-Key", Detail: "was used for another change; take a new one"}}
		p.Members = map[string]any{"field": "Idempotency-Key"}
	case errors.Is(err, ledger.ErrStockExists):
		p.Status, p.Type, p.Title = http.StatusConflict, "product-exists", "The product exists"
		p.Fields = []problem.Field{{Name: "stock", Detail: "given only when a product is made; change it by restock"}}
		p.Members = map[string]any{"field": "stock"}
	case errors.Is(err, ledger.ErrVersion):
		p.Status, p.Type, p.Title = http.StatusConflict, "version-conflict", "The settings were changed meanwhile"
		p.Fields = []problem.Field{{Name: "If-Match", Detail: "is not the product's settings_v any more; read the product, and decide again"}}
		p.Members = map[string]any{"field": "If-Match"}
	case errors.Is(err, ledger.ErrClosed):
		p.Status, p.Type, p.Title = http.StatusConflict, "closed", "The product is closed for good"
	case errors.Is(err, ledger.ErrState), errors.Is(err, ledger.ErrOrderState), errors.Is(err, outbox.ErrDone), errors.Is(err, outbox.ErrCancelled):
		p.Status, p.Type, p.Title = http.StatusConflict, "state-conflict", "Not possible in this state"
	default:
		d.unexpected(r.Context(), err)
		p.Status, p.Type, p.Title = http.StatusServiceUnavailable, "unavailable", "The books do not answer"
		p.Detail, p.RetryAfter = "the same request may be sent again with the same Idempotency-Key; it is done at most once", retryAfter
	}
	problem.Write(w, p)
}

// unexpected logs what somebody must look at. A caller that went away is nobody's fault.
func (d *Desk) unexpected(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	d.logger.LogAttrs(ctx, slog.LevelError, "operator call failed", slog.Any("err", err))
}
