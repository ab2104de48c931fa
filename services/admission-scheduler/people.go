package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"hanjul/pkg/commandline"
	"hanjul/pkg/product"
)

const peopleName, peopleSummary = "people", "put somebody out of a line, or let them in again, by way of the operators' desk"

const peopleHelp = `People of a line, as operators may have to treat them. Each change is one call at the operators' desk of a scheduler that runs.

  people evict PRODUCT USER   put somebody out, and keep them out for a while (--for or --until)
  people unban PRODUCT USER   let somebody join again, at the end of the line

USER is the id by which the shop knows the person. An eviction takes the place and makes an unused pass worthless; an order that was sent is judged all
the same. Let it last a day at least where somebody must not come back with an old ticket after a loss of Redis. --reason is kept in the audit trail and
shown to nobody. All passes of a line are made worthless by: products revoke-passes.

Settings: HANJUL_OPERATOR_URL (http://localhost:8081 without it), HANJUL_OPERATOR_TOKEN or HANJUL_OPERATOR_TOKEN_FILE.
A change that nobody answered may be asked for again with the --request-id that is printed: it is done at most once.

Examples:
  admission-scheduler people evict demo ada --for 24h --reason "forty orders a second"
  admission-scheduler people evict demo ada --until 2030-01-31T12:00:00Z --json
  admission-scheduler people unban demo ada

`

// person is a subcommand of people as it was typed.
type person struct {
	asking
	verb, user, reason, until string
	product                   product.ID
	length                    time.Duration
}

// people runs one subcommand.
func people(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	p, err := readPeople(args, stderr)
	return runAtDesk(peopleName+" "+p.verb, err, func(c deskConfig) error { return p.do(ctx, c, stdout) }, environ, stderr)
}

// readPeople reads what was typed, and tells what is wrong with it.
func readPeople(args []string, stderr io.Writer) (p person, err error) {
	p.verb, args, err = commandline.Verb(peopleName, peopleHelp, []string{"evict", "unban"}, args, stderr)
	if err != nil {
		return p, err
	}
	flags := flag.NewFlagSet(peopleName+" "+p.verb, flag.ContinueOnError)
	p.declare(flags, "request-id")
	if p.verb == "evict" {
		flags.DurationVar(&p.length, "for", 0, "how `long` it lasts, such as 24h; at most ten years")
		flags.StringVar(&p.until, "until", "", "the `time` when it ends, such as 2030-01-31T12:00:00Z; instead of --for")
		flags.StringVar(&p.reason, "reason", "", "why, for the audit trail, at most 200 bytes")
	}
	words, err := commandline.Arguments{Flags: flags, Help: peopleHelp, Words: []string{"a product", "a user"}}.Read(args, stderr)
	if err != nil {
		return p, err
	}
	if err := p.check(words); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", flags.Name(), err)
		return p, commandline.ErrUsage
	}
	p.begin()
	return p, nil
}

// check holds what was typed against what the verb needs.
func (p *person) check(words []string) error {
	id, idErr := product.ParseID(words[0])
	user, userErr := product.ParseUserID(words[1])
	if err := errors.Join(idErr, userErr); err != nil {
		return err
	}
	p.product, p.user = id, string(user)
	switch {
	case p.verb != "evict":
	case (p.length == 0) == (p.until == ""):
		return errors.New("expected one of --for and --until")
	case p.until == "" && p.length < time.Millisecond:
		return errors.New("--for: expected a time from 1ms, such as 24h")
	case p.until != "":
		if _, err := time.Parse(time.RFC3339, p.until); err != nil {
			return fmt.Errorf("--until: expected a time such as 2030-01-31T12:00:00Z, found %q", p.until)
		}
	}
	return nil
}

// do asks the desk and prints its answer.
func (p person) do(ctx context.Context, c deskConfig, stdout io.Writer) error {
	body := map[string]any{"user": p.user}
	if p.length > 0 {
		body["for_ms"] = p.length.Milliseconds()
	}
	if p.until != "" {
		body["until"] = p.until
	}
	if p.reason != "" {
		body["reason"] = p.reason
	}
	answer, err := p.call(ctx, c, http.MethodPost, "/v1/products/"+url.PathEscape(string(p.product))+"/"+p.verb, body)
	if err != nil {
		return err
	}
	var said struct {
		Until  *time.Time `json:"banned_until"`
		Repeat bool       `json:"repeat"`
	}
	if done, err := read(stdout, answer, p.asJSON, &said); done {
		return err
	}
	t := commandline.NewTable(stdout)
	t.Line("PRODUCT", "USER", "MAY JOIN", "REQUEST ID", "DONE")
	from := "now"
	if said.Until != nil {
		from = "from " + said.Until.UTC().Format(time.RFC3339)
	}
	when := "now"
	if said.Repeat {
		when = "before"
	}
	t.Line(p.product, p.user, from, p.requestID, when)
	return t.End()
}
