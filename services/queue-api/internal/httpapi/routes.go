package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
)

// handler is a verb: it writes an answer and returns nil, or returns an error and has written nothing.
type handler func(w http.ResponseWriter, r *http.Request) error

// route is one call of the surface. Operation is its operationId in docs/openapi.yaml and its label in the metrics.
type route struct {
	method, pattern, operation string
	handle                     handler
	// streams says that its answers have no end of their own: neither limit nor histogram of durations is for them.
	streams bool
}

// routes is the whole surface.
func (a *API) routes() []route {
	return []route{
		{http.MethodGet, "/.well-known/jwks.json", "readKeys", a.readKeys, false},
		{http.MethodGet, "/v1/pass", "checkPass", a.checkPass, false},
		{http.MethodGet, "/v1/products/{product}", "readProduct", a.readProduct, false},
		{http.MethodPost, "/v1/products/{product}/queue", "join", a.join, false},
		{http.MethodGet, "/v1/products/{product}/queue", "status", a.status, false},
		{http.MethodGet, "/v1/products/{product}/queue/stream", "watchStanding", a.watchStanding, true},
		{http.MethodDelete, "/v1/products/{product}/queue", "leave", a.leave, false},
		{http.MethodPost, "/v1/products/{product}/queue/leave", "leaveByPost", a.leave, false},
		{http.MethodPost, "/v1/products/{product}/orders", "submitOrder", a.submitOrder, false},
		{http.MethodGet, "/v1/orders/{order}", "readOrder", a.readOrder, false},
		{http.MethodGet, "/v1/orders/{order}/events", "watchOrder", a.watchOrder, true},
	}
}

// Handler is the surface.
func (a *API) Handler() http.Handler {
	mux := chi.NewRouter()
	for _, r := range a.routes() {
		mux.Method(r.method, r.pattern, a.serve(r))
	}
	mux.NotFound(a.serve(other(errNotFound)))
	mux.MethodNotAllowed(a.serve(other(errMethod)))
	return a.across(mux)
}

// other is what is no call of the surface.
func other(err error) route {
	return route{operation: "other", handle: func(http.ResponseWriter, *http.Request) error { return err }}
}

// serve runs a verb within its time, turns its error or its panic into a problem, and counts and times the call.
func (a *API) serve(call route) http.HandlerFunc {
	counts := a.metrics.of(call.operation)
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a.calls.Add(1)
		defer a.calls.Add(-1)
		if !call.streams {
			ctx := limited(r.Context(), a.cfg.RequestTimeout)
			defer ctx.end()
			r = r.WithContext(ctx)
		}
		answer := &recorder{ResponseWriter: w}
		err := guard(call.handle, answer, r)
		if err != nil {
			if answer.status == 0 {
				a.fail(answer, r, err)
			}
			if errors.Is(err, errPanic) {
				a.logger.ErrorContext(r.Context(), "handler panicked", "operation", call.operation, "err", err)
			}
		}
		counts.served(answer.status)
		if !call.streams {
			counts.timed(time.Since(began))
		}
	}
}

var errPanic = errors.New("panic")

// guard turns a panic into an error, so that one request's fault is not the process's.
func guard(handle handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: %v: %s", errPanic, reason, debug.Stack())
		}
	}()
	return handle(w, r)
}

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the first status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes that an answer began.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
