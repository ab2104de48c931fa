package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/waitingroom"
)

const (
	restTooLong = 30 * time.Second // until a line is tried again for which there was no room
	restAmiss   = time.Second      // between two beginnings of a line whose count does not fit
	heardMax    = 5_000            // people noted as heard between two refreshes
	notedMax    = 200_000          // people noted between two turns
)

// line is one product's line.
type line struct {
	lines   *Lines
	product product.ID
	asked   atomic.Int64 // last time, ns since 1970
	size    atomic.Int64 // places held

	mu     sync.RWMutex
	places array
	view   waitingroom.ProductView
	held   bool      // places and view are of one moment
	at     time.Time // not after that moment
	flow   Flow
	lag    time.Duration
	asking chan struct{} // closed when the refresh in hand ends
	rest   time.Time     // no refresh is begun before
	fault  error         // why Redis did not answer the last refresh; nil when it did

	// Of the refresh in hand alone.
	last   string
	slack  int64 // people whom the places do not tell apart: two of one number, after a failover
	begun  time.Time
	passed flow

	hearing sync.Mutex
	heard   map[product.UserHash]struct{} // since the last refresh
	noted   map[product.UserHash]struct{} // since the last turn, not to be noted again
	turn    time.Time
}

func (l *line) look(place product.Place) (Look, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	age := time.Since(l.at)
	if !l.held || age > l.lines.cfg.StaleFor {
		return Look{}, false
	}
	look := Look{View: l.view, Head: l.places.first(), Flow: l.flow, Age: age, Lag: l.lag, Away: redisconn.Away(l.fault) != nil}
	if rank, waits := l.places.rank(place); waits {
		look.Position = int64(rank) + 1
	}
	return look, true
}

// survey is look for many places.
func (l *line) survey(places []product.Place, positions []int64) (Look, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	age := time.Since(l.at)
	if !l.held || age > l.lines.cfg.StaleFor {
		return Look{}, false
	}
	for i, place := range places {
		positions[i] = 0
		if rank, waits := l.places.rank(place); waits {
			positions[i] = int64(rank) + 1
		}
	}
	return Look{View: l.view, Head: l.places.first(), Flow: l.flow, Age: age, Lag: l.lag}, true
}

// refresh brings the line up to date if it is due: whoever comes first begins, and everybody waits a little for the end. The refresh is
// everybody's: it does not end with the call that began it, and while Redis does not answer there is one, not one for each poll. Nobody
// waits for one after another that Redis did not answer, while the snapshot can be told, or Redis is not asked anyway.
func (l *line) refresh(ctx context.Context) {
	now := time.Now()
	l.mu.RLock()
	fresh := l.held && now.Sub(l.at) < l.lines.cfg.Every
	l.mu.RUnlock()
	if fresh {
		return
	}
	l.mu.Lock()
	fresh = l.held && now.Sub(l.at) < l.lines.cfg.Every // again: a refresh may have ended meanwhile
	if l.asking == nil && !fresh && !now.Before(l.rest) {
		l.asking = make(chan struct{})
		go l.run(context.WithoutCancel(ctx), l.asking)
	}
	asked := l.asking
	vain := l.fault != nil && (l.held && now.Sub(l.at) <= l.lines.cfg.StaleFor || redisconn.Away(l.fault) != nil)
	l.mu.Unlock()
	if asked == nil || vain {
		return
	}
	limit := time.NewTimer(l.lines.cfg.Wait)
	defer limit.Stop()
	select {
	case <-asked:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// run is one refresh.
func (l *line) run(ctx context.Context, asked chan struct{}) {
	began := time.Now()
	rest, err := l.follow(ctx)
	took := time.Since(began)
	if err == nil {
		l.tell(ctx)
	}
	l.mu.Lock()
	l.lag, l.asking, l.fault = took, nil, nil
	if err != nil && !errors.Is(err, waitingroom.ErrNotReady) && !errors.Is(err, errTooLong) {
		l.fault = err
	}
	l.rest = began.Add(max(rest, l.lines.cfg.Every))
	if err == nil {
		l.rest = time.Time{} // its age says when the next is due
	}
	l.mu.Unlock()
	close(asked)
	l.lines.metrics.refreshed(err, took)
	if err == nil || errors.Is(err, waitingroom.ErrNotReady) {
		return
	}
	level := slog.LevelWarn
	if redisconn.Away(err) != nil {
		level = slog.LevelDebug // the breaker said it once
	}
	l.lines.logger.Log(ctx, level, "line not refreshed", "product", l.product, "err", err)
}

// follow makes the changes since the last refresh, or begins with the line. After an error nothing has changed, except that a product
// which is not there any more, or not yet again after a loss, has no line. It returns how long not to try again.
func (l *line) follow(ctx context.Context) (time.Duration, error) {
	at := time.Now()
	if l.held {
		moves, end, err := l.read(ctx, l.last)
		switch {
		case errors.Is(err, waitingroom.ErrNotReady):
			return 0, l.drop(err)
		case err != nil:
			return 0, err
		case end.Known && end.View.Inc == l.view.Inc:
			l.mu.Lock()
			gone := l.places.move(moves)
			amiss := end.View.Waiting-int64(l.places.n) != l.slack
			l.settle(at, end, gone)
			l.mu.Unlock()
			if !amiss || at.Sub(l.begun) < restAmiss {
				return 0, nil
			}
		}
	}
	at = time.Now()
	places, end, err := l.begin(ctx)
	switch {
	case errors.Is(err, waitingroom.ErrNotReady):
		return 0, l.drop(err)
	case errors.Is(err, errTooLong):
		return restTooLong, l.drop(err)
	case err != nil:
		return 0, err
	}
	l.lines.metrics.began()
	l.mu.Lock()
	defer l.mu.Unlock()
	var gone int64
	if l.held && end.View.Inc == l.view.Inc {
		gone = max(0, end.View.Admitted-l.view.Admitted)
	}
	l.places, l.slack, l.begun = *places, end.View.Waiting-int64(places.n), at
	l.settle(at, end, gone)
	return 0, nil
}

// settle takes what was read for the line's; l.mu is held.
func (l *line) settle(at time.Time, end waitingroom.Changed, gone int64) {
	l.places.settle()
	l.view, l.last, l.held, l.at = end.View, end.Last, true, at
	l.flow = l.passed.note(at, gone)
	l.size.Store(int64(l.places.n))
}

func (l *line) drop(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places, l.held = array{}, false
	l.size.Store(0)
	return err
}

// read reads all moves after one, and the state of the moment of the last.
func (l *line) read(ctx context.Context, after string) (moves []waitingroom.Move, end waitingroom.Changed, err error) {
	for {
		asked, cancel := context.WithTimeout(ctx, l.lines.cfg.Timeout)
		end, err = l.lines.room.Watch(asked, l.product, after)
		cancel()
		if err != nil || !end.Known {
			return nil, end, err
		}
		moves, after = append(moves, end.Moves...), end.Last
		if !end.More {
			return moves, end, nil
		}
	}
}

// begin reads the whole line by slices, then what moved meanwhile.
func (l *line) begin(ctx context.Context) (*array, waitingroom.Changed, error) {
	places, first := &array{}, ""
	var behind product.Place
	for {
		asked, cancel := context.WithTimeout(ctx, l.lines.cfg.Timeout)
		slice, err := l.lines.room.WaitingSlice(asked, l.product, behind)
		cancel()
		if err != nil {
			return nil, waitingroom.Changed{}, err
		}
		if behind == 0 {
			if first = slice.Last; !l.lines.fits(l, int(slice.View.Waiting)) {
				return nil, waitingroom.Changed{}, errTooLong
			}
		}
		for _, place := range slice.Places {
			places.add(place)
			behind = place
		}
		if !slice.More {
			break
		}
	}
	moves, end, err := l.read(ctx, first)
	if err == nil && !end.Known {
		err = errors.New("the changes did not last until the line was read")
	}
	if err != nil {
		return nil, end, err
	}
	places.move(moves)
	return places, end, nil
}

// move makes moves and counts the people who went.
func (a *array) move(moves []waitingroom.Move) (gone int64) {
	for _, m := range moves {
		switch m.Kind {
		case waitingroom.MoveIn:
			a.add(m.Place)
		case waitingroom.MoveOut:
			if a.remove(m.Place) {
				gone++
			}
		case waitingroom.MoveFront:
			gone += int64(a.removeTo(m.Place))
		case waitingroom.MoveAnew: // the state's incarnation tells it too
		}
	}
	return gone
}

// hear notes somebody for the next refresh.
func (l *line) hear(u product.UserHash) {
	l.hearing.Lock()
	defer l.hearing.Unlock()
	if now := time.Now(); l.noted == nil || now.Sub(l.turn) >= l.lines.cfg.HeardEvery {
		l.noted, l.turn = map[product.UserHash]struct{}{}, now
	}
	if _, done := l.noted[u]; done || len(l.noted) >= notedMax || len(l.heard) >= heardMax {
		return
	}
	if l.heard == nil {
		l.heard = map[product.UserHash]struct{}{}
	}
	l.noted[u], l.heard[u] = struct{}{}, struct{}{}
}

// tell hands over who was heard of. A note that is lost is made again by a poll of the person after the next turn.
func (l *line) tell(ctx context.Context) {
	l.hearing.Lock()
	heard := l.heard
	l.heard = nil
	l.hearing.Unlock()
	if len(heard) == 0 {
		return
	}
	users := make([]product.UserHash, 0, len(heard))
	for u := range heard {
		users = append(users, u)
	}
	asked, cancel := context.WithTimeout(ctx, l.lines.cfg.Timeout)
	defer cancel()
	if _, err := l.lines.hearer.Heard(asked, l.product, users); err != nil {
		l.lines.logger.WarnContext(ctx, "people not noted as heard", "product", l.product, "people", len(users), "err", err)
	}
}
