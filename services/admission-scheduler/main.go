// admission-scheduler is the gate of every line and the operators' desk: it lets people through at the pace their product's
// settings allow, opens lines and restores those that Redis lost, and takes what operators change. Any number of it may run
// beside each other. It comes after queue-api's join in the flow and before its status; it judges nothing and sells nothing.
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

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func run(args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == healthcheck.Name {
		return health().Run(context.Background(), args[1:], environ, stdout, stderr)
	}
	if len(args) > 0 && args[0] == productsName {
		return products(context.Background(), args[1:], environ, stdout, stderr)
	}
	if len(args) > 0 && args[0] == peopleName {
		return people(context.Background(), args[1:], environ, stdout, stderr)
	}
	flags := flag.NewFlagSet("admission-scheduler", flag.ContinueOnError)
	flags.SetOutput(stderr)
	validate := flags.Bool("validate", false, "check the settings, print every fault, or how long a stop may take, and end")
	showVersion := flags.Bool("version", false, "print the version and end")
	flags.Usage = func() { usage(flags) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(stderr, "unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	build := telemetry.NewBuild(version, revision)
	if *showVersion {
		_, _ = fmt.Fprintln(stdout, "admission-scheduler", build)
		return 0
	}
	source := config.NewSource(environ, service)
	settings := loadConfig(source)
	if err := source.Err(); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	if *validate {
		for _, warning := range source.Warnings() {
			_, _ = fmt.Fprintln(stderr, "warning:", warning)
		}
		app, err := newApp(slog.New(slog.DiscardHandler), settings, build)
		if err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return exitFailed
		}
		app.end()
		_, _ = fmt.Fprintln(stdout, "settings: ok")
		_, _ = fmt.Fprintf(stdout, "stops within %s; whatever ends it by force must wait longer\n", lifecycle.StopWithin(app.components...))
		return 0
	}

	logger := telemetry.NewLogger(stderr, settings.LogLevel, "admission-scheduler", build.Version)
	logger.Info("starting", source.LogAttr())
	for _, warning := range source.Warnings() {
		logger.Warn("setting", "warning", warning)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, release := lifecycle.OnSignals(context.Background(), signals, os.Exit)
	defer release()
	app, err := newApp(logger, settings, build)
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

// health asks the process that runs beside this one.
func health() healthcheck.Command {
	return healthcheck.Command{Binary: "admission-scheduler", Service: service, Listen: adminListen}
}

// usage prints the flags and every setting.
func usage(flags *flag.FlagSet) {
	w := flags.Output()
	_, _ = fmt.Fprintln(w, "admission-scheduler lets people of every line through at their pace, and serves the operators' desk.")
	_, _ = fmt.Fprintln(w, "\nSubcommands (admission-scheduler products -help tells more); without one the service runs:")
	_, _ = fmt.Fprintf(w, "  %-11s  %s\n", productsName, productsSummary)
	_, _ = fmt.Fprintf(w, "  %-11s  %s\n", peopleName, peopleSummary)
	_, _ = fmt.Fprintf(w, "  %-11s  %s\n", healthcheck.Name, healthcheck.Summary)
	_, _ = fmt.Fprintln(w, "\nFlags:")
	flags.PrintDefaults()
	_, _ = fmt.Fprintln(w, "\nSettings, from the environment:")
	source := config.NewSource(nil, service)
	loadConfig(source)
	// The terminal may be gone; there is nobody left to tell.
	_ = source.WriteHelp(w)
}
