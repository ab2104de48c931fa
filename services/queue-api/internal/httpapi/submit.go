package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/telemetry"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/submit"
)

// bodyMax bounds the body of an order; it holds a number.
const bodyMax = 16 << 10

// keyMax bounds an Idempotency-Key.
const keyMax = 128

// submitOrder takes an order with a pass, or without one while the queue is off.
func (a *API) submitOrder(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	who, err := a.person(r)
	if err != nil {
		return err
	}
	p, err := pathProduct(r)
	if err != nil {
		return err
	}
	view, err := a.views.get(r.Context(), p)
	if err != nil {
		return err
	}
	request, err := a.ordered(r, who, p, view)
	if err != nil {
		return err
	}
	if request.Quantity, request.IdempotencyKey, err = readBody(w, r, view.MaxQuantity); err != nil {
		return aboutOrder(err, request.OrderID)
	}
	answer, err := a.orders.Submit(r.Context(), request)
	if pending := (*submit.PendingError)(nil); errors.As(err, &pending) {
		return aboutOrder(err, pending.OrderID)
	}
	if errors.Is(err, submit.ErrNeedsPass) {
		err = faulty(err, headerPass, "expected the pass of an admission: the queue is on")
	}
	if err != nil {
		return aboutOrder(err, request.OrderID)
	}
	w.Header().Set("Location", orderURL(request.OrderID))
	status := http.StatusAccepted
	if answer.Judged() {
		status = http.StatusOK
	}
	return send(w, status, a.describeOrder(request.OrderID, answer.Status, answer.Known))
}

// ordered is the order that a call is about: a pass that is shown is always used, whatever the queue is (F17). Without one the user's key
// stands for it; whether the queue is off is the line's to say, not that of a state which may be a second old. That only chooses what a
// call is told to bring that has neither.
func (a *API) ordered(r *http.Request, who person, p product.ID, view waitingroom.ProductView) (submit.Request, error) {
	request := submit.Request{
		Product: p, User: who.id, UserHash: who.hash,
		OrderTTL:    time.Duration(view.OrderTTLMS) * time.Millisecond,
		Traceparent: telemetry.ContinueTraceparent(r.Header.Get(telemetry.TraceparentHeader)).String(),
	}
	key, err := idempotencyKey(r)
	if shown := len(r.Header.Values(headerPass)) > 0; shown || key == "" && err == nil && view.QueueOn {
		pass, text, _, err := a.pass(r, who, p, true)
		request.OrderID, request.Pass, request.PassText = pass.OrderID, &pass, text
		return request, err
	}
	switch {
	case err != nil:
		return request, err
	case key == "":
		return request, faulty(errNoKey, headerKey, "expected 1-128 printable ASCII characters, the same with every try of one order: without a pass they stand for it")
	}
	request.OrderID = order.DeriveDirectID(a.keys.Orders, p, who.hash, key)
	return request, nil
}

// readBody reads what is ordered: the quantity in the body and the key in the header. Members it does not know are ignored.
func readBody(w http.ResponseWriter, r *http.Request, most int) (quantity int, key string, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return 0, "", faulty(errContentType, "Content-Type", "expected application/json")
	}
	if key, err = idempotencyKey(r); err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return 0, "", faulty(errTooLarge, "body", fmt.Sprintf("expected at most %d bytes", bodyMax))
	}
	if err != nil {
		return 0, "", faulty(errMalformed, "body", "expected a whole body")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return 0, "", faulty(errMalformed, "body", "expected a JSON object")
	}
	quantity, err = strconv.Atoi(string(members["quantity"]))
	if err != nil || quantity < 1 || quantity > most {
		return 0, "", faulty(errField, "quantity", fmt.Sprintf("expected a whole number from 1 to %d", most))
	}
	return quantity, key, nil
}

// idempotencyKey reads the key, "" without one.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values(headerKey)
	if len(values) == 0 {
		return "", nil
	}
	wrong := len(values) > 1 || len(values[0]) < 1 || len(values[0]) > keyMax
	for i := 0; !wrong && i < len(values[0]); i++ {
		wrong = values[0][i] < ' ' || values[0][i] > '~'
	}
	if wrong {
		return "", faulty(errField, headerKey, "expected 1-128 printable ASCII characters, once")
	}
	return values[0], nil
}
