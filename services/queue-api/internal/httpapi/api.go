// Package httpapi is the storefront's HTTP surface: it reads and checks requests, calls waitingroom for the line and submit
// for orders, and writes answers. The surface stands in routes.go, one verb per file; errors.go is the only place that turns an
// error into a status. It signs tickets and passes and owns their headers. It decides nothing about lines or orders, and a
// ticket or a pass never stands for the person: the identity is on every call and must equal both.
package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/failopen"
	"hanjul/services/queue-api/internal/live"
	"hanjul/services/queue-api/internal/streams"
	"hanjul/services/queue-api/internal/submit"
)

// Room is what the handlers need of waitingroom.
type Room interface {
	Join(ctx context.Context, p product.ID, u product.UserHash, t *waitingroom.TicketClaim) (waitingroom.Standing, error)
	Status(ctx context.Context, p product.ID, u product.UserHash, t *waitingroom.TicketClaim) (waitingroom.Standing, error)
	Leave(ctx context.Context, p product.ID, u product.UserHash, place product.Place) (waitingroom.Standing, error)
	View(ctx context.Context, p product.ID) (waitingroom.ProductView, error)
	InCatalogue(ctx context.Context, p product.ID) (bool, error)
	HasIntent(ctx context.Context, p product.ID, id order.ID) (bool, error)
	Lease(ctx context.Context, p product.ID, u product.UserHash, expires time.Time) error
}

// Statuses is what the handlers need of orderstatus.
type Statuses interface {
	Get(ctx context.Context, id order.ID) (order.Status, bool, error)
	Want(ctx context.Context, w orderstatus.Wanted) error
}

// Lines are what the handlers need of live.
type Lines interface {
	Find(ctx context.Context, p product.ID, place product.Place) (live.Look, bool)
	Flow(p product.ID) live.Flow
	Heard(p product.ID, u product.UserHash)
	Survey(ctx context.Context, p product.ID, places []product.Place, positions []int64) (live.Look, bool)
	Every() time.Duration
}

// streamsGoodbye is how long the streams of lines may take to end with the process.
const streamsGoodbye = time.Second

// Submitter takes orders.
type Submitter interface {
	Submit(ctx context.Context, r submit.Request) (submit.Answer, error)
}

// Keys are what the surface signs and derives with.
type Keys struct {
	Orders  keyring.Key  // order ids from places
	Users   keyring.Key  // hashes of user ids
	Tickets keyring.Ring // the first signs
	Passes  *pass.Signer
	// PassesAlso are taken beside those that Passes signed.
	PassesAlso pass.Verifier
}

// Config is the behaviour that operators choose.
type Config struct {
	Cadence Cadence
	// PollExcess is how many times faster than asked a person may poll before being told to slow down; 0 lets everybody.
	PollExcess int
	// RequestTimeout bounds the look-ups of one request; an order that is bound goes on beyond it. Default 2 s.
	RequestTimeout time.Duration
	// Heartbeat is the time between two signs of life of a stream, ± 20 %; each is a look at the order, or at a person who is not among
	// those who wait, too. Default 10 s.
	Heartbeat time.Duration
	// StreamLife is how long a stream may be open, ± 20 %; then its reader is asked to connect again. Default 10 min.
	StreamLife time.Duration
	// StreamWrite is how long a reader may take to make room for what is written. Default 5 s.
	StreamWrite time.Duration
	// Reconnect is the pause that readers are asked to make before they connect again, ± 20 %. Default 3 s.
	Reconnect time.Duration
	// StreamNearest is up to which position people in line are offered a stream, beside those who hold a pass; 0 offers none.
	StreamNearest int64
	// Leases writes a key for each pass that is handed out, which expires with it; for schedulers with the trigger keyspace.
	Leases bool
	// Origins are the other web origins whose pages may call.
	Origins Origins
	// FailOpen is how many people a second get a pass of no place while Redis is away; 0: nobody (F39).
	FailOpen float64
	// Advise makes a pass life that is too short for the cadence a warning instead of a refusal; for local use (F36).
	Advise bool
}

// API answers the storefront. Make it with New; its Handler is safe for concurrent use.
type API struct {
	room     Room
	lines    Lines
	calls    atomic.Int64 // in hand
	paces    *paces
	statuses Statuses
	orders   Submitter
	streams  *streams.Hub
	crowd    *streams.Crowd
	asking   chan struct{} // taken by each question of a stream in line to Redis
	tokens   *streamTokens
	keys     Keys
	passes   *passes
	views    *views
	door     *failopen.Door // nil where it stays shut
	logger   *slog.Logger
	metrics  *Metrics
	cfg      Config
}

// New returns the surface over its neighbours.
func New(room Room, lines Lines, statuses Statuses, orders Submitter, open *streams.Hub, keys Keys, logger *slog.Logger, metrics *Metrics, cfg Config) *API {
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 2 * time.Second
	}
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 10*time.Second)
	cfg.StreamLife = cmp.Or(cfg.StreamLife, 10*time.Minute)
	cfg.StreamWrite = cmp.Or(cfg.StreamWrite, 5*time.Second)
	cfg.Reconnect = cmp.Or(cfg.Reconnect, 3*time.Second)
	if cfg.Origins.check == nil {
		cfg.Origins.check = http.NewCrossOriginProtection()
	}
	verifier := maps.Clone(keys.Passes.Verifier())
	for id, key := range keys.PassesAlso {
		if _, own := verifier[id]; !own {
			verifier[id] = key
		}
	}
	var door *failopen.Door
	if cfg.FailOpen > 0 {
		door = failopen.New(cfg.FailOpen, nil)
	}
	return &API{
		door: door,
		room: room, lines: lines, paces: newPaces(cfg.PollExcess), statuses: statuses, orders: orders, streams: open, keys: keys,
		crowd: streams.NewCrowd(open, lines), asking: make(chan struct{}, askingMax), tokens: newStreamTokens(keys.Tickets),
		passes: newPasses(verifier),
		views:  newViews(room, logger, cfg.Cadence.longest(), cfg.RequestTimeout, cfg.Advise),
		logger: logger, metrics: metrics, cfg: cfg,
	}
}

// Run waits until ctx ends, which must be when the hub's Run ends, and then a little for the streams of lines to say so to their readers: their
// connections are not the server's any more. It returns nil. Call it once.
func (a *API) Run(ctx context.Context) error { return a.crowd.Run(ctx, streamsGoodbye) }

// now is the clock of tickets; leases and deadlines have Redis's.
func (a *API) now() time.Time { return time.Now() }

// personal marks an answer about one person.
func personal(w http.ResponseWriter) { w.Header().Set("Cache-Control", "no-store") }
