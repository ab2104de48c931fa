package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// What pages of other origins may send, and read beside the body. Preflights are remembered for two hours, the most that browsers take.
const (
	allowedMethods = "GET, POST, DELETE"
	allowedHeaders = "Content-Type, Hanjul-User, Hanjul-Ticket, Hanjul-Pass, Idempotency-Key, Last-Event-ID, Traceparent"
	exposedHeaders = "ETag, Location, Retry-After"
	preflightAge   = "7200"
)

var errOrigin = errors.New("the page's origin may not do this")

// Origins are the web origins whose pages may use the surface from a browser, beside pages of its own origin. The zero value is none. No
// cookie is read and none is allowed: who calls, and with what, is in headers. Safe for concurrent use.
type Origins struct {
	listed map[string]bool
	check  *http.CrossOriginProtection
}

// NewOrigins takes origins as browsers write them: scheme and host in lower case, the port unless it is the scheme's own, no path. An error
// names the first that is none.
func NewOrigins(origins []string) (Origins, error) {
	o := Origins{listed: map[string]bool{}, check: http.NewCrossOriginProtection()}
	for _, origin := range origins {
		web := strings.HasPrefix(origin, "https://") && !strings.HasSuffix(origin, ":443") ||
			strings.HasPrefix(origin, "http://") && !strings.HasSuffix(origin, ":80")
		if err := o.check.AddTrustedOrigin(origin); err != nil || !web || origin != strings.ToLower(origin) {
			return Origins{}, fmt.Errorf("expected origins as browsers write them, such as https://shop.example, found %q", origin)
		}
		o.listed[origin] = true
	}
	return o, nil
}

// across stands in front of the surface for what browsers do on behalf of pages. A change that a page of another origin asks for is refused
// before anything is looked at, and so are a socket and the question whether it may; programs that are no browsers name no origin and are let through. A page that
// may call is told so; one that may not cannot read the answer, whatever it is.
func (a *API) across(next http.Handler) http.Handler {
	refuse := a.serve(route{operation: "other", handle: func(http.ResponseWriter, *http.Request) error {
		return faulty(errOrigin, "Origin", "expected a page of the surface's own origin or of one that it is set up for")
	}})
	preflight := a.serve(route{operation: "preflight", handle: func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Access-Control-Allow-Methods", allowedMethods)
		w.Header().Set("Access-Control-Allow-Headers", allowedHeaders)
		w.Header().Set("Access-Control-Max-Age", preflightAge)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins, origin := a.cfg.Origins, r.Header.Get("Origin")
		if len(origins.listed) > 0 {
			w.Header().Set("Vary", "Origin")
		}
		if origins.listed[origin] {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Expose-Headers", exposedHeaders)
		}
		asks := r.Method == http.MethodOptions && origin != "" && r.Header.Get("Access-Control-Request-Method") != ""
		switch {
		case asks && origins.listed[origin]:
			preflight(w, r)
		case asks, origins.check.Check(changing(r)) != nil:
			refuse(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// changing is a call as the check is to see it: opening a socket is a GET that a page of any origin may send, and read what comes (F30).
func changing(r *http.Request) *http.Request {
	if r.Header.Get("Upgrade") == "" {
		return r
	}
	asked := r.WithContext(r.Context()) // a copy
	asked.Method = http.MethodPost
	return asked
}

// public lets pages of every origin read an answer that is the same for everybody, so that one copy in a cache serves all of them.
func public(w http.ResponseWriter) {
	w.Header().Del("Vary")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Expose-Headers", exposedHeaders)
}
