// Package healthcheck is the subcommand healthcheck of every binary: it asks the process that runs beside it, under the same
// settings, whether it lives. An image that holds nothing but the binary has no other program to ask with. It owns one
// question; what lives means is the admin port's to say (pkg/httpserver), and it never looks at a store.
package healthcheck

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"hanjul/pkg/config"
)

// Name is the subcommand.
const Name = "healthcheck"

// Summary is its line in a binary's help.
const Summary = "ask the process that runs beside this one whether it lives"

const (
	exitFailed = 1
	exitUsage  = 2

	timeoutMost = time.Minute
)

// Command says whose process is asked.
type Command struct {
	// Binary is the name in the help text, such as queue-api.
	Binary string
	// Service is its word in the names of settings, such as API.
	Service string
	// Listen reads the address of the admin port, and no other setting.
	Listen func(*config.Source) string
}

// Run asks once and returns the exit code: 0 when the process lives, 1 when it does not answer so in time, 2 for wrong
// arguments or settings. What is wrong is printed to stderr. Safe to repeat.
func (c Command) Run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	timeout := flags.Duration("timeout", 2*time.Second, "longest wait for the answer")
	flags.Usage = func() {
		_, _ = fmt.Fprintf(stderr, help, c.Service, c.Binary)
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(stderr, "%s: unexpected argument %q\n", Name, flags.Arg(0))
		return exitUsage
	case *timeout <= 0 || *timeout > timeoutMost:
		_, _ = fmt.Fprintf(stderr, "%s: --timeout: found %s, expected more than 0s and at most %s\n", Name, *timeout, timeoutMost)
		return exitUsage
	}
	addr, err := config.Only(environ, c.Service, c.load)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := ask(ctx, addr); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", c.Binary, err)
		return exitFailed
	}
	_, _ = fmt.Fprintln(stdout, "ok")
	return 0
}

const help = `Asks the process that runs beside this one, under the same settings, whether it lives (/healthz of ADMIN_LISTEN). It looks
at no store: a store that is away must restart nobody. For the health check of an image that has no other program in it.
Needs the setting HANJUL_%[1]s_ADMIN_LISTEN only, and that one has a default. Exit code 0: it lives. 1: it does not answer.

Examples:
  %[2]s healthcheck
  %[2]s healthcheck --timeout 5s

`

// load reads the address and refuses one that only the process itself knows.
func (c Command) load(s *config.Source) string {
	addr := c.Listen(s)
	if _, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		s.Fault("ADMIN_LISTEN", "expected a port that is known beforehand, found %s", addr)
	}
	return addr
}

// ask returns nil when the process at the address of an admin port says that it lives.
func ask(ctx context.Context, addr string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(addr)+"/healthz", nil)
	if err != nil {
		return err
	}
	// Without the environment's proxy: the process is on this machine.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", request.URL, answer.Status)
	}
	return nil
}

// reachable is where a listening address is reached from this machine: one for every interface is no address to call.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if ip != nil && ip.To4() != nil {
			host = "127.0.0.1"
		}
	}
	return net.JoinHostPort(host, port)
}
