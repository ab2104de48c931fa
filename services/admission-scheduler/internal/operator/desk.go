// Package operator is the operators' desk over HTTP: who may call, what a call asks for, and which answer stands for which
// outcome. It owns the tokens, the routes and the signing of the adjust and cancel commands that changes leave as. The ledger makes each
// change, its row in the audit trail and its outbox row in one transaction; the admission loop copies settings to Redis from
// there, and order-consumer runs the replays that the desk writes down. The desk never writes to Redis and never to Kafka, and is served
// on a port of its own.
package operator

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/telemetry"
)

// Ledger is what the desk asks of the books; ledger.Ledger is it.
type Ledger interface {
	Product(ctx context.Context, p product.ID) (ledger.ProductRow, error)
	PutProduct(ctx context.Context, a ledger.Action, s product.Settings, stock *ledger.Movement) (ledger.ActionResult, error)
	Open(ctx context.Context, a ledger.Action) (ledger.ActionResult, error)
	ProductsAfter(ctx context.Context, after product.ID, limit int) ([]ledger.ProductRow, error)
	Pause(ctx context.Context, a ledger.Action, reason string) (ledger.ActionResult, error)
	CloseSale(ctx context.Context, a ledger.Action, reason string) (ledger.ActionResult, error)
	Halt(ctx context.Context, a ledger.Action) (ledger.ActionResult, error)
	Unhalt(ctx context.Context, a ledger.Action) (ledger.ActionResult, error)
	QueueOff(ctx context.Context, a ledger.Action) (ledger.ActionResult, error)
	QueueOn(ctx context.Context, a ledger.Action) (ledger.ActionResult, error)
	Resume(ctx context.Context, a ledger.Action) (ledger.ActionResult, error)
	Restock(ctx context.Context, a ledger.Action, m ledger.Movement) (ledger.ActionResult, error)
	OrdersByID(ctx context.Context, ids []order.ID) (map[order.ID]ledger.OrderRow, error)
	Cancel(ctx context.Context, a ledger.Action, c ledger.Cancellation) (ledger.ActionResult, error)
	Evict(ctx context.Context, a ledger.Action, e ledger.Eviction) (ledger.ActionResult, error)
	Unban(ctx context.Context, a ledger.Action, user product.UserID, hash product.UserHash) (ledger.ActionResult, error)
	RevokePasses(ctx context.Context, a ledger.Action, reason string) (ledger.ActionResult, error)
}

// Config is what a desk needs.
type Config struct {
	Tokens   Tokens
	Commands keyring.Key // signs adjusts and cancels (F31)
	Users    keyring.Key // hashes the ids of users who are evicted
	Ledger   Ledger
	Live     Live
	Bound    Bound // may be nil: no order is known to be bound
	Replays  Replays
	// ReplayTopics are those that events may be replayed to, the live one first: at least that.
	ReplayTopics []string
	// PassMin is the shortest life of a pass that lets everybody use it (F36). Shorter ones are refused, or only warned about
	// where Trusting is set: on a machine of one's own, in a demonstration.
	PassMin  time.Duration
	Trusting bool
	// Changed is called after a change of a product was written, so that it takes effect before the next round. May be nil.
	Changed func()
	// Now is the clock of the commands' at_ms; nil means time.Now.
	Now func() time.Time
}

// Desk answers the operators' calls. Safe for concurrent use.
type Desk struct {
	Config
	logger  *slog.Logger
	repeats *telemetry.Repeats
}

// New makes a desk.
func New(logger *slog.Logger, c Config) *Desk {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Bound == nil {
		c.Bound = func(context.Context, product.ID, order.ID) ([]byte, bool, error) { return nil, false, nil }
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	return &Desk{Config: c, logger: logger, repeats: telemetry.NewRepeats(logger, 30*time.Second)}
}

// Handler is the whole surface.
func (d *Desk) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/products", d.list)
	mux.HandleFunc("GET /v1/products/{product}", d.read)
	mux.HandleFunc("PUT /v1/products/{product}", d.change(d.put))
	mux.HandleFunc("POST /v1/products/{product}/open", d.change(d.open))
	mux.HandleFunc("POST /v1/products/{product}/pause", d.change(d.pause))
	mux.HandleFunc("POST /v1/products/{product}/resume", d.change(d.resume))
	mux.HandleFunc("POST /v1/products/{product}/close", d.change(d.close))
	mux.HandleFunc("POST /v1/products/{product}/halt", d.change(d.halt))
	mux.HandleFunc("POST /v1/products/{product}/unhalt", d.change(d.unhalt))
	mux.HandleFunc("POST /v1/products/{product}/queue-off", d.change(d.queueOff))
	mux.HandleFunc("POST /v1/products/{product}/queue-on", d.change(d.queueOn))
	mux.HandleFunc("POST /v1/products/{product}/restock", d.change(d.restock))
	mux.HandleFunc("POST /v1/products/{product}/orders/{order}/cancel", d.change(d.cancel))
	mux.HandleFunc("POST /v1/products/{product}/evict", d.change(d.evict))
	mux.HandleFunc("POST /v1/products/{product}/unban", d.change(d.unban))
	mux.HandleFunc("POST /v1/products/{product}/revoke-passes", d.change(d.revokePasses))
	mux.HandleFunc("POST /v1/products/{product}/replays", d.askReplay)
	mux.HandleFunc("GET /v1/products/{product}/replays", d.listReplays)
	mux.HandleFunc("GET /v1/products/{product}/replays/{replay}", d.readReplay)
	mux.HandleFunc("POST /v1/products/{product}/replays/{replay}/cancel", d.cancelReplay)
	mux.HandleFunc("POST /v1/products/{product}/replays/{replay}/resume", d.resumeReplay)
	return d.guard(mux)
}

type operatorName struct{}

// guard asks for a token before anything else is looked at, bounds the body, and gives paths and methods that do not exist
// the same form of answer as everything else.
func (d *Desk) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := d.Tokens.Operator(r)
		if !ok {
			d.repeats.Warn(r.Context(), "operator call without a token", slog.String("path", r.URL.Path))
			d.write(w, r, errNoToken)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), operatorName{}, name))
		r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
		if _, pattern := mux.Handler(r); pattern == "" {
			d.missing(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// missing answers a path or a method that is not there; which of the two, the mux says by its own status.
func (d *Desk) missing(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	probe := &statusOnly{header: make(http.Header)}
	mux.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		d.write(w, r, errMethod)
		return
	}
	d.write(w, r, errNotFound)
}

// statusOnly keeps the head of an answer and drops its body.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }

// action is one change: it reads the request's body, asks the ledger, and says what was done.
type action func(r *http.Request, a ledger.Action) (ledger.ActionResult, []string, error)

// change wraps what all changes have in common: the key, the product, the audit line and the answer.
func (d *Desk) change(do action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := ledger.Action{RequestID: r.Header.Get("Idempotency-Key"), Operator: operatorOf(r)}
		if !isKey(a.RequestID) {
			d.write(w, r, errNoKey)
			return
		}
		var err error
		if a.Product, err = productOf(r); err == nil {
			a.IfVersion, err = versionOf(r)
		}
		if err != nil {
			d.write(w, r, err)
			return
		}
		result, warnings, err := do(r, a)
		if err != nil {
			d.write(w, r, err)
			return
		}
		d.Changed()
		d.logger.LogAttrs(r.Context(), slog.LevelInfo, "operator action",
			slog.String("operator", a.Operator), slog.String("call", r.Pattern), slog.String("product_id", string(a.Product)),
			slog.String("request_id", a.RequestID), slog.Bool("repeat", result.Repeat), slog.Int64("settings_v", result.Product.SettingsV))
		for _, warning := range warnings {
			d.logger.LogAttrs(r.Context(), slog.LevelWarn, "risky settings", slog.String("product_id", string(a.Product)), slog.String("warning", warning))
		}
		status := http.StatusOK
		switch {
		case result.Created:
			status = http.StatusCreated
		case result.CommandID != "":
			status = http.StatusAccepted
		}
		tag(w, result.Product)
		writeJSON(w, status, newChanged(result, warnings))
	}
}

func operatorOf(r *http.Request) string {
	name, _ := r.Context().Value(operatorName{}).(string)
	return name
}

func productOf(r *http.Request) (product.ID, error) {
	id, err := product.ParseID(r.PathValue("product"))
	var f faults
	splitFaults(err, &f)
	return id, f.err()
}

// versionOf reads If-Match: the version that the settings must have, as the ETag of an answer told it; 0 without the header.
func versionOf(r *http.Request) (int64, error) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return 0, nil
	}
	text, quoted := strings.CutPrefix(values[0], `"`)
	text, ended := strings.CutSuffix(text, `"`)
	v, err := strconv.ParseInt(text, 10, 64)
	if len(values) > 1 || !quoted || !ended || err != nil || v < 1 {
		var f faults
		f.add("If-Match", `expected the settings_v of the product in quotes, such as "7"`)
		return 0, f
	}
	return v, nil
}

// tag tells the version of the settings in an answer, for If-Match.
func tag(w http.ResponseWriter, row ledger.ProductRow) {
	w.Header().Set("ETag", `"`+strconv.FormatInt(row.SettingsV, 10)+`"`)
}

// isKey says whether a header can be an Idempotency-Key: 1–128 printable ASCII characters.
func isKey(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 128
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		// Every answer is built from plain values; this cannot happen, and must not pass for success if it does.
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The caller may have gone; there is nobody left to tell.
	_, _ = w.Write(body)
}
