package e2e

import (
	"bytes"
	"errors"
	"os/exec"
	"testing"

	"hanjul/deploy/local"
	"hanjul/pkg/product"
)

// auditOf runs the subcommand and returns what it printed; a broken promise is no error here.
func auditOf(t *testing.T, stack *local.Stack, id product.ID, journal string) string {
	t.Helper()
	args := []string{"audit", "--product", string(id)}
	if journal != "" {
		args = append(args, "--journal", journal)
	}
	var out bytes.Buffer
	err := stack.Run(t.Context(), &out, t.Output(), local.Consumer, args...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String()
}
