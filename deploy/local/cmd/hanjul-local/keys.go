package main

import (
	"errors"
	"fmt"
	"io"

	"hanjul/deploy/local"
)

// makeKeys is the subcommand keys.
func makeKeys(args []string, stdout io.Writer) (code int, err error) {
	if len(args) != 1 || args[0] == "" || args[0][0] == '-' {
		return 2, errors.New("keys: expected one folder, such as hanjul-local keys /keys")
	}
	keys, err := local.EnsureKeys(args[0])
	if err != nil {
		return 1, err
	}
	for _, file := range []string{keys.Order, keys.User, keys.Ticket, keys.Command, keys.Pass, keys.PassJWKS, keys.OperatorTokens} {
		_, _ = fmt.Fprintln(stdout, file)
	}
	return 0, nil
}
