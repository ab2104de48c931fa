package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrTransient is wrapped by errors that pass by waiting: the server is away, restarting, overloaded, or another transaction was in
// the way. The caller does the whole piece of work again; it counts no attempt and gives nothing up.
var ErrTransient = errors.New("postgres is away or busy")

// Transient says whether the error of a driver call passes by waiting. Everything that is not the server's own refusal does: a lost
// connection leaves the outcome unknown, and the work is done again. The end of the caller's context is not transient.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrPooled) {
		return false
	}
	if errors.Is(err, ErrTransient) {
		return true
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return transientState(refusal.Code) || strings.Contains(refusal.Message, "cached plan must not change")
	}
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		return false
	}
	_, lost := errors.AsType[*pgconn.ConnectError](err)
	return lost || connectionLost(err)
}

// State is the SQLSTATE of the server's refusal, or "" when the error is none.
func State(err error) string {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusal.Code
	}
	return ""
}

func transientState(code string) bool {
	switch code {
	case "40001", "40P01": // serialization failure, deadlock
		return true
	case "55P03", "57014": // lock not available, statement timeout
		return true
	case "25P03": // the transaction stood idle for too long and was ended
		return true
	case "25006": // read-only: a standby that has not taken over yet
		return true
	case "26000": // a pooler lost the prepared statement
		return true
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "57", "58": // connection, resources, operator intervention, system
		return true
	}
	return false
}
