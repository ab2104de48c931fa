package apitest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hanjul/pkg/order"
)

// Serve puts the surface behind a real server with a listener of the test's choice, nil for one of its own, and gives its base URL. Its
// limit on reading is short, since streams must not end by it. Streams that are still open when the test ends are cut.
func (b *Bundle) Serve(t testing.TB, listener net.Listener) string {
	t.Helper()
	if listener == nil {
		var err error
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		check(t, err)
	}
	server := &http.Server{Handler: b.Handler, ReadHeaderTimeout: patience, ReadTimeout: 100 * time.Millisecond, WriteTimeout: 100 * time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// Wake runs the hub until the test ends or the function returned was called, which waits for its end.
func (b *Bundle) Wake(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Streams.Run(ctx) }()
	var err error
	stop = func() {
		cancel()
		if e, open := <-ended; open {
			err = e
			close(ended)
		}
		check(t, err)
	}
	t.Cleanup(stop)
	return stop
}

// Event is one event of a stream; a comment has only Comment, the pause before a new connection only Retry.
type Event struct {
	ID, Name, Comment, Retry string
	Data                     map[string]any
}

// Stream is an open stream, or the answer that was given instead of one.
type Stream struct {
	Status   int
	Header   http.Header
	Problem  string
	response *http.Response
	lines    *bufio.Scanner
	socket   *socket // instead of lines
}

// Watch opens a stream for the person's order; lastEventID is sent unless it is empty.
func (p *Person) Watch(t testing.TB, base string, id order.ID, lastEventID string) *Stream {
	t.Helper()
	return watch(t, base+"/v1/orders/"+string(id)+"/events", p.Header(), lastEventID)
}

// WatchLine opens the stream of a stream_url, with nothing but the address, as a browser's EventSource does.
func WatchLine(t testing.TB, base, streamURL, lastEventID string) *Stream {
	t.Helper()
	return watch(t, base+streamURL, nil, lastEventID)
}

func watch(t testing.TB, address string, header map[string]string, lastEventID string) *Stream {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	check(t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // Close does, at the latest when the test ends
	check(t, err)
	s := &Stream{Status: response.StatusCode, Header: response.Header, response: response, lines: bufio.NewScanner(response.Body)}
	t.Cleanup(s.Close)
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") {
		var body struct {
			Type string `json:"type"`
		}
		check(t, json.NewDecoder(response.Body).Decode(&body))
		s.Problem = body.Type
	}
	return s
}

// Close ends the stream as a reader does who goes away. Safe to repeat.
func (s *Stream) Close() {
	if s.socket != nil {
		_ = s.socket.conn.CloseNow()
		return
	}
	_ = s.response.Body.Close()
}

// Next reads one event with a name, past comments and pauses.
func (s *Stream) Next(t testing.TB) Event {
	t.Helper()
	for {
		if e := s.Any(t); e.Name != "" {
			return e
		}
	}
}

// Any reads whatever comes next.
func (s *Stream) Any(t testing.TB) Event {
	t.Helper()
	if s.socket != nil {
		return s.socket.any(t)
	}
	var e Event
	for s.lines.Scan() {
		line := s.lines.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Name = value
		case "retry":
			e.Retry = value
		case "data":
			check(t, json.Unmarshal([]byte(value), &e.Data))
		case "":
			if line == "" {
				return e
			}
			e.Comment = value
		}
	}
	t.Fatalf("the stream ended: %v", s.lines.Err())
	return e
}

// Beat waits for a sign of life.
func (s *Stream) Beat(t testing.TB) {
	t.Helper()
	for s.Any(t).Comment == "" {
	}
}

// End fails unless the stream ends here, without an error.
func (s *Stream) End(t testing.TB) {
	t.Helper()
	if s.socket != nil {
		s.socket.end(t)
		return
	}
	for s.lines.Scan() {
		if line := s.lines.Text(); line != "" {
			t.Fatalf("after the end: %q", line)
		}
	}
	if err := s.lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}
