package outbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/product"
)

// ownerLock is the key of the advisory lock, "hanjul-r" in ASCII. It is as wide as a database.
const ownerLock = int64(0x68616e6a756c2d72)

// connectWithin bounds the opening of the owner's connection.
const connectWithin = 3 * time.Second

// Owner is the one process that may publish. It ends with its connection: a failed call, or one whose context ended, means
// that the lock may be gone; Close it then and ask for a new one. Not safe for concurrent use.
type Owner struct {
	conn  *pgx.Conn
	token string
	after product.ID // where the last claim ended, so that all products get their turn
}

// Own tries to become the owner and does not wait: ErrTaken when another process is. Close the owner.
func (o *Outbox) Own(ctx context.Context) (*Owner, error) {
	config, err := pgx.ParseConfig(o.url)
	if err != nil {
		return nil, fmt.Errorf("own outbox: %w", err)
	}
	config.ConnectTimeout = connectWithin
	for name, value := range map[string]string{
		"application_name":  "hanjul-relay",
		"statement_timeout": "10000",
		// A machine that vanished must not keep the lock for hours: the server notices within some 20 seconds.
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3",
		// A claim or a mark that is lost with the server repeats an event under its old id and seq, which readers must
		// bear anyway; waiting for the disk each time would buy nothing.
		"synchronous_commit": "off",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("own outbox: %w", err)
	}
	owner := &Owner{conn: conn, token: rand.Text()}
	var locked bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, ownerLock).Scan(&locked); err != nil {
		owner.Close(ctx)
		return nil, fmt.Errorf("own outbox: %w", err)
	}
	if !locked {
		owner.Close(ctx)
		return nil, ErrTaken
	}
	return owner, nil
}

// Close gives the lock back by ending the session. It may be repeated.
func (w *Owner) Close(ctx context.Context) {
	_ = w.conn.Close(ctx) // The session ends either way, and the lock with it.
}
