package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// demoProduct is the product that "run" keeps open.
const demoProduct = "demo"

// shop is the running hanjul, seen from outside.
type shop struct{ api, desk, token string }

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
	line := s.api + "/v1/products/" + demoProduct
	field := func(name string) string { return `sed -n 's/.*"` + name + `":"\([^"]*\)".*/\1/p'` }
	return `  TICKET=$(curl -s -X POST ` + line + `/queue -H 'Hanjul-User: alice' | ` + field("ticket") + `)
  until PASS=$(curl -s ` + line + `/queue -H 'Hanjul-User: alice' -H "Hanjul-Ticket: $TICKET" | ` + field("pass") + `); [ -n "$PASS" ]; do sleep 1; done
  ORDER=$(curl -s -X POST ` + line + `/orders -H 'Hanjul-User: alice' -H "Hanjul-Pass: $PASS" -H 'Content-Type: application/json' -d '{"quantity":1}' | ` + field("order_id") + `)
  curl -s ` + s.api + `/v1/orders/$ORDER -H 'Hanjul-User: alice'
`
}
