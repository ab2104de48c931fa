package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// attempts bounds the tries inside Transact. What outlives them goes up as ErrTransient, to a caller that knows how long to wait.
const attempts = 5

const (
	pauseFirst = 10 * time.Millisecond
	pauseMost  = 250 * time.Millisecond
)

// Transact runs fn in a READ COMMITTED transaction and commits it. When the server reports a deadlock, a serialization
// failure or a unique key that another transaction took meanwhile, when the connection is lost, or when the outcome of the commit is
// unknown, everything is done again from the beginning, a bounded number of times with growing jittered pauses. So fn may run
// several times, also after a run of it was committed: it reads before it writes, and finds its own work done. It keeps nothing of an earlier
// run and touches nothing outside the transaction.
//
// An error wraps ErrTransient when waiting helps; otherwise it is fn's own, the server's refusal, or the end of ctx. Safe
// for concurrent use. op names the work in errors.
func Transact(ctx context.Context, pool *Pool, op string, fn func(ctx context.Context, tx pgx.Tx) error) error {
	pause := pauseFirst
	for try := 1; ; try++ {
		err := once(ctx, pool, fn)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", op, errors.Join(context.Cause(ctx), err))
		}
		again := Transient(err)
		if !again && State(err) != "23505" {
			return fmt.Errorf("%s: %w", op, err)
		}
		if try == attempts {
			if again {
				return fmt.Errorf("%s: %d tries: %w: %w", op, try, ErrTransient, err)
			}
			return fmt.Errorf("%s: %d tries: %w", op, try, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", op, errors.Join(context.Cause(ctx), err))
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, pauseMost)
	}
}

func once(ctx context.Context, pool *Pool, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		return fn(ctx, tx)
	})
}

// connectionLost knows the errors that the driver passes on from the network, and its own for a connection that was closed under it.
func connectionLost(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, pgx.ErrTxClosed) || strings.Contains(err.Error(), "conn closed")
}
