package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hanjul/deploy/local"
)

const deployPage = "docs/deploy.md"

// stop is a row of the table of stops in docs/deploy.md.
type stop struct {
	service              string
	drain, within, grant time.Duration
}

// TestStops compares the table of stops with what each binary says, and every period that a manifest of ours grants with the table.
func TestStops(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, deployPage))
	if err != nil {
		t.Fatal(err)
	}
	var table []stop
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| `READY_DRAIN=(\\w+)` \\| (\\w+) \\| (\\w+) \\|$").FindAllStringSubmatch(string(page), -1) {
		table = append(table, stop{row[1], span(t, row[2]), span(t, row[3]), span(t, row[4])})
	}
	if len(table) != len(services) {
		t.Fatalf("%s has a table of %d stops, expected one of each service", deployPage, len(table))
	}
	keys, err := local.EnsureKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	environ := map[string][]string{
		"queue-api":           {"HANJUL_IDENTITY=local", "HANJUL_KEY_ORDER_FILE=" + keys.Order, "HANJUL_KEY_TICKET_FILE=" + keys.Ticket, "HANJUL_KEY_PASS_FILE=" + keys.Pass},
		"admission-scheduler": {"HANJUL_IDENTITY=local", "HANJUL_OPERATOR_TOKENS_FILE=" + keys.OperatorTokens},
		"order-consumer":      {"HANJUL_PASS_JWKS_FILE=" + keys.PassJWKS},
	}
	var most time.Duration
	for _, s := range table {
		if !slices.ContainsFunc(services, func(path string) bool { return filepath.Base(path) == s.service }) {
			t.Fatalf("%s tells how %s stops, which is no service", deployPage, s.service)
		}
		binary := built(t, s.service)
		said, err := combined("env", slices.Concat(environ[s.service], []string{
			"HANJUL_REDIS_ADDRS=127.0.0.1:1", "HANJUL_KAFKA_BROKERS=127.0.0.1:1", "HANJUL_POSTGRES_URL=postgres://x@127.0.0.1:1/x",
			"HANJUL_KEY_USER_FILE=" + keys.User, "HANJUL_KEY_COMMAND_FILE=" + keys.Command, "HANJUL_READY_DRAIN=" + s.drain.String(), binary, "-validate",
		})...)
		if err != nil {
			t.Fatal(s.service, err, said)
		}
		within := regexp.MustCompile(`(?m)^stops within (\w+);`).FindStringSubmatch(said)
		if within == nil {
			t.Fatalf("%s -validate does not say how long a stop may take: %s", s.service, said)
		}
		if got := span(t, within[1]); got != s.within {
			t.Errorf("%s: %s stops within %s, the binary says %s", deployPage, s.service, s.within, got)
		}
		if s.grant <= s.within {
			t.Errorf("%s: %s is granted %s and may need %s", deployPage, s.service, s.grant, s.within)
		}
		most = max(most, s.grant)
	}
	for _, pattern := range []string{"docker-compose.yml", "deploy/*.yaml", "deploy/*.yml"} {
		for _, name := range files(t, pattern) {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, period := range regexp.MustCompile(`(?m)^\s*(terminationGracePeriodSeconds|stop_grace_period): *"?(\w+)"?`).FindAllStringSubmatch(string(text), -1) {
				granted := period[2]
				if strings.HasSuffix(period[1], "Seconds") {
					granted += "s"
				}
				if span(t, granted) < most {
					t.Errorf("%s: %s is %s, expected at least the %s of %s", name, period[1], granted, most, deployPage)
				}
			}
		}
	}
}

func span(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
