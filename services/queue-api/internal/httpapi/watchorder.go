package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"hanjul/pkg/order"
	"hanjul/services/queue-api/internal/streams"
)

// The events of a stream.
const (
	eventOrder     = "order"     // what readOrder answers; its id is the status's version
	eventEnd       = "end"       // nothing follows: do not connect again
	eventReconnect = "reconnect" // nothing follows here: connect again after the pause
)

// How a stream ended, for the metric.
const (
	endJudged   = "judged"
	endGone     = "gone"     // the reader went away
	endSlow     = "slow"     // the reader did not read
	endStopping = "stopping" // this process ends
	endOld      = "old"      // it was open for as long as one may be
)

// seenNothing is what a reader has seen who says nothing about it.
const seenNothing = -1

// watchOrder streams to the owner what becomes of an order until its verdict, as server-sent events. The stream is opened before
// the first look, so that no change falls between; woken by the hub; and looks for itself now and then, which asks the books
// for an order that nobody here knows, as each poll would (F3).
func (a *API) watchOrder(w http.ResponseWriter, r *http.Request) error {
	personal(w)
	q, err := a.asked(r)
	if err != nil {
		return err
	}
	stream, err := a.streams.Open(q.id, q.who.hash)
	if err != nil {
		return err
	}
	defer stream.Close()
	first, err := a.lookWithin(r.Context(), q)
	if err != nil {
		return err
	}
	seen := lastEventID(r)
	if seen >= order.VersionVerdict && first.status.Version <= seen {
		w.WriteHeader(http.StatusNoContent) // which tells a browser not to connect again
		return nil
	}
	stream.Known(first.status.Version)
	t := &teller{api: a, w: w, control: http.NewResponseController(w), order: q.id, seen: seen, known: seen != seenNothing}
	// The server's time limits are for calls that end by themselves. What bounds a stream is a limit on each write.
	if err := t.control.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("lift the read limit of a stream: %w", err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	a.metrics.ended(a.stream(r.Context(), t, stream, q, first))
	return nil
}

// stream writes until there is nothing more to write, and says how that came.
func (a *API) stream(ctx context.Context, t *teller, stream *streams.Stream, q asked, first look) string {
	err := t.hint()
	if err == nil {
		err = t.tell(first)
	}
	beat := time.NewTimer(a.pause(a.cfg.Heartbeat))
	defer beat.Stop()
	old := time.NewTimer(a.pause(a.cfg.StreamLife))
	defer old.Stop()
	for err == nil {
		if t.seen >= order.VersionVerdict {
			err = t.send("event: " + eventEnd + "\ndata: {\"reason\":\"judged\"}\n\n")
			if err == nil {
				return endJudged
			}
			break
		}
		select {
		case <-stream.Changed():
			err = t.tell(look{stream.Status(), true})
		case <-beat.C:
			if now, failed := a.lookWithin(ctx, q); failed == nil {
				stream.Known(now.status.Version)
				err = t.tell(now)
			}
			if err == nil {
				err = t.send(": still here\n\n")
			}
			beat.Reset(a.pause(a.cfg.Heartbeat))
		case <-stream.Stopping():
			_ = t.reconnect()
			return endStopping
		case <-old.C:
			_ = t.reconnect()
			return endOld
		case <-ctx.Done():
			return endGone
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return endSlow
	}
	return endGone // whatever else a write fails with
}

// pause is a length of time ± 20 %, so that streams that were opened together do not do everything together.
func (a *API) pause(length time.Duration) time.Duration {
	return time.Duration(jitter(length)) * time.Millisecond
}

// lookWithin is look within the time that a call has.
func (a *API) lookWithin(ctx context.Context, q asked) (look, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.RequestTimeout)
	defer cancel()
	return a.look(ctx, q)
}

// lastEventID is the version that the reader has seen, or seenNothing: what is none of ours is ignored.
func lastEventID(r *http.Request) int {
	version, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if err != nil || version < order.VersionPending || version > order.VersionCancelled {
		return seenNothing
	}
	return version
}

// teller writes one stream.
type teller struct {
	api     *API
	w       http.ResponseWriter
	control *http.ResponseController
	order   order.ID
	seen    int  // the version that the reader has
	known   bool // and whether it was told as known
}

// tell writes what the reader has not seen: a newer version, or that a pending order is known after all.
func (t *teller) tell(l look) error {
	if l.status.Version < t.seen || l.status.Version == t.seen && (t.known || !l.known) {
		return nil
	}
	data, err := json.Marshal(t.api.describeOrder(t.order, l.status, l.known))
	if err != nil {
		return fmt.Errorf("encode the status of order %s: %w", t.order, err)
	}
	t.seen, t.known = l.status.Version, l.known
	return t.send("id: " + strconv.Itoa(l.status.Version) + "\nevent: " + eventOrder + "\ndata: " + string(data) + "\n\n")
}

// hint begins the stream with the pause to make before connecting again, each reader's another, so that a crowd whose process died
// does not return at once.
func (t *teller) hint() error {
	return t.send("retry: " + strconv.FormatInt(jitter(t.api.cfg.Reconnect), 10) + "\n\n")
}

func (t *teller) reconnect() error {
	retry := jitter(t.api.cfg.Reconnect)
	return t.send(fmt.Sprintf("retry: %d\nevent: %s\ndata: {\"retry_ms\":%d}\n\n", retry, eventReconnect, retry))
}

// send writes within the time that a reader has to make room, and leaves nothing in a buffer of ours.
func (t *teller) send(text string) error {
	if err := t.control.SetWriteDeadline(time.Now().Add(t.api.cfg.StreamWrite)); err != nil {
		return fmt.Errorf("limit a write: %w", err)
	}
	if _, err := io.WriteString(t.w, text); err != nil {
		return fmt.Errorf("write to a stream: %w", err)
	}
	if err := t.control.Flush(); err != nil {
		return fmt.Errorf("write to a stream: %w", err)
	}
	return nil
}
