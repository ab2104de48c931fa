package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"hanjul/pkg/config"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

const lettersHelp = `Commands that could not be processed are parked as dead letters: they stay pending, with their units held, until an operator decides.

  dead-letters list          which there are
  dead-letters show ID       one of them, with its record
  dead-letters redrive ID    send it again as it was, once what was wrong is put right
  dead-letters drop ID       give it up: a parked order is rejected (failed), its units are given back, its user reads it

What never verified (no order and no command id) can only be dropped. What has a verdict cannot be redriven.
Needs the settings POSTGRES_*, TOPIC_ORDERS where it is not "orders", and to drop KEY_COMMAND.

Examples:
  order-consumer dead-letters list --product demo
  order-consumer dead-letters show 7 --json
  order-consumer dead-letters redrive 7 --operator kim
  order-consumer dead-letters drop 7 --request-id incident-12

`

func deadLetters(ctx context.Context, e environment, args []string) int {
	return choose(ctx, e, "dead-letters", lettersHelp, []verb{
		{"list", listLetters}, {"show", showLetter}, {"redrive", redriveLetter}, {"drop", dropLetter},
	}, args)
}

// lettersConfig is what dead-letters needs, and no more.
type lettersConfig struct {
	postgres postgres.Address
	orders   string
}

func loadLetters(s *config.Source) lettersConfig {
	return lettersConfig{postgres.Read(s), topicOrders(s)}
}

func (c lettersConfig) open(ctx context.Context) (*ledger.Ledger, error) {
	if err := fitsPostgres(ctx, c.postgres); err != nil {
		return nil, err
	}
	return ledger.Open(ctx, c.postgres, ledger.Config{
		Pool: postgres.Config{Name: "order-consumer-operator", MaxConns: 1}, Topics: ledger.Topics{Orders: c.orders},
	})
}

func listLetters(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("dead-letters list", flag.ContinueOnError)
	id := flags.String("product", "", "only those of this `product`")
	state := flags.String("state", ledger.LetterParked, "parked, redriven, dropped or all")
	after := flags.Int64("after", 0, "only those behind this `id`, for the next page")
	limit := flags.Int("limit", 100, "at most so many, 1 to 1000")
	asJSON := flags.Bool("json", false, "print one JSON document instead of a table")
	if code, done := parse(e, flags, lettersHelp, args); done {
		return code
	}
	query := ledger.LetterQuery{Product: product.ID(*id), State: *state, After: *after, Limit: *limit}
	switch *state {
	case ledger.LetterParked, ledger.LetterRedriven, ledger.LetterDropped:
	case "all":
		query.State = ""
	default:
		return fail(e, exitUsage, errors.New("dead-letters list: --state: expected parked, redriven, dropped or all"))
	}
	if *limit < 1 || *limit > 1000 {
		return fail(e, exitUsage, errors.New("dead-letters list: --limit: expected a number from 1 to 1000"))
	}
	c, ok := settings(e, loadLetters)
	if !ok {
		return exitUsage
	}
	books, err := c.open(ctx)
	if err != nil {
		return fail(e, exitFailed, err)
	}
	defer books.Close()
	page, err := books.Letters(ctx, query)
	if err == nil {
		err = printLetters(e.stdout, page, *asJSON)
	}
	if err != nil {
		return fail(e, exitFailed, err)
	}
	if len(page) == *limit && !*asJSON {
		_, _ = fmt.Fprintf(e.stderr, "there may be more: --after %d\n", page[len(page)-1].ID)
	}
	return 0
}

func showLetter(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("dead-letters show", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print one JSON document instead of lines")
	text, code, done := parseOne(e, flags, lettersHelp, "a dead letter's id", args)
	if done {
		return code
	}
	id, err := letterID(flags.Name(), text)
	if err != nil {
		return fail(e, exitUsage, err)
	}
	c, ok := settings(e, loadLetters)
	if !ok {
		return exitUsage
	}
	books, err := c.open(ctx)
	if err != nil {
		return fail(e, exitFailed, err)
	}
	defer books.Close()
	letter, err := books.Letter(ctx, id)
	if err == nil {
		err = printLetter(e.stdout, letter, *asJSON)
	}
	if err != nil {
		return fail(e, exitFailed, err)
	}
	return 0
}

func redriveLetter(ctx context.Context, e environment, args []string) int {
	a, asJSON, code, done := letterAction(e, "dead-letters redrive", args)
	if done {
		return code
	}
	c, ok := settings(e, loadLetters)
	if !ok {
		return exitUsage
	}
	return c.act(ctx, e, a, asJSON, func(books *ledger.Ledger) (ledger.LetterResult, error) { return books.Redrive(ctx, a) })
}

func dropLetter(ctx context.Context, e environment, args []string) int {
	a, asJSON, code, done := letterAction(e, "dead-letters drop", args)
	if done {
		return code
	}
	type dropping struct {
		lettersConfig
		key keyring.Key
	}
	c, ok := settings(e, func(s *config.Source) dropping { return dropping{loadLetters(s), commandKeys(s).Current()} })
	if !ok {
		return exitUsage
	}
	return c.act(ctx, e, a, asJSON, func(books *ledger.Ledger) (ledger.LetterResult, error) {
		letter, err := books.Letter(ctx, a.Letter)
		if err != nil {
			return ledger.LetterResult{}, err
		}
		command, err := dropCommand(letter, a.RequestID, c.key)
		if err != nil {
			return ledger.LetterResult{}, err
		}
		return books.Drop(ctx, a, command)
	})
}

// dropCommand makes the signed drop of a parked order; any other letter needs none. Whose order it is, its record says, which verified.
func dropCommand(letter ledger.Letter, request string, key keyring.Key) ([]byte, error) {
	if letter.OrderID == "" {
		return nil, nil
	}
	place, err := order.DecodeCommand(letter.Payload)
	if err != nil && place.Kind == "" {
		return nil, fmt.Errorf("dead letter %d: %w", letter.ID, err)
	}
	drop, err := order.Command{
		Kind: order.KindDrop, ID: request, Product: letter.Product, OrderID: letter.OrderID, User: place.User, AtMS: time.Now().UnixMilli(),
	}.Sign(key)
	if err != nil {
		return nil, fmt.Errorf("sign drop %s: %w", request, err)
	}
	return drop.Encode()
}

// letterAction reads what redrive and drop have in common.
func letterAction(e environment, name string, args []string) (a ledger.LetterAction, asJSON bool, code int, done bool) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&a.Operator, "operator", osUser(), "who asks, for the audit trail")
	flags.StringVar(&a.RequestID, "request-id", "", "1-128 characters; the same id again is done once (default: a new one)")
	flags.BoolVar(&asJSON, "json", false, "print one JSON document instead of a line")
	text, code, done := parseOne(e, flags, lettersHelp, "a dead letter's id", args)
	if done {
		return a, asJSON, code, true
	}
	var err error
	if a.Letter, err = letterID(name, text); err != nil {
		return a, asJSON, fail(e, exitUsage, err), true
	}
	if a.Operator == "" {
		return a, asJSON, fail(e, exitUsage, fmt.Errorf("%s: --operator: expected a name", name)), true
	}
	if a.RequestID == "" {
		a.RequestID = rand.Text()
	}
	return a, asJSON, 0, false
}

func letterID(name, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%s: expected a dead letter's id, got %q; dead-letters list shows them", name, text)
	}
	return id, nil
}

func (c lettersConfig) act(
	ctx context.Context, e environment, a ledger.LetterAction, asJSON bool, do func(*ledger.Ledger) (ledger.LetterResult, error),
) int {
	books, err := c.open(ctx)
	if err != nil {
		return fail(e, exitFailed, err)
	}
	defer books.Close()
	result, err := do(books)
	if err == nil {
		err = printResult(e.stdout, a, result, asJSON)
	}
	if err != nil {
		return fail(e, exitFailed, err)
	}
	return 0
}
