package httpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyWithin bounds all checks of one call of /readyz; probes give up after a few seconds themselves.
const readyWithin = 2 * time.Second

// Check is one condition of being ready, such as a store that answers.
type Check struct {
	// Name stands in the answer of /readyz.
	Name string
	// Check returns why the process is not ready, or nil. It must return when its context ends, and be safe for
	// concurrent use. Its text is shown to whoever reaches the admin port.
	Check func(ctx context.Context) error
}

// NewAdmin prepares the admin server: /healthz, /readyz, /metrics and /debug/pprof/. It belongs on a port that only
// the deployment reaches, and last in the list of a process's components, so that it is there before and after the others.
func NewAdmin(logger *slog.Logger, addr string, gatherer prometheus.Gatherer, checks ...Check) *Server {
	return New(logger, Config{
		Addr:    addr,
		Handler: AdminHandler(gatherer, checks...),
		// A CPU profile or a trace is an answer that takes as long as it was asked to.
		WriteTimeout: 2 * time.Minute,
		Drain:        time.Second,
	})
}

// AdminHandler answers the four paths of the admin port.
//
// /healthz says that the process runs and answers, nothing else: a store that is away must not have it restarted.
// /readyz asks every check and answers 200, or 503 naming those that failed.
func AdminHandler(gatherer prometheus.Gatherer, checks ...Check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readyz(w, r, checks) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// readiness is the answer of /readyz; a check that holds reads "ok".
type readiness struct {
	Ready  bool              `json:"ready"`
	Checks map[string]string `json:"checks"`
}

func readyz(w http.ResponseWriter, r *http.Request, checks []Check) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	errs := make([]error, len(checks))
	var wg sync.WaitGroup
	for i, check := range checks {
		wg.Go(func() { errs[i] = check.Check(ctx) })
	}
	wg.Wait()

	answer, status := readiness{Ready: true, Checks: make(map[string]string, len(checks))}, http.StatusOK
	for i, check := range checks {
		answer.Checks[check.Name] = "ok"
		if errs[i] != nil {
			answer.Ready, status = false, http.StatusServiceUnavailable
			answer.Checks[check.Name] = errs[i].Error()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}
