package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// channel is the connection of one stream in line. One goroutine uses it. An error of a write that took too long is
// os.ErrDeadlineExceeded or context.DeadlineExceeded.
type channel interface {
	begin(retryMS int64) error // says the pause before a new connection, where the form has a word for it
	tell(e event) error
	beat() error           // a sign of life
	gone() <-chan struct{} // closed when the reader went away
	close(cause string)
}

// event is what is told at once.
type event struct {
	id, name string
	data     []byte
	retry    int64 // a pause in milliseconds that goes with it; 0 for none
}

// chatterMax is how many bytes a reader of server-sent events may send, who has nothing to say.
const chatterMax = 1024

// events writes server-sent events to a connection that is not the server's any more.
type events struct {
	conn  net.Conn
	limit time.Duration // of one write
	left  chan struct{}
}

// openEvents answers with the head of a stream of events and takes the connection. The end of the connection is the end of the answer.
func (a *API) openEvents(w http.ResponseWriter) (channel, error) {
	// The server's limit for a call may be over already; the head would not be written then, and what follows it would.
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(a.cfg.StreamWrite)); err != nil {
		return nil, fmt.Errorf("limit a write: %w", err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.Header().Set("Transfer-Encoding", "identity") // for the server, which does not send it: what follows has no chunks
	w.WriteHeader(http.StatusOK)
	conn, _, err := control.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take the connection of a stream: %w", err)
	}
	s := &events{conn: conn, limit: a.cfg.StreamWrite, left: make(chan struct{})}
	go s.wait()
	return s, nil
}

// wait reads until the reader goes.
func (s *events) wait() {
	defer close(s.left)
	chatter := make([]byte, 64)
	for read := 0; read < chatterMax; {
		n, err := s.conn.Read(chatter)
		if err != nil {
			return
		}
		read += n
	}
}

func (s *events) begin(retryMS int64) error {
	return s.write([]byte("retry: " + strconv.FormatInt(retryMS, 10) + "\n\n"))
}

func (s *events) tell(e event) error {
	text := make([]byte, 0, len(e.data)+96)
	if e.retry > 0 {
		text = append(text, "retry: "+strconv.FormatInt(e.retry, 10)+"\n"...)
	}
	if e.id != "" {
		text = append(text, "id: "+e.id+"\n"...)
	}
	text = append(text, "event: "+e.name+"\ndata: "...)
	return s.write(append(append(text, e.data...), "\n\n"...))
}

func (s *events) beat() error { return s.write([]byte(": still here\n\n")) }

func (s *events) gone() <-chan struct{} { return s.left }

func (s *events) close(string) { _ = s.conn.Close() }

func (s *events) write(text []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.limit)); err != nil {
		return fmt.Errorf("limit a write: %w", err)
	}
	if _, err := s.conn.Write(text); err != nil {
		return fmt.Errorf("write to a stream: %w", err)
	}
	return nil
}
