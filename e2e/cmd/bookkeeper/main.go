// Command bookkeeper is an example of a reader of order-events, to be copied: it keeps tables of its own right, whatever comes twice, late, or
// again. It imports nothing of hanjul; what it knows of the events is what docs/messages.md and docs/schema say. docs/recipes.md
// explains it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	kafka "github.com/segmentio/kafka-go"
)

const usage = `bookkeeper reads order-events and keeps tables of orders and of sold units per product, in the schema "bookkeeper" of a Postgres of its own.
Stop and start it, kill it, run several: the tables stay right. It ends with 1 when the events contradict each other or its tables.

  BOOKKEEPER_POSTGRES_URL     where the tables are, such as postgres://user:password@host:5432/shop
  BOOKKEEPER_KAFKA_PASSWORD   the password of -user, who logs in to Kafka by SCRAM-SHA-512

With -pay-within it also bills confirmed orders, takes payments (PUT /orders/{order}/payments/{payment}) and has orders cancelled that are not paid in time.

  BOOKKEEPER_OPERATOR_TOKEN   an operator's token, for cancels; needed with -pay-within

Examples, beside "make run", in the maintenance database of its Postgres:
  export BOOKKEEPER_POSTGRES_URL='postgres://hanjul@127.0.0.1:15432/postgres?sslmode=disable'
  bin/bookkeeper
  BOOKKEEPER_OPERATOR_TOKEN=... bin/bookkeeper -pay-within 15m

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	brokers      []string
	topic, group string
	session      time.Duration
	dialer       *kafka.Dialer // nil: plain connections
	postgres     string

	payWithin               time.Duration
	listen, operator, token string
}

func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	var brokers string
	flags := flag.NewFlagSet("bookkeeper", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&brokers, "brokers", "127.0.0.1:19092", "Kafka's addresses, host:port, with commas between them")
	flags.StringVar(&o.topic, "topic", "order-events", "the topic of events")
	flags.StringVar(&o.group, "group", "bookkeeper", "the consumer group; a new one reads from the beginning, which changes nothing")
	entry := login{password: getenv("BOOKKEEPER_KAFKA_PASSWORD")}
	flags.BoolVar(&entry.encrypted, "tls", false, "reach Kafka over TLS")
	flags.StringVar(&entry.authority, "ca", "", "a file with PEM certificates of whoever signed Kafka's; empty: whom the system trusts")
	flags.StringVar(&entry.user, "user", "", "who logs in to Kafka, with BOOKKEEPER_KAFKA_PASSWORD; needs Read on the topic and on the group")
	flags.DurationVar(&o.session, "session", 10*time.Second, "how long Kafka waits for a member that gives no sign of life, at least 6s")
	flags.DurationVar(&o.payWithin, "pay-within", 0, "how long a confirmed order may stay unpaid, such as 15m; 0 bills nothing")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8070", "where payments are told, with -pay-within; for the shop's own machines only")
	flags.StringVar(&o.operator, "operator", "http://127.0.0.1:8081", "the operators' port of an admission-scheduler")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.brokers, o.postgres, o.token = strings.Split(brokers, ","), getenv("BOOKKEEPER_POSTGRES_URL"), getenv("BOOKKEEPER_OPERATOR_TOKEN")
	var faults []error
	var err error
	if o.dialer, err = entry.dialer(); err != nil {
		faults = append(faults, err)
	}
	if flags.NArg() > 0 {
		faults = append(faults, fmt.Errorf("expected flags only, got %q", flags.Arg(0)))
	}
	if o.session < 6*time.Second {
		faults = append(faults, fmt.Errorf("-session: expected 6s or more, got %s", o.session))
	}
	if o.postgres == "" {
		faults = append(faults, errors.New("BOOKKEEPER_POSTGRES_URL: expected the address of a Postgres"))
	}
	if o.payWithin < 0 {
		faults = append(faults, fmt.Errorf("-pay-within: expected 0 or more, got %s", o.payWithin))
	}
	if o.payWithin > 0 && o.token == "" {
		faults = append(faults, errors.New("BOOKKEEPER_OPERATOR_TOKEN: expected an operator's token, since -pay-within cancels orders"))
	}
	return o, errors.Join(faults...)
}

// run returns the exit code: 0 when asked to stop, 1 when the books stop, 2 for a wrong call.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) int {
	o, err := parse(args, getenv, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(out, "bookkeeper: %v\n", err)
		return 2
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	if err := keep(ctx, o, log); err != nil {
		log.Error("bookkeeper ends", slog.Any("err", err))
		return 1
	}
	return 0
}

// keep reads until ctx ends, and returns nil then; anything else that ends it is an error.
func keep(ctx context.Context, o options, log *slog.Logger) (err error) {
	pool, err := pgxpool.New(ctx, o.postgres)
	if err != nil {
		return fmt.Errorf("BOOKKEEPER_POSTGRES_URL: %w", err)
	}
	defer pool.Close()
	b := &books{pool: pool, log: log, payWithin: o.payWithin}
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("prepare the tables: %w", err)
	}
	gaps, err := b.openGaps(ctx)
	if err != nil {
		return fmt.Errorf("look for gaps: %w", err)
	}
	for _, g := range gaps {
		b.tell(g)
	}
	working, end := context.WithCancelCause(ctx)
	if o.payWithin > 0 {
		wait, err := till(working, end, o, b)
		if err != nil {
			end(nil)
			return err
		}
		defer wait()
	}
	defer end(nil)
	reader := newReader(o, log)
	err = errors.Join(read(working, reader, b), reader.Close())
	if ctx.Err() == nil && working.Err() != nil {
		err = errors.Join(err, context.Cause(working))
	}
	return err
}

// till takes payments and chases unpaid orders until ctx ends; wait returns when both have ended. When payments cannot be taken any more it
// ends the whole, rather than cancel orders that nobody can pay.
func till(ctx context.Context, end context.CancelCauseFunc, o options, b *books) (wait func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	d := desk{o.operator, o.token, &http.Client{Timeout: 10 * time.Second}}
	var tasks sync.WaitGroup
	tasks.Go(func() { chase(ctx, b, d) })
	tasks.Go(func() {
		if err := serve(ctx, listener, payments(b)); err != nil {
			end(fmt.Errorf("payments are no longer taken: %w", err))
		}
	})
	b.log.Info("payments are taken", slog.String("addr", listener.Addr().String()))
	return func() {
		tasks.Wait()
		d.client.CloseIdleConnections()
	}, nil
}
