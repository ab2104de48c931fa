package apitest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// socket is the reading end of a WebSocket. One goroutine reads, so that pings are answered whatever the test does.
type socket struct {
	conn *websocket.Conn
	read chan Event // closed at the end; of a ping an event with a comment
	err  error      // why it ended, once read is closed
}

// WatchLineBySocket opens the stream of a stream_url as a WebSocket, as a browser does.
func WatchLineBySocket(t testing.TB, base, streamURL, lastEventID string) *Stream {
	t.Helper()
	k := &socket{read: make(chan Event, 10_000)}
	if lastEventID != "" {
		streamURL += "&last_event_id=" + url.QueryEscape(lastEventID)
	}
	conn, response, err := websocket.Dial(t.Context(), base+streamURL, &websocket.DialOptions{ //nolint:bodyclose // there is none that must be
		OnPingReceived: func(context.Context, []byte) bool { k.put(Event{Comment: "ping"}); return true },
	})
	if response == nil {
		check(t, err)
	}
	s := &Stream{Status: response.StatusCode, Header: response.Header, response: response}
	if err != nil {
		var body struct {
			Type string `json:"type"`
		}
		check(t, json.NewDecoder(response.Body).Decode(&body))
		s.Problem = body.Type
		return s
	}
	k.conn, s.socket = conn, k
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.run()
	}()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return s
}

func (k *socket) run() {
	defer close(k.read)
	for {
		_, text, err := k.conn.Read(context.Background())
		if k.err = err; err != nil {
			return
		}
		var e struct {
			Event, ID string
			Data      map[string]any
		}
		if k.err = json.Unmarshal(text, &e); k.err != nil {
			return
		}
		k.put(Event{ID: e.ID, Name: e.Event, Data: e.Data})
	}
}

// put keeps an event; of a test that reads nothing the newest are dropped.
func (k *socket) put(e Event) {
	select {
	case k.read <- e:
	default:
	}
}

func (k *socket) any(t testing.TB) Event {
	t.Helper()
	e, more := <-k.read
	if !more {
		t.Fatalf("the socket ended: %v", k.err)
	}
	return e
}

// end fails unless the socket was closed in one of the ways of an end that was told.
func (k *socket) end(t testing.TB) {
	t.Helper()
	for e := range k.read {
		if e.Name != "" {
			t.Fatalf("after the end: %+v", e)
		}
	}
	if code := websocket.CloseStatus(k.err); code != websocket.StatusNormalClosure && code != websocket.StatusServiceRestart {
		t.Fatal(k.err)
	}
}

// Handshake is the head of a call that asks for a WebSocket.
func Handshake() http.Header {
	h := http.Header{}
	for _, line := range strings.Split("Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Version: 13|Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "|") {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return h
}
