// Package live holds the lines that people wait in, as the storefront's process sees them: of each product with living polls the places
// in order and the public state, brought up to date by the stream of changes in one call of Redis, however many people ask. It answers
// where a place stands, exactly for the moment of the snapshot, and how fast the line moves. It moves nobody: whoever is not found in a
// snapshot is asked about at Redis. Before it are the handlers of httpapi, after it waitingroom.
package live

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// Room is what lines are read from.
type Room interface {
	Watch(ctx context.Context, p product.ID, after string) (waitingroom.Changed, error)
	WaitingSlice(ctx context.Context, p product.ID, behind product.Place) (waitingroom.Slice, error)
}

// Hearer is told of people near the front who were heard of, of one product and at most once a refresh. It returns who was away and is
// back, which the next refresh shows.
type Hearer interface {
	Heard(ctx context.Context, p product.ID, users []product.UserHash) (back []product.UserHash, err error)
}

// Config bounds the lines. Zero values mean the defaults named at each field.
type Config struct {
	Every    time.Duration // a snapshot is refreshed when somebody asks and it is older; default 250 ms
	Wait     time.Duration // longest wait of a poll for a refresh; default 200 ms
	Timeout  time.Duration // of one call of Redis; default 2 s
	StaleFor time.Duration // how long a snapshot is told while Redis does not answer; default 60 s
	Idle     time.Duration // a line that nobody asks about is dropped after it; default 60 s
	// HeardEvery is the least time between two notes that one person was heard of: a third of the shortest absence that makes anybody
	// away, default 30 s.
	HeardEvery time.Duration
	Products   int // most lines held; default 1000. People of others are asked about at Redis
	PlacesMax  int // most places of all lines, eight to sixteen bytes each; default 5,000,000
}

// StaleAfter is the age from which on an answer says that it is stale.
const StaleAfter = time.Second

// Look is what a snapshot says. All of it is of one moment.
type Look struct {
	View     waitingroom.ProductView
	Position int64         // of the place that was asked about; 0 when it does not wait
	Head     product.Place // of the first who waits; 0 for an empty line
	Flow     Flow
	Age      time.Duration // since the moment, at most
	Lag      time.Duration // how long the last refresh took
	Away     bool          // the last refresh was refused, since Redis is away
}

// Stale says that the look is older than StaleAfter.
func (l Look) Stale() bool { return l.Age > StaleAfter }

// Lines are the lines of a process. Safe for concurrent use. Products are independent of each other.
type Lines struct {
	room    Room
	logger  *slog.Logger
	metrics *Metrics
	cfg     Config
	hearer  Hearer

	mu  sync.RWMutex
	all map[product.ID]*line
}

// New returns Lines that hold nothing yet. The hearer may be nil.
func New(room Room, hearer Hearer, logger *slog.Logger, metrics *Metrics, cfg Config) *Lines {
	cfg.Every = cmp.Or(cfg.Every, 250*time.Millisecond)
	cfg.Wait = cmp.Or(cfg.Wait, 200*time.Millisecond)
	cfg.Timeout = cmp.Or(cfg.Timeout, 2*time.Second)
	cfg.StaleFor = cmp.Or(cfg.StaleFor, time.Minute)
	cfg.Idle = cmp.Or(cfg.Idle, time.Minute)
	cfg.HeardEvery = cmp.Or(cfg.HeardEvery, 30*time.Second)
	cfg.Products = cmp.Or(cfg.Products, 1000)
	cfg.PlacesMax = cmp.Or(cfg.PlacesMax, 5_000_000)
	return &Lines{room: room, hearer: hearer, logger: logger, metrics: metrics, cfg: cfg, all: map[product.ID]*line{}}
}

// Run drops lines that nobody asks about until ctx ends.
func (l *Lines) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(l.cfg.Idle/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			l.sweep(time.Now())
		}
	}
}

func (l *Lines) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	places := 0
	for p, line := range l.all {
		if now.Sub(time.Unix(0, line.asked.Load())) > l.cfg.Idle {
			delete(l.all, p)
			continue
		}
		places += int(line.size.Load())
	}
	l.metrics.held(len(l.all), places)
}

// Find tells where a place stands, and the product's state. False where no snapshot can say it: there is none, or it is older than
// StaleFor, or there is no room for the line; then Redis is to be asked. It waits for a refresh that is due, but not for long: of a
// store that does not answer it tells the last snapshot.
func (l *Lines) Find(ctx context.Context, p product.ID, place product.Place) (Look, bool) {
	line := l.line(p)
	if line == nil {
		return Look{}, false
	}
	line.refresh(ctx)
	return line.look(place)
}

// Survey is Find for many places of one product, all of one moment: it writes the position of each, or 0, into positions, which has the
// length of places. The look itself is of no place.
func (l *Lines) Survey(ctx context.Context, p product.ID, places []product.Place, positions []int64) (Look, bool) {
	line := l.line(p)
	if line == nil {
		return Look{}, false
	}
	line.refresh(ctx)
	return line.survey(places, positions)
}

// Every is the age from which on a snapshot is due.
func (l *Lines) Every() time.Duration { return l.cfg.Every }

// Flow is how fast the product's line moves, by the last snapshot of it; zero where there is none. It asks nobody.
func (l *Lines) Flow(p product.ID) Flow {
	l.mu.RLock()
	found := l.all[p]
	l.mu.RUnlock()
	if found == nil {
		return Flow{}
	}
	look, held := found.look(0)
	if !held {
		return Flow{}
	}
	return look.Flow
}

// Heard notes that somebody near the front was heard of. The hearer is told with the next refresh, of each person at most every
// HeardEvery.
func (l *Lines) Heard(p product.ID, u product.UserHash) {
	if l.hearer == nil {
		return
	}
	if line := l.line(p); line != nil {
		line.hear(u)
	}
}

// line is the product's line, new if need be; nil where there is no room for it.
func (l *Lines) line(p product.ID) *line {
	l.mu.RLock()
	found := l.all[p]
	l.mu.RUnlock()
	if found == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if found = l.all[p]; found == nil {
			if len(l.all) >= l.cfg.Products {
				return nil
			}
			found = &line{lines: l, product: p}
			l.all[p] = found
		}
	}
	found.asked.Store(time.Now().UnixNano())
	return found
}

// fits says whether a line of so many places may be held beside the others.
func (l *Lines) fits(own *line, places int) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, other := range l.all {
		if other != own {
			places += int(other.size.Load())
		}
	}
	return places <= l.cfg.PlacesMax
}

var errTooLong = errors.New("no room for the places of this line")
