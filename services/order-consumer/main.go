// order-consumer is the till: it judges the commands of the topic orders in the ledger, tells Redis what was decided, publishes
// the facts, and brings back what Redis lost. Any number of it may run beside each other; the partitions are shared out between
// them. It comes after queue-api and the operators' desk in the flow. Its subcommands prepare what it runs on and check its books.
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

	"hanjul/pkg/config"
	"hanjul/pkg/healthcheck"
	"hanjul/pkg/lifecycle"
	"hanjul/pkg/telemetry"
)

// Set by the linker.
var version, revision string

const (
	exitFailed = 1 // it ran, and something went wrong
	exitUsage  = 2 // it never ran: wrong arguments or settings
)

// environment is what a command may touch of the process.
type environment struct {
	environ        []string
	stdout, stderr io.Writer
	build          telemetry.Build
	stdin          io.Reader // where a question is answered
}

// command is one subcommand. run returns the exit code; it is asked for with -h too and then only prints its help.
type command struct {
	name, summary string
	run           func(ctx context.Context, e environment, args []string) int
}

// commands are the subcommands, in the order of a first day.
func commands() []command {
	return []command{
		{"migrate", "bring the ledger's schema to this build's version", migrate},
		{"topics", "make or check the topics", topics},
		{"dead-letters", "list, show, redrive and drop commands that could not be processed", deadLetters},
		{"orders", "show what is known of an order", orders},
		{"audit", "hold a product's books against the promises", auditBooks},
		{"outbox", "show what is published and what waits; publish events again", outboxCommand},
		{healthcheck.Name, healthcheck.Summary, health},
	}
}

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, release := lifecycle.OnSignals(context.Background(), signals, os.Exit)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	e := environment{environ, stdout, stderr, telemetry.NewBuild(version, revision), os.Stdin}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(ctx, e, args[1:])
			}
		}
		_, _ = fmt.Fprintf(stderr, "unknown subcommand %q; -help lists those there are\n", args[0])
		return exitUsage
	}
	return serve(ctx, e, args)
}

// serve runs the service itself.
func serve(ctx context.Context, e environment, args []string) int {
	flags := flag.NewFlagSet("order-consumer", flag.ContinueOnError)
	flags.SetOutput(e.stderr)
	validate := flags.Bool("validate", false, "check the settings, print every fault, or how long a stop may take, and end")
	showVersion := flags.Bool("version", false, "print the version and end")
	flags.Usage = func() { usage(flags) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(e.stderr, "unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	if *showVersion {
		_, _ = fmt.Fprintln(e.stdout, "order-consumer", e.build)
		return 0
	}
	source := config.NewSource(e.environ, service)
	settings := loadConfig(source)
	if err := source.Err(); err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitUsage
	}
	if *validate {
		for _, warning := range source.Warnings() {
			_, _ = fmt.Fprintln(e.stderr, "warning:", warning)
		}
		app, err := newApp(slog.New(slog.DiscardHandler), settings, e.build)
		if err != nil {
			_, _ = fmt.Fprintln(e.stderr, err)
			return exitFailed
		}
		app.end()
		_, _ = fmt.Fprintln(e.stdout, "settings: ok")
		_, _ = fmt.Fprintf(e.stdout, "stops within %s; whatever ends it by force must wait longer\n", lifecycle.StopWithin(app.components...))
		return 0
	}
	logger := telemetry.NewLogger(e.stderr, settings.LogLevel, "order-consumer", e.build.Version)
	logger.Info("starting", source.LogAttr())
	for _, warning := range source.Warnings() {
		logger.Warn("setting", "warning", warning)
	}
	app, err := newApp(logger, settings, e.build)
	if err != nil {
		logger.Error("not started", "err", err)
		return exitFailed
	}
	if err := app.Run(ctx); err != nil {
		logger.Error("ended", "err", err)
		return exitFailed
	}
	logger.Info("ended")
	return 0
}

// usage prints subcommands, flags and every setting.
func usage(flags *flag.FlagSet) {
	w := flags.Output()
	_, _ = fmt.Fprintln(w, "order-consumer judges orders, publishes what was decided, and brings back what Redis lost.")
	_, _ = fmt.Fprintln(w, "\nSubcommands (order-consumer SUBCOMMAND -help tells more); without one the service runs:")
	for _, c := range commands() {
		_, _ = fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
	}
	_, _ = fmt.Fprintln(w, "\nFlags:")
	flags.PrintDefaults()
	_, _ = fmt.Fprintln(w, "\nSettings, from the environment:")
	source := config.NewSource(nil, service)
	loadConfig(source)
	// The terminal may be gone; there is nobody left to tell.
	_ = source.WriteHelp(w)
}

// health asks the process that runs beside this one.
func health(ctx context.Context, e environment, args []string) int {
	return healthcheck.Command{Binary: "order-consumer", Service: service, Listen: adminListen}.Run(ctx, args, e.environ, e.stdout, e.stderr)
}

// settings reads what a subcommand needs and no more. ok is false when a setting is at fault; that was printed.
func settings[T any](e environment, load func(*config.Source) T) (value T, ok bool) {
	value, err := config.Only(e.environ, service, load)
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return value, false
	}
	return value, true
}
