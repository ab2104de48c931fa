package ledger

import (
	"fmt"

	"hanjul/pkg/postgres"
)

// classify wraps the error of a single statement with the operation, and with ErrTransient where waiting helps.
func classify(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case postgres.Transient(err):
		return fmt.Errorf("%s: %w: %w", op, ErrTransient, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
