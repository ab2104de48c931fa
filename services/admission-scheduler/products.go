package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hanjul/pkg/commandline"
	"hanjul/pkg/product"
)

const productsName, productsSummary = "products", "list, show and change products, by way of the operators' desk of a scheduler that runs"

const productsHelp = `Products, as operators see and change them. Each change is one call at the operators' desk of a scheduler that runs.

  products list                        all of them
  products show PRODUCT                one, with its settings and its line
  products create PRODUCT NAME=VALUE…  make one that is not open yet (--stock)
  products set PRODUCT NAME=VALUE…     change some settings and keep the others
  products open PRODUCT                let the sale begin
  products pause PRODUCT               stop admissions (--reason is shown to people); passes that are out still order
  products resume PRODUCT              let admissions go on
  products halt PRODUCT                let no pass become an order; the time of passes stands still
  products unhalt PRODUCT              let passes become orders again
  products queue-off PRODUCT           let people order without a pass; the line stands as it is
  products queue-on PRODUCT            let the line go on; orders need a pass again
  products close PRODUCT               end the sale for good (--reason, --yes)
  products restock PRODUCT             add units, or take unsold ones away (--units)
  products revoke-passes PRODUCT       make every pass worthless that is out; whoever is admitted is handed another at the next poll

Settings: HANJUL_OPERATOR_URL (http://localhost:8081 without it), HANJUL_OPERATOR_TOKEN or HANJUL_OPERATOR_TOKEN_FILE.
A change that nobody answered may be asked for again with the --request-id that is printed: it is done at most once.

Examples:
  admission-scheduler products list
  admission-scheduler products create demo --stock 500 rate=20 capacity=50
  admission-scheduler products set demo rate=40
  admission-scheduler products pause demo --reason "Back at 14:00"
  admission-scheduler products restock demo --units -20 --json

`

// asked is a subcommand as it was typed.
type asked struct {
	asking
	verb    string
	product product.ID
	values  []string // name=value

	after, reason string
	limit         int
	stock, units  int64
	yes, hasUnits bool
}

// verbs are the subcommands, and the flags that each takes beside --json.
func verbs() map[string][]string {
	change := func(more ...string) []string { return append(more, "request-id", "if-version") }
	return map[string][]string{
		"list": {"after", "limit"}, "show": nil,
		"create": {"stock", "request-id"}, "set": {"request-id"},
		"open": change(), "pause": change("reason"), "resume": change(), "close": change("reason", "yes"),
		"halt": change(), "unhalt": change(), "queue-off": change(), "queue-on": change(),
		"restock": change("units"), "revoke-passes": change("reason"),
	}
}

// products runs one subcommand.
func products(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	a, err := readProducts(args, stderr)
	return runAtDesk("products "+a.verb, err, func(c deskConfig) error { return a.do(ctx, c, stdout) }, environ, stderr)
}

// readProducts reads what was typed, and tells what is wrong with it.
func readProducts(args []string, stderr io.Writer) (a asked, err error) {
	all := verbs()
	a.verb, args, err = commandline.Verb(productsName, productsHelp, slices.Sorted(maps.Keys(all)), args, stderr)
	if err != nil {
		return a, err
	}
	flags := flag.NewFlagSet(productsName+" "+a.verb, flag.ContinueOnError)
	a.asking.declare(flags, all[a.verb]...)
	for _, name := range all[a.verb] {
		a.declare(flags, name)
	}
	takes := commandline.Arguments{Flags: flags, Help: productsHelp, Words: []string{"a product"}, More: a.verb == "set" || a.verb == "create"}
	if a.verb == "list" {
		takes.Words = nil
	}
	words, err := takes.Read(args, stderr)
	if err != nil {
		return a, err
	}
	flags.Visit(func(f *flag.Flag) { a.hasUnits = a.hasUnits || f.Name == "units" || f.Name == "stock" })
	if err := a.check(words); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", flags.Name(), err)
		return a, commandline.ErrUsage
	}
	a.begin()
	return a, nil
}

func (a *asked) declare(flags *flag.FlagSet, name string) {
	switch name {
	case "after":
		flags.StringVar(&a.after, name, "", "only products behind this `id`, for the next page")
	case "limit":
		flags.IntVar(&a.limit, name, 100, "at most so many, 1 to 1000")
	case "reason":
		flags.StringVar(&a.reason, name, "", "shown to people (of revoke-passes: kept in the audit trail), at most 200 bytes")
	case "yes":
		flags.BoolVar(&a.yes, name, false, "it is meant: a closed product is never opened again")
	case "stock":
		flags.Int64Var(&a.stock, name, 0, "`units` to begin with, at least 1")
	case "units":
		flags.Int64Var(&a.units, name, 0, "`units` to add; below 0 to take away")
	}
}

// check holds what was typed against what the verb needs.
func (a *asked) check(words []string) error {
	if a.verb == "list" {
		return nil
	}
	id, err := product.ParseID(words[0])
	if err != nil {
		return err
	}
	a.product, a.values = id, words[1:]
	for _, value := range a.values {
		if name, text, found := strings.Cut(value, "="); !found || name == "" || !json.Valid([]byte(text)) {
			return fmt.Errorf("%q: expected NAME=VALUE with a number, true or false", value)
		}
	}
	switch {
	case a.verb == "set" && len(a.values) == 0:
		return errors.New("expected NAME=VALUE; show lists the settings there are")
	case a.verb == "create" && (!a.hasUnits || a.stock < 1):
		return errors.New("--stock: expected a number of units from 1")
	case a.verb == "restock" && a.units == 0:
		return errors.New("--units: expected a number of units, not 0")
	case a.verb == "close" && !a.yes:
		return errors.New("a closed product is never opened again; add --yes if it is meant")
	}
	return nil
}

// do asks the desk and prints its answer.
func (a asked) do(ctx context.Context, c deskConfig, stdout io.Writer) error {
	one := "/v1/products/" + url.PathEscape(string(a.product))
	body := map[string]any{}
	switch a.verb {
	case "list":
		query := url.Values{"limit": {strconv.Itoa(a.limit)}}
		if a.after != "" {
			query.Set("after", a.after)
		}
		answer, err := a.call(ctx, c, http.MethodGet, "/v1/products?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		return printProducts(stdout, answer, a.asJSON)
	case "show":
		answer, err := a.call(ctx, c, http.MethodGet, one, nil)
		if err != nil {
			return err
		}
		return printProduct(stdout, answer, a.asJSON)
	case "set":
		// What is not named is kept: the desk takes whole settings, and none but of the version that was read.
		kept, version, err := a.settings(ctx, c, one)
		if err != nil {
			return err
		}
		body, a.version = kept, version
	case "create":
		body["stock"] = a.stock
	case "restock":
		body["units"] = a.units
	}
	if a.reason != "" {
		body["reason"] = a.reason
	}
	for _, value := range a.values {
		name, text, _ := strings.Cut(value, "=")
		body[name] = json.RawMessage(text)
	}
	method, path := http.MethodPost, one+"/"+a.verb
	if a.verb == "set" || a.verb == "create" {
		method, path = http.MethodPut, one
	}
	answer, err := a.call(ctx, c, method, path, body)
	if err != nil {
		return err
	}
	return printChange(stdout, answer, a.asJSON)
}

// settings reads those that PUT takes, and their version.
func (a asked) settings(ctx context.Context, c deskConfig, path string) (map[string]any, int64, error) {
	answer, err := a.call(ctx, c, http.MethodGet, path, nil)
	if err != nil {
		return nil, 0, err
	}
	var read struct {
		Settings map[string]any `json:"settings"`
		Version  int64          `json:"settings_v"`
	}
	if err := json.Unmarshal(answer, &read); err != nil {
		return nil, 0, fmt.Errorf("read the settings: %w", err)
	}
	for _, owned := range []string{"state", "reason", "orders_halted", "queue_on"} { // by calls of their own
		delete(read.Settings, owned)
	}
	return read.Settings, read.Version, nil
}
