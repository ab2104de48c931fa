package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
)

// TestSockets: what is no handshake is a problem as others are, a socket is opened for no page of another origin, and a reader who talks is
// turned away.
func TestSockets(t *testing.T) {
	t.Parallel()
	b, base := inLine(t, apitest.Options{Surface: func(c *httpapi.Config) {
		var err error
		if c.Origins, err = httpapi.NewOrigins([]string{shop}); err != nil {
			t.Fatal(err)
		}
	}})
	p := queue(t, b, 1)[0]
	address := streamURL(t, p)
	ask := func(change func(http.Header)) apitest.Answer {
		t.Helper()
		header := map[string]string{}
		asked := apitest.Handshake()
		change(asked)
		for name := range asked {
			header[name] = asked.Get(name)
		}
		return b.Do(t, apitest.Call{Method: http.MethodGet, Path: address, Header: header})
	}
	wantProblem(t, ask(func(h http.Header) { h.Set("Sec-WebSocket-Version", "8") }), http.StatusBadRequest, "malformed-request")
	wantProblem(t, ask(func(h http.Header) { h.Del("Sec-WebSocket-Key") }), http.StatusBadRequest, "malformed-request")
	wantProblem(t, ask(func(h http.Header) { h.Set("Connection", "close") }), http.StatusBadRequest, "malformed-request")
	for _, origin := range []string{"https://evil.example", "null"} {
		wantProblem(t, ask(func(h http.Header) { h.Set("Origin", origin) }), http.StatusForbidden, "origin-refused")
	}
	wantProblem(t, ask(func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") }), http.StatusForbidden, "origin-refused")

	conn, _, err := websocket.Dial(t.Context(), base+address, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {shop}}}) //nolint:bodyclose // there is none that must be
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if _, _, err = conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for err == nil { // the standing may change meanwhile
		_, _, err = conn.Read(t.Context())
	}
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Fatal(err)
	}
	apitest.Eventually(t, "gone", func() bool { return counted(t, b, httpapi.MetricLineEnds, "gone") == 1 })
}
