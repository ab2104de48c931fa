package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"hanjul/deploy/local"
	"hanjul/e2e/sale"
)

// given is a hanjul that runs already, as the environment names it.
type given struct {
	apis, desks, admins []string
	tokens, postgres    string
}

// parseGiven reads it; a zero value means that the demo starts its own. Every fault is told.
func parseGiven(getenv func(string) string) (g given, err error) {
	list := func(name string) []string {
		return strings.FieldsFunc(getenv(name), func(r rune) bool { return r == ',' })
	}
	g = given{apis: list("API"), desks: list("DESK"), admins: list("ADMINS"), tokens: getenv("TOKENS")}
	if len(g.apis)+len(g.desks)+len(g.admins)+len(g.tokens) == 0 {
		return g, nil
	}
	for name, urls := range map[string][]string{"API": g.apis, "DESK": g.desks} {
		for _, text := range urls {
			if parsed, errParse := url.Parse(text); errParse != nil || parsed.Host == "" {
				err = errors.Join(err, fmt.Errorf("%s: expected base URLs such as http://127.0.0.1:8080, got %q", name, text))
			}
		}
		if len(urls) == 0 {
			err = errors.Join(err, fmt.Errorf("%s: expected base URLs, since API, DESK, ADMINS or TOKENS name a hanjul that runs already", name))
		}
	}
	if g.tokens == "" {
		err = errors.Join(err, errors.New("TOKENS: expected the file with the operators' tokens"))
	}
	if g.postgres = getenv("HANJUL_POSTGRES_URL"); g.postgres == "" {
		err = errors.Join(err, errors.New("HANJUL_POSTGRES_URL: expected the ledger's address; the auditor needs every setting of order-consumer"))
	}
	if getenv("CHAOS") == "1" {
		err = errors.Join(err, errors.New("CHAOS: expected nothing, since API names a hanjul whose processes are not the demo's to kill"))
	}
	return g, err
}

func (g given) empty() bool { return len(g.apis) == 0 }

// stack is what the sale needs of it. The auditor is the order-consumer beside this program and takes this program's environment.
func (g given) stack(bin string) (sale.Stack, error) {
	token, err := local.Keys{OperatorTokens: g.tokens}.OperatorToken()
	if err != nil {
		return sale.Stack{}, err
	}
	return sale.OfGiven(sale.Given{
		APIs: g.apis, Desks: g.desks, Token: token, AdminAddrs: g.admins,
		Consumer: filepath.Join(bin, local.Consumer), Environ: os.Environ(), Postgres: g.postgres,
	}), nil
}

// runGiven sells on a hanjul that runs already.
func runGiven(ctx context.Context, o options, bin string, out io.Writer) (ok bool, err error) {
	target, err := o.given.stack(bin)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.data, 0o755); err != nil {
		return false, fmt.Errorf("folder for the journal: %w", err)
	}
	fmt.Fprintf(out, "selling on the hanjul at %s; the journal is in %s\n", strings.Join(o.given.apis, ", "), o.data)
	return sell(ctx, o, fresh(), target, out)
}
