package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/user"
	"text/tabwriter"
)

// verb is one subcommand of a subcommand.
type verb struct {
	name string
	run  func(ctx context.Context, e environment, args []string) int
}

// choose runs the verb that the first argument names.
func choose(ctx context.Context, e environment, name, help string, verbs []verb, args []string) int {
	if len(args) == 0 || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		_, _ = fmt.Fprint(e.stderr, help)
		if len(args) == 0 {
			return exitUsage
		}
		return 0
	}
	for _, v := range verbs {
		if v.name == args[0] {
			return v.run(ctx, e, args[1:])
		}
	}
	_, _ = fmt.Fprintf(e.stderr, "%s: unknown subcommand %q; -help lists those there are\n", name, args[0])
	return exitUsage
}

// parseOne reads flags around the one argument of a verb, wherever it stands.
func parseOne(e environment, flags *flag.FlagSet, help, what string, args []string) (value string, code int, done bool) {
	flags.SetOutput(e.stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprint(e.stderr, help)
		flags.PrintDefaults()
	}
	for found := false; ; found = true {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return "", 0, true
		case err != nil:
			return "", exitUsage, true
		case found && flags.NArg() > 0:
			_, _ = fmt.Fprintf(e.stderr, "%s: unexpected argument %q\n", flags.Name(), flags.Arg(0))
			return "", exitUsage, true
		case found:
			return value, 0, false
		case flags.NArg() == 0:
			_, _ = fmt.Fprintf(e.stderr, "%s: expected %s\n", flags.Name(), what)
			return "", exitUsage, true
		}
		value, args = flags.Arg(0), flags.Args()[1:]
	}
}

// fail says what went wrong.
func fail(e environment, code int, err error) int {
	_, _ = fmt.Fprintln(e.stderr, err)
	return code
}

// osUser is who runs this process, or "" where the system does not say.
func osUser() string {
	who, err := user.Current()
	if err != nil {
		return ""
	}
	return who.Username
}

// printJSON writes one document, for machines.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// table lays out lines of cells for people.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) line(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(t.w, "\t") // the terminal may be gone; there is nobody left to tell
		}
		_, _ = fmt.Fprint(t.w, cell)
	}
	_, _ = io.WriteString(t.w, "\n")
}

func (t table) end() { _ = t.w.Flush() }

// dash stands for what is not there.
func dash[T ~string](s T) string {
	if s == "" {
		return "-"
	}
	return string(s)
}
