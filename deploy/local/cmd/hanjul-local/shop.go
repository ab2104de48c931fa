package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"hanjul/deploy/local"
)

// demoProduct is the product that "run" keeps open.
const demoProduct = "demo"

// shop is the running hanjul, seen from outside. shown is the storefront's address in the lines to type, which need not be typed where
// this program runs; empty: api.
type shop struct{ api, desk, token, shown string }

const shopHelp = `usage: hanjul-local shop --api URL --desk URL --tokens FILE [--shown URL]

Opens the product "demo" with a stock of 100 where a running hanjul has none, and prints the lines that buy one. Running it again
changes nothing.

Example:
  hanjul-local shop --api http://queue-api:8080 --desk http://admission-scheduler:8081 --tokens /keys/operator.tokens --shown http://127.0.0.1:8080

`

// openShop is the subcommand shop.
func openShop(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprint(stderr, shopHelp)
		flags.PrintDefaults()
	}
	api := flags.String("api", "", "the storefront's base `URL`")
	desk := flags.String("desk", "", "the operators' base `URL`")
	tokens := flags.String("tokens", "", "the `file` with the operators' tokens")
	shown := flags.String("shown", "", "the storefront's base `URL` in the printed lines; empty: that of --api")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return 2, nil //nolint:nilerr // flag has printed it
	case flags.NArg() > 0:
		return 2, fmt.Errorf("shop: unexpected argument %q", flags.Arg(0))
	}
	for name, value := range map[string]string{"api": *api, "desk": *desk, "tokens": *tokens} {
		if value == "" {
			err = errors.Join(err, fmt.Errorf("shop: --%s is missing", name))
		}
	}
	if err != nil {
		return 2, err
	}
	token, err := local.Keys{OperatorTokens: *tokens}.OperatorToken()
	if err != nil {
		return 1, err
	}
	s := shop{api: *api, desk: *desk, token: token, shown: *shown}
	if err := s.open(ctx); err != nil {
		return 1, err
	}
	_, _ = fmt.Fprintf(stdout, "the product %q is open; buy one:\n\n%s", demoProduct, s.curls())
	return 0, nil
}

// open makes the demo product and opens it unless it is there. The operators'
// calls carry fixed request ids, so that a repeat after a crash between them
// changes nothing twice.
func (s shop) open(ctx context.Context) error {
	known, err := s.known(ctx)
	if err != nil || known {
		return err
	}
	product := s.desk + "/v1/products/" + demoProduct
	if err := s.operate(ctx, http.MethodPut, product, "hanjul-local-create", `{"stock":100}`); err != nil {
		return err
	}
	if err := s.operate(ctx, http.MethodPost, product+"/open", "hanjul-local-open", "{}"); err != nil {
		return err
	}
	return s.wait(ctx)
}

// known reports whether the storefront sells the demo product.
func (s shop) known(ctx context.Context) (bool, error) {
	code, said, err := call(ctx, http.MethodGet, s.api+"/v1/products/"+demoProduct, nil, "")
	switch {
	case err != nil:
		return false, err
	case code == http.StatusOK:
		return true, nil
	case code == http.StatusNotFound, code == http.StatusServiceUnavailable:
		return false, nil
	default:
		return false, fmt.Errorf("read the product %s: %d %s", demoProduct, code, said)
	}
}

// wait returns when the storefront sells the product: the scheduler copies it there.
func (s shop) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		known, err := s.known(ctx)
		if err != nil || known {
			return err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for the product %s: %w", demoProduct, ctx.Err())
		}
	}
}

func (s shop) operate(ctx context.Context, method, url, request, body string) error {
	code, said, err := call(ctx, method, url, http.Header{
		"Authorization": {"Bearer " + s.token}, "Idempotency-Key": {request}, "Content-Type": {"application/json"},
	}, body)
	if err != nil {
		return err
	}
	if code/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, url, code, said)
	}
	return nil
}

func call(ctx context.Context, method, url string, header http.Header, body string) (code int, said string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if header != nil {
		request.Header = header
	}
	client := http.Client{Timeout: 15 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	return answer.StatusCode, strings.TrimSpace(string(text)), errors.Join(err, answer.Body.Close())
}

// curls are four lines to type, one after the other: join, poll until
// admitted, order with the pass, read the verdict.
func (s shop) curls() string {
	base := cmp.Or(s.shown, s.api)
	line := base + "/v1/products/" + demoProduct
	field := func(name string) string { return `sed -n 's/.*"` + name + `":"\([^"]*\)".*/\1/p'` }
	return `  TICKET=$(curl -s -X POST ` + line + `/queue -H 'Hanjul-User: alice' | ` + field("ticket") + `)
  until PASS=$(curl -s ` + line + `/queue -H 'Hanjul-User: alice' -H "Hanjul-Ticket: $TICKET" | ` + field("pass") + `); [ -n "$PASS" ]; do sleep 1; done
  ORDER=$(curl -s -X POST ` + line + `/orders -H 'Hanjul-User: alice' -H "Hanjul-Pass: $PASS" -H 'Content-Type: application/json' -d '{"quantity":1}' | ` + field("order_id") + `)
  curl -s ` + base + `/v1/orders/$ORDER -H 'Hanjul-User: alice'
`
}
