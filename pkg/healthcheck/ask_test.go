package healthcheck_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
	"hanjul/pkg/healthcheck"
	"hanjul/pkg/httpserver"
)

func run(t *testing.T, environ []string, args ...string) (code int, out string) {
	t.Helper()
	c := healthcheck.Command{Binary: "queue-api", Service: "API", Listen: func(s *config.Source) string {
		return s.Addr("ADMIN_LISTEN", "127.0.0.1:1", "the admin port")
	}}
	var text bytes.Buffer
	code = c.Run(t.Context(), args, environ, &text, &text)
	return code, text.String()
}

// The admin port of a process answers under whatever address it was told to listen on, also while it is not ready.
func TestRunAsksTheAdminPort(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "", "0.0.0.0", "localhost", "[::]"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			gate := httpserver.NewGate(0) // closed: not ready
			server := httpserver.NewAdmin(slog.New(slog.DiscardHandler), host+":0", prometheus.NewRegistry(), gate.Check())
			ended := make(chan error, 1)
			go func() { ended <- server.Run(t.Context()) }()
			ready := make(chan error, 1)
			go func() { ready <- server.Ready(t.Context()) }()
			select {
			case err := <-ended:
				localtest.Skip(t, "this machine has no such address: "+err.Error())
			case err := <-ready:
				if err != nil {
					t.Fatal(err)
				}
			}
			_, port, err := net.SplitHostPort(server.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			// A typing error in another setting is the service's to tell, not this question's.
			code, out := run(t, []string{"HANJUL_API_ADMIN_LISTEN=" + host + ":" + port, "HANJUL_API_LITSEN=:1"}, "--timeout", "30s")
			if code != 0 || out != "ok\n" {
				t.Fatal(code, out)
			}
		})
	}
}

func TestRunTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	sick := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(sick.Close)
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		code    int
		says    string
	}{
		{"NobodyThere", nil, nil, 1, "connection refused"},
		{"AnotherAnswer", []string{"HANJUL_ADMIN_LISTEN=" + strings.TrimPrefix(sick.URL, "http://")}, nil, 1, "404"},
		{"NoTimeLeft", nil, []string{"--timeout", "0s"}, 2, "--timeout: found 0s, expected more than 0s and at most 1m0s"},
		{"AnArgument", nil, []string{"now"}, 2, `unexpected argument "now"`},
		{"AnUnknownFlag", nil, []string{"--no"}, 2, "not defined"},
		{"AWrongAddress", []string{"HANJUL_API_ADMIN_LISTEN=no"}, nil, 2, "HANJUL_API_ADMIN_LISTEN: found \"no\", expected host:port"},
		{"APortThatNobodyKnows", []string{"HANJUL_ADMIN_LISTEN=:0"}, nil, 2, "HANJUL_ADMIN_LISTEN: expected a port that is known beforehand"},
		{"Help", nil, []string{"-help"}, 0, "queue-api healthcheck --timeout 5s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if code, out := run(t, c.environ, c.args...); code != c.code || !strings.Contains(out, c.says) {
				t.Fatal(code, out)
			}
		})
	}
}
