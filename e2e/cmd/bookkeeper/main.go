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
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const usage = `bookkeeper reads order-events and keeps tables of orders and of sold units per product, in the schema "bookkeeper" of a Postgres of its own.
Stop and start it, kill it, run several: the tables stay right. It ends with 1 when the events contradict each other or its tables.

  BOOKKEEPER_POSTGRES_URL   where the tables are, such as postgres://user:password@host:5432/shop

Example, beside "make run", in the maintenance database of its Postgres:
  BOOKKEEPER_POSTGRES_URL='postgres://hanjul@127.0.0.1:15432/postgres?sslmode=disable' go run hanjul/e2e/cmd/bookkeeper

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
	postgres     string
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
	flags.DurationVar(&o.session, "session", 10*time.Second, "how long Kafka waits for a member that gives no sign of life; brokers allow 6s and more")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.brokers, o.postgres = strings.Split(brokers, ","), getenv("BOOKKEEPER_POSTGRES_URL")
	var faults []error
	if flags.NArg() > 0 {
		faults = append(faults, fmt.Errorf("expected flags only, got %q", flags.Arg(0)))
	}
	if o.session < time.Second {
		faults = append(faults, fmt.Errorf("-session: expected 1s or more, got %s", o.session))
	}
	if o.postgres == "" {
		faults = append(faults, errors.New("BOOKKEEPER_POSTGRES_URL: expected the address of a Postgres"))
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

func keep(ctx context.Context, o options, log *slog.Logger) (err error) {
	pool, err := pgxpool.New(ctx, o.postgres)
	if err != nil {
		return fmt.Errorf("BOOKKEEPER_POSTGRES_URL: %w", err)
	}
	defer pool.Close()
	b := &books{pool: pool, log: log}
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
	reader := newReader(o, log)
	defer func() { err = errors.Join(err, reader.Close()) }()
	return read(ctx, reader, b)
}
