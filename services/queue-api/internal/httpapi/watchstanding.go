package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"hanjul/pkg/waitingroom"
	"hanjul/services/queue-api/internal/streams"
)

// The event of a person's standing; eventEnd and eventReconnect are those of every stream.
const eventStanding = "standing" // what status answers; its id is a digest of what makes a message worth sending

// endFinished ends the stream of somebody who waits no more and holds no pass.
const endFinished = "finished"

const (
	// askingMax is how many streams in line ask Redis at the same time: a line that was admitted at once, or lost, comes one after the other.
	askingMax = 64
	// askAgain is the time before Redis is asked again where it did not answer, ± 20 %.
	askAgain = 2 * time.Second
)

// watchStanding streams to a person what status would tell, whenever it changes, until there is nothing more to wait for, as server-sent
// events or over a WebSocket, whichever is asked for. The address says who it is. The connection is taken from the server before the first event is written, since what the server keeps for a call (buffers, the
// request, a deep stack) is far more than a stream needs: what is left is a goroutine that waits for something to say and one that waits for
// the reader to go.
func (a *API) watchStanding(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	c, err := a.tokenCaller(r)
	if err != nil {
		return err
	}
	seen := r.Header.Get("Last-Event-ID")
	if seen == "" {
		seen = r.URL.Query().Get("last_event_id") // of a reader that cannot send the header
	}
	member, err := a.crowd.Open(c.product, c.who.hash, c.ticket.Place)
	if err != nil {
		return err
	}
	f := &follower{api: a, c: *c, member: member}
	first, err := f.begin(r.Context())
	if err != nil {
		member.Close()
		return err
	}
	if id, rest := first.digests(); id == seen {
		if f.finished() && !wantsSocket(r) {
			member.Close()
			w.WriteHeader(http.StatusNoContent) // which tells a browser not to connect again
			return nil
		}
		f.seen, f.rest = id, rest
	}
	if wantsSocket(r) {
		f.out, err = a.openSocket(w, r)
	} else {
		f.out, err = a.openEvents(w)
	}
	if err != nil {
		member.Close()
		return err
	}
	go f.run(first)
	return nil
}

// follower is one open stream of somebody in line.
type follower struct {
	api    *API
	c      call
	member *streams.Member
	out    channel

	state waitingroom.State // of the newest look
	ends  time.Time         // of the pass, while there is one
	of    time.Time         // the moment of the newest look
	seen  string            // the id of the message that the reader has
	rest  string            // and the digest of all of it

	told  time.Time // when the last message was sent
	later time.Time // when to look, because the last message was a moment ago
	beat  time.Time // when the next sign of life is due
	until time.Time // when the stream is old
	again bool      // Redis is to be asked again
}

// begin finds out where the person stands.
func (f *follower) begin(ctx context.Context) (*standing, error) {
	ctx, cancel := context.WithTimeout(ctx, f.api.cfg.RequestTimeout)
	defer cancel()
	at := time.Now()
	s, m, err := f.api.stands(ctx, &f.c)
	if err != nil {
		return nil, err
	}
	if m.age > 0 { // of a snapshot
		at = time.Now().Add(-m.age)
	}
	return f.describe(ctx, s, m, at)
}

// describe makes a message of a standing and remembers what the stream goes by.
func (f *follower) describe(ctx context.Context, s waitingroom.Standing, m moment, at time.Time) (*standing, error) {
	d, err := f.api.describe(ctx, &f.c, s, m)
	if err != nil {
		return nil, err
	}
	f.state, f.of, f.ends = s.State, at, time.Time{}
	if s.State == waitingroom.Active {
		f.ends = time.UnixMilli(s.LeaseEndMS)
	}
	if s.Place > 0 {
		f.member.Move(s.Place)
	}
	return &d, nil
}

// finished says whether nothing more is to be told.
func (f *follower) finished() bool {
	switch f.state {
	case waitingroom.Waiting, waitingroom.Away, waitingroom.Active:
		return false
	default:
		return true
	}
}

// run writes until there is nothing more to write. A fault of one stream is not the process's.
func (f *follower) run(first *standing) {
	cause := endGone
	defer func() {
		if reason := recover(); reason != nil {
			f.api.logger.Error("stream panicked", "err", fmt.Errorf("%w: %v: %s", errPanic, reason, debug.Stack()))
		}
		f.out.close(cause)
		f.member.Close()
		f.api.metrics.lineEnds.WithLabelValues(cause).Inc()
	}()
	now := time.Now()
	f.beat, f.until = now.Add(f.api.pause(f.api.cfg.Heartbeat)), now.Add(f.api.pause(f.api.cfg.StreamLife))
	err := f.out.begin(jitter(f.api.cfg.Reconnect))
	if err == nil {
		err = f.say(first, false)
	}
	cause = f.follow(err)
}

// follow writes what changes, and says how that came to an end.
func (f *follower) follow(err error) string {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for err == nil {
		if f.finished() {
			if err = f.out.tell(event{name: eventEnd, data: []byte(`{"reason":"` + shown(waitingroom.Standing{State: f.state}) + `"}`)}); err == nil {
				return endFinished
			}
			break
		}
		timer.Reset(time.Until(f.next()))
		select {
		case <-f.member.Changed():
			err = f.look()
		case <-timer.C:
			now := time.Now()
			if !now.Before(f.until) {
				_ = f.reconnect()
				return endOld
			}
			err = f.due(now)
		case <-f.member.Stopping():
			_ = f.reconnect()
			return endStopping
		case <-f.out.gone():
			return endGone
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return endSlow
	}
	return endGone // whatever else a write fails with
}

// next is when something is due.
func (f *follower) next() time.Time {
	next := f.beat
	for _, other := range []time.Time{f.until, f.later, f.ends} {
		if !other.IsZero() && other.Before(next) {
			next = other
		}
	}
	return next
}

// due does what the time has come for.
func (f *follower) due(now time.Time) error {
	if !f.later.IsZero() && !now.Before(f.later) {
		f.later = time.Time{}
		if err := f.look(); err != nil {
			return err
		}
	}
	if !f.ends.IsZero() && !now.Before(f.ends) {
		// The pass is over, or its time has stood still: Redis knows.
		f.ends = time.Time{}
		return f.ask()
	}
	if now.Before(f.beat) {
		return nil
	}
	f.beat = now.Add(f.api.pause(f.api.cfg.Heartbeat))
	look, at, held := f.member.Look()
	if f.again || !held || look.Position == 0 {
		// Nobody else finds out what becomes of somebody whom no snapshot holds. The sign of life does not wait for it.
		if err := f.out.beat(); err != nil {
			return err
		}
		return f.ask()
	}
	if at.Before(f.of) {
		return f.out.beat()
	}
	s, m := waits(f.c.ticket.Place, look)
	before := f.told
	if err := f.tell(s, m, at, true); err != nil || f.told != before {
		return err
	}
	return f.out.beat()
}

// look tells what the newest snapshot says. Whoever is not in it is asked about at Redis.
func (f *follower) look() error {
	look, at, held := f.member.Look()
	switch {
	case !held || at.Before(f.of):
		return nil // the next sign of life sees to it
	case look.Position == 0 && look.Stale():
		return nil
	case look.Position == 0 || !f.api.views.fits(look.View):
		return f.ask()
	}
	// Who is farther behind is told as often as they would poll.
	near := f.api.cfg.Cadence
	if gap := f.told.Add(near.Near); look.Position > near.NearWithin && time.Now().Before(gap) {
		f.later = gap
		return nil
	}
	s, m := waits(f.c.ticket.Place, look)
	return f.tell(s, m, at, false)
}

// ask tells what Redis says. Where too many ask, or it does not answer, it is asked again soon.
func (f *follower) ask() error {
	select {
	case f.api.asking <- struct{}{}:
	default:
		f.askAgain()
		return nil
	}
	defer func() { <-f.api.asking }()
	ctx, cancel := context.WithTimeout(context.Background(), f.api.cfg.RequestTimeout)
	defer cancel()
	at := time.Now()
	s, m, err := f.api.ask(ctx, &f.c)
	if err != nil {
		f.api.logger.Log(ctx, slog.LevelDebug, "stream not told", "product_id", f.c.product, "err", err)
		f.askAgain()
		return nil
	}
	f.again = false
	d, err := f.describe(ctx, s, m, at)
	if err != nil {
		return err
	}
	return f.say(d, false)
}

func (f *follower) askAgain() {
	f.again = true
	if soon := time.Now().Add(f.api.pause(askAgain)); soon.Before(f.beat) {
		f.beat = soon
	}
}

// tell says a standing that a snapshot holds.
func (f *follower) tell(s waitingroom.Standing, m moment, at time.Time, whole bool) error {
	d, err := f.describe(context.Background(), s, m, at)
	if err != nil {
		return err
	}
	return f.say(d, whole)
}

// say writes a message that is news to the reader; whole counts the smallest change as news.
func (f *follower) say(d *standing, whole bool) error {
	id, rest := d.digests()
	if id == f.seen && (!whole || rest == f.rest) {
		return nil
	}
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode a standing: %w", err)
	}
	f.seen, f.rest, f.told = id, rest, time.Now()
	f.api.metrics.lineTold.Inc()
	return f.out.tell(event{id: id, name: eventStanding, data: data})
}

func (f *follower) reconnect() error {
	retry := jitter(f.api.cfg.Reconnect)
	return f.out.tell(event{name: eventReconnect, data: fmt.Appendf(nil, `{"retry_ms":%d}`, retry), retry: retry})
}

// digests tells two messages apart: the first by what is worth a message of its own, the second by all but what differs each time. Estimates,
// totals and tickets travel with the other news, or with the next sign of life.
func (d *standing) digests() (news, rest string) {
	told := *d
	told.NextPollMS, told.SnapshotAt, told.AgeMS = 0, time.Time{}, 0
	told.StreamURL, told.StreamURLReason, told.Ticket = nil, nil, nil
	rest = told.digest()
	told.Total, told.Progress = 0, nil
	if told.EstimatedWait != nil {
		told.EstimatedWait = &wait{}
	}
	return told.digest(), rest
}

func (d *standing) digest() string {
	text, err := json.Marshal(d)
	if err != nil {
		return "" // never: it is a value of texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
