// Package commandline reads what somebody typed behind a subcommand, flags and words in any order, and lays out what they are answered: tables for
// people, JSON documents for machines. Its callers choose the verbs, the flags and the exit codes; it reads no environment and ends no process.
package commandline

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
)

// ErrUsage says that what was typed cannot be done. It was told already, on the writer that was given.
var ErrUsage = errors.New("the arguments are wrong")

// Arguments are what a verb takes.
type Arguments struct {
	Flags *flag.FlagSet // named as the verb is typed, such as "outbox list"; flags may stand before, between and behind the words
	Help  string        // printed for -h in front of the flags
	Words []string      // what each word stands for, such as "a product"; every one must be there
	More  bool          // any number of words may follow
}

// Read returns the words, and sets the flags. Where help was asked for it is printed to w, and the error is flag.ErrHelp; where something is wrong
// that is told there, and the error is ErrUsage.
func (a Arguments) Read(args []string, w io.Writer) ([]string, error) {
	a.Flags.SetOutput(w)
	a.Flags.Usage = func() {
		_, _ = fmt.Fprint(w, a.Help) // the terminal may be gone; there is nobody left to tell
		a.Flags.PrintDefaults()
	}
	var words []string
	for {
		switch err := a.Flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, err
		case err != nil:
			return nil, ErrUsage
		}
		if a.Flags.NArg() == 0 {
			break
		}
		words, args = append(words, a.Flags.Arg(0)), a.Flags.Args()[1:]
	}
	switch {
	case len(words) < len(a.Words):
		_, _ = fmt.Fprintf(w, "%s: expected %s\n", a.Flags.Name(), a.Words[len(words)])
		return nil, ErrUsage
	case len(words) > len(a.Words) && !a.More:
		_, _ = fmt.Fprintf(w, "%s: unexpected argument %q\n", a.Flags.Name(), words[len(a.Words)])
		return nil, ErrUsage
	}
	return words, nil
}

// Verb returns the subcommand that the first argument names, one of those known, and the arguments behind it. Without an argument, and for a word
// that asks for help, the help is printed to w: ErrUsage in the first case, flag.ErrHelp in the second. ErrUsage for an unknown one, which is told.
func Verb(name, help string, known, args []string, w io.Writer) (verb string, rest []string, err error) {
	if len(args) == 0 {
		_, _ = fmt.Fprintf(w, "%s\n%s: expected a subcommand\n", help, name)
		return "", nil, ErrUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		_, _ = fmt.Fprint(w, help)
		return "", nil, flag.ErrHelp
	}
	if !slices.Contains(known, args[0]) {
		_, _ = fmt.Fprintf(w, "%s: unknown subcommand %q; -help lists those there are\n", name, args[0])
		return "", nil, ErrUsage
	}
	return args[0], args[1:], nil
}
