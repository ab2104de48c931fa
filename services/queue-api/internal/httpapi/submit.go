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

	"hanjul/pkg/telemetry"
	"hanjul/services/queue-api/internal/submit"
)

// bodyMax bounds the body of an order; it holds a number.
const bodyMax = 16 << 10

// keyMax bounds an Idempotency-Key.
const keyMax = 128

// submitOrder takes an order with a pass.
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
	pass, text, _, err := a.pass(r, who, p, true)
	if err != nil {
		return err
	}
	quantity, key, err := readBody(w, r, view.MaxQuantity)
	if err != nil {
		return aboutOrder(err, pass.OrderID)
	}
	answer, err := a.orders.Submit(r.Context(), submit.Request{
		Pass: pass, PassText: text, UserHash: who.hash, Quantity: quantity, IdempotencyKey: key,
		OrderTTL:    time.Duration(view.OrderTTLMS) * time.Millisecond,
		Traceparent: telemetry.ContinueTraceparent(r.Header.Get(telemetry.TraceparentHeader)).String(),
	})
	if err != nil {
		return aboutOrder(err, pass.OrderID)
	}
	w.Header().Set("Location", orderURL(pass.OrderID))
	status := http.StatusAccepted
	if answer.Judged() {
		status = http.StatusOK
	}
	return send(w, status, a.describeOrder(pass.OrderID, answer.Status, answer.Known))
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

// idempotencyKey reads the optional key.
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
