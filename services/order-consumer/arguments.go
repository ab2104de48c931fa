package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/user"

	"hanjul/pkg/commandline"
)

// verb is one subcommand of a subcommand.
type verb struct {
	name string
	run  func(ctx context.Context, e environment, args []string) int
}

// choose runs the verb that the first argument names.
func choose(ctx context.Context, e environment, name, help string, verbs []verb, args []string) int {
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.name
	}
	chosen, rest, err := commandline.Verb(name, help, names, args, e.stderr)
	if err != nil {
		return usageCode(err)
	}
	for _, v := range verbs {
		if v.name == chosen {
			return v.run(ctx, e, rest)
		}
	}
	return exitUsage
}

// parse reads a subcommand's flags. done says that the command is over, with that exit code.
func parse(e environment, flags *flag.FlagSet, help string, args []string) (code int, done bool) {
	if _, err := (commandline.Arguments{Flags: flags, Help: help}).Read(args, e.stderr); err != nil {
		return usageCode(err), true
	}
	return 0, false
}

// parseOne is parse of flags around the one argument of a verb, wherever it stands.
func parseOne(e environment, flags *flag.FlagSet, help, what string, args []string) (value string, code int, done bool) {
	words, err := commandline.Arguments{Flags: flags, Help: help, Words: []string{what}}.Read(args, e.stderr)
	if err != nil {
		return "", usageCode(err), true
	}
	return words[0], 0, false
}

// usageCode is the exit code where nothing was done: none is wrong where help was asked for.
func usageCode(err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	return exitUsage
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
