package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hanjul/pkg/config"
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
  products close PRODUCT               end the sale for good (--reason, --yes)
  products restock PRODUCT             add units, or take unsold ones away (--units)

Settings: HANJUL_OPERATOR_URL (http://localhost:8081 without it), HANJUL_OPERATOR_TOKEN or HANJUL_OPERATOR_TOKEN_FILE.
A change that nobody answered may be asked for again with the --request-id that is printed: it is done at most once.

Examples:
  admission-scheduler products list
  admission-scheduler products create demo --stock 500 rate=20 capacity=50
  admission-scheduler products set demo rate=40
  admission-scheduler products pause demo --reason "Back at 14:00"
  admission-scheduler products restock demo --units -20 --json

`

// answerWithin bounds one call, and answerMost its answer: a page of a thousand products is below it.
const (
	answerWithin = 15 * time.Second
	answerMost   = 8 << 20
)

// deskConfig is where the desk is, and who asks.
type deskConfig struct {
	url   *url.URL
	token config.Secret
}

func loadDesk(s *config.Source) deskConfig {
	c := deskConfig{token: s.Secret("OPERATOR_TOKEN", "a token", "an operator's own, one of OPERATOR_TOKENS")}
	text := s.String("OPERATOR_URL", "http://localhost:8081", "a URL", "the operators' desk of a scheduler")
	var err error
	if c.url, err = url.Parse(text); err != nil || c.url.Host == "" || c.url.Scheme != "http" && c.url.Scheme != "https" {
		s.Fault("OPERATOR_URL", "expected a URL such as http://localhost:8081, found %q", text)
	}
	return c
}

// asked is a subcommand as it was typed.
type asked struct {
	verb    string
	product product.ID
	values  []string // name=value

	after, reason, requestID    string
	limit                       int
	stock, units, version       int64
	asJSON, yes, hasUnits, help bool
}

// verbs are the subcommands, and the flags that each takes beside --json.
func verbs() map[string][]string {
	change := func(more ...string) []string { return append(more, "request-id", "if-version") }
	return map[string][]string{
		"list": {"after", "limit"}, "show": nil,
		"create": {"stock", "request-id"}, "set": {"request-id"},
		"open": change(), "pause": change("reason"), "resume": change(), "close": change("reason", "yes"),
		"halt": change(), "unhalt": change(), "restock": change("units"),
	}
}

// products runs one subcommand. The exit code is 0, 1 where the desk refused or did not answer, or 2 where nothing was asked.
func products(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	a, err := readProducts(args, stderr)
	switch {
	case err == nil && a.help:
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, err) // the terminal may be gone; there is nobody left to tell
		return exitUsage
	}
	c, err := config.Only(environ, service, loadDesk)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	if err := a.do(ctx, c, stdout); err != nil {
		_, _ = fmt.Fprintf(stderr, "products %s: %v\n", a.verb, err)
		return exitFailed
	}
	return 0
}

// readProducts reads what was typed; flags may stand before and behind the product.
func readProducts(args []string, stderr io.Writer) (asked, error) {
	if len(args) == 0 || strings.TrimLeft(args[0], "-") == "h" || strings.TrimLeft(args[0], "-") == "help" {
		_, _ = fmt.Fprint(stderr, productsHelp)
		if len(args) == 0 {
			return asked{}, errors.New("products: expected a subcommand")
		}
		return asked{help: true}, nil
	}
	a := asked{verb: args[0]}
	takes, known := verbs()[a.verb]
	if !known {
		return a, fmt.Errorf("products: unknown subcommand %q; -help lists those there are", a.verb)
	}
	flags := flag.NewFlagSet("products "+a.verb, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprint(stderr, productsHelp)
		flags.PrintDefaults()
	}
	flags.BoolVar(&a.asJSON, "json", false, "print the desk's answer as one JSON document")
	for _, name := range takes {
		a.declare(flags, name)
	}
	var words []string
	for rest := args[1:]; ; {
		switch err := flags.Parse(rest); {
		case errors.Is(err, flag.ErrHelp):
			a.help = true
			return a, nil
		case err != nil:
			return a, fmt.Errorf("products %s: %w", a.verb, err)
		}
		if flags.NArg() == 0 {
			break
		}
		words, rest = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	flags.Visit(func(f *flag.Flag) { a.hasUnits = a.hasUnits || f.Name == "units" || f.Name == "stock" })
	if err := a.check(words); err != nil {
		return a, fmt.Errorf("products %s: %w", a.verb, err)
	}
	return a, nil
}

func (a *asked) declare(flags *flag.FlagSet, name string) {
	switch name {
	case "after":
		flags.StringVar(&a.after, name, "", "only products behind this `id`, for the next page")
	case "limit":
		flags.IntVar(&a.limit, name, 100, "at most so many, 1 to 1000")
	case "reason":
		flags.StringVar(&a.reason, name, "", "shown to people, at most 200 bytes")
	case "yes":
		flags.BoolVar(&a.yes, name, false, "it is meant: a closed product is never opened again")
	case "stock":
		flags.Int64Var(&a.stock, name, 0, "`units` to begin with, at least 1")
	case "units":
		flags.Int64Var(&a.units, name, 0, "`units` to add; below 0 to take away")
	case "request-id":
		flags.StringVar(&a.requestID, name, "", "the `id` of an earlier try of this change; a new one without it")
	case "if-version":
		flags.Int64Var(&a.version, name, 0, "change nothing unless the settings have this `version`, as show tells it")
	}
}

// check holds what was typed against what the verb needs.
func (a *asked) check(words []string) error {
	if a.verb == "list" {
		if len(words) > 0 {
			return fmt.Errorf("unexpected argument %q", words[0])
		}
		return nil
	}
	if len(words) == 0 {
		return errors.New("expected a product")
	}
	id, err := product.ParseID(words[0])
	if err != nil {
		return err
	}
	a.product, a.values = id, words[1:]
	pairs := a.verb == "set" || a.verb == "create"
	for _, value := range a.values {
		if name, text, found := strings.Cut(value, "="); !pairs || !found || name == "" || !json.Valid([]byte(text)) {
			if pairs {
				return fmt.Errorf("%q: expected NAME=VALUE with a number, true or false", value)
			}
			return fmt.Errorf("unexpected argument %q", value)
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
	a.requestID = cmp.Or(a.requestID, rand.Text())
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
	for _, owned := range []string{"state", "reason", "orders_halted"} { // by calls of their own
		delete(read.Settings, owned)
	}
	return read.Settings, read.Version, nil
}

// call is one call at the desk. A change that has no answer may have been done; the error says how to ask again.
func (a asked) call(ctx context.Context, c deskConfig, method, path string, body map[string]any) (answer []byte, err error) {
	again := ""
	if method != http.MethodGet {
		again = fmt.Sprintf("; it may have been done: the same with --request-id %s asks again, and it is done at most once", a.requestID)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.url.String(), "/")+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	if method != http.MethodGet {
		r.Header.Set("Idempotency-Key", a.requestID)
		if a.version > 0 {
			r.Header.Set("If-Match", `"`+strconv.FormatInt(a.version, 10)+`"`)
		}
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(encoded)), int64(len(encoded))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, again)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or the error tells
	answer, err = io.ReadAll(io.LimitReader(response.Body, answerMost))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w%s", err, again)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, refused(response.StatusCode, answer, again)
	}
	return answer, nil
}

// refused puts a problem of the desk in words.
func refused(status int, answer []byte, again string) error {
	var p struct {
		Type, Title, Detail string
		Errors              []struct{ Field, Detail string }
	}
	if json.Unmarshal(answer, &p) != nil || p.Type == "" {
		return fmt.Errorf("the answer is %d, and no desk's: is HANJUL_OPERATOR_URL the operators' address of a scheduler?", status)
	}
	text := fmt.Sprintf("%s (%d): %s", p.Type, status, cmp.Or(p.Detail, p.Title))
	for _, e := range p.Errors {
		if line := e.Field + ": " + e.Detail; !strings.Contains(text, line) {
			text += "\n  " + line
		}
	}
	if status >= http.StatusInternalServerError {
		text += again
	}
	return errors.New(text)
}
