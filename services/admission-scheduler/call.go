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
)

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

// asking is what every call at the desk may have.
type asking struct {
	requestID string
	version   int64
	asJSON    bool
}

// declare makes the flags of a change; what is only read has --json alone.
func (a *asking) declare(flags *flag.FlagSet, names ...string) {
	flags.BoolVar(&a.asJSON, "json", false, "print the desk's answer as one JSON document")
	for _, name := range names {
		switch name {
		case "request-id":
			flags.StringVar(&a.requestID, name, "", "the `id` of an earlier try of this change; a new one without it")
		case "if-version":
			flags.Int64Var(&a.version, name, 0, "change nothing unless the settings have this `version`, as show tells it")
		}
	}
}

// begin gives a change the id under which it may be asked for again.
func (a *asking) begin() { a.requestID = cmp.Or(a.requestID, rand.Text()) }

// runAtDesk reads where the desk is and does what was read of the arguments. The exit code is 0, 1 where the desk refused or did not answer, or 2 where
// nothing was asked; readErr tells that, unless only help was asked for.
func runAtDesk(name string, readErr error, do func(deskConfig) error, environ []string, stderr io.Writer) int {
	switch {
	case errors.Is(readErr, flag.ErrHelp):
		return 0
	case readErr != nil:
		return exitUsage
	}
	c, err := config.Only(environ, service, loadDesk)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err) // the terminal may be gone; there is nobody left to tell
		return exitUsage
	}
	if err := do(c); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return exitFailed
	}
	return 0
}

// call is one call at the desk. A change that has no answer may have been done; the error says how to ask again.
func (a asking) call(ctx context.Context, c deskConfig, method, path string, body map[string]any) (answer []byte, err error) {
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
