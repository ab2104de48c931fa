package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	// A reader sends control frames at most; whatever else it sends ends the socket.
	socketReadLimit = 512
	// Buffers are most of what a socket takes: frames of readers are small, and a message that does not fit goes out in two writes.
	socketReadBuffer  = 128
	socketWriteBuffer = 256
)

// socket writes to a WebSocket: each event is one text message, {"event", "id", "data"}.
type socket struct {
	conn  *websocket.Conn
	limit time.Duration // of one write, and of the answer to a sign of life
	left  chan struct{}
}

// wantsSocket says whether a call asks for a WebSocket.
func wantsSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// openSocket answers the handshake; an error says that it is none. Origins were checked before (across).
func (a *API) openSocket(w http.ResponseWriter, r *http.Request) (channel, error) {
	h := &handshake{ResponseWriter: w, limit: a.cfg.StreamWrite}
	conn, err := websocket.Accept(h, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	switch {
	case h.failed != nil:
		return nil, fmt.Errorf("take the connection of a socket: %w", h.failed)
	case err != nil:
		return nil, faulty(errMalformed, "Upgrade", "expected a handshake of RFC 6455, version 13")
	}
	conn.SetReadLimit(socketReadLimit)
	s := &socket{conn: conn, limit: a.cfg.StreamWrite, left: make(chan struct{})}
	go s.wait()
	return s, nil
}

// wait reads pongs and the close until the reader goes. One who talks is sent away. (The library's CloseRead does the same, and then waits 15 s
// for itself.)
func (s *socket) wait() {
	defer close(s.left)
	if _, _, err := s.conn.Reader(context.Background()); err == nil {
		_ = s.conn.Close(websocket.StatusPolicyViolation, "nothing is expected from readers")
	}
}

func (s *socket) begin(int64) error { return nil }

func (s *socket) tell(e event) error {
	text := make([]byte, 0, len(e.data)+64)
	text = append(text, `{"event":"`+e.name+`"`...)
	if e.id != "" {
		text = append(text, `,"id":"`+e.id+`"`...)
	}
	text = append(append(append(text, `,"data":`...), e.data...), '}')
	return s.within(func(ctx context.Context) error { return s.conn.Write(ctx, websocket.MessageText, text) })
}

// beat pings, and waits for the answer: it is what tells a reader that is there from a connection that is dead.
func (s *socket) beat() error { return s.within(s.conn.Ping) }

func (s *socket) gone() <-chan struct{} { return s.left }

// close says why, but not to who does not read.
func (s *socket) close(cause string) {
	switch cause {
	case endFinished:
		_ = s.conn.Close(websocket.StatusNormalClosure, cause)
	case endStopping, endOld:
		_ = s.conn.Close(websocket.StatusServiceRestart, cause)
	default:
		_ = s.conn.CloseNow()
	}
}

// within bounds one use of the connection, which is closed when the time is over.
func (s *socket) within(use func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	err := use(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.DeadlineExceeded // whatever the closed connection said
	}
	if err != nil {
		return fmt.Errorf("write to a socket: %w", err)
	}
	return nil
}

// handshake is where a handshake is answered: nothing but the upgrade gets through, since our refusals have a form of their own, and the
// connection comes with small buffers.
type handshake struct {
	http.ResponseWriter
	limit  time.Duration
	failed error // to take the connection
}

// WriteHeader writes the head of an upgrade, within a time of its own, since the server's for a call may be over.
func (h *handshake) WriteHeader(status int) {
	if status != http.StatusSwitchingProtocols {
		return
	}
	if h.failed = http.NewResponseController(h.ResponseWriter).SetWriteDeadline(time.Now().Add(h.limit)); h.failed == nil {
		h.ResponseWriter.WriteHeader(status)
	}
}

// Write drops the text of a refusal.
func (h *handshake) Write(text []byte) (int, error) { return len(text), nil }

// Hijack takes the connection.
func (h *handshake) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if h.failed != nil {
		return nil, nil, h.failed
	}
	conn, from, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		h.failed = err
		return nil, nil, err
	}
	early, err := from.Peek(from.Reader.Buffered()) // what came behind the request
	if err != nil || len(early) > socketReadBuffer {
		h.failed = errors.Join(err, errors.New("too much came before the answer"))
		return nil, nil, errors.Join(h.failed, conn.Close())
	}
	reader := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), socketReadBuffer)
	if _, err := reader.Peek(len(early)); err != nil { // into the buffer, where it is looked for
		h.failed = err
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, bufio.NewReadWriter(reader, bufio.NewWriterSize(conn, socketWriteBuffer)), nil
}
