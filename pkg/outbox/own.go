package outbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"hanjul/pkg/postgres"
	"hanjul/pkg/product"
)

// connectWithin bounds the opening of the owner's connection.
const connectWithin = 3 * time.Second

// Owner is one process that may publish: the shards it holds belong to it alone. It ends with its connection: a failed call, or one
// whose context ended, means that its locks may be gone; Close it then and ask for a new one. Not safe for concurrent use.
type Owner struct {
	conn   *pgx.Conn
	token  string
	shards int        // over all processes
	held   []int      // sorted
	after  product.ID // where the last claim ended, so that all products get their turn
}

// Own makes this process one of those that share the outbox, which has so many shards, the same for all of them: ErrShards while
// another process works with another number, since two owners of one product could not know of each other. It holds no shard
// yet; Balance takes them. It does not wait. Close the owner.
func (o *Outbox) Own(ctx context.Context, shards int) (*Owner, error) {
	if shards < 1 || shards > MaxShards {
		return nil, fmt.Errorf("own outbox: %d shards: expected 1 to %d", shards, MaxShards)
	}
	conn, err := postgres.Connect(ctx, o.address, postgres.Session{Name: "hanjul-relay", ConnectTimeout: connectWithin, Params: map[string]string{
		"statement_timeout": "10000",
		// A machine that vanished must not keep its locks for hours: the server notices within some 20 seconds.
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "3", "tcp_keepalives_count": "3",
		// A claim or a mark that is lost with the server repeats an event under its old id and seq, which readers must
		// bear anyway; waiting for the disk each time would buy nothing.
		"synchronous_commit": "off",
		// Every statement here is a probe of an index. A plan that was made and kept while a partition was small would
		// scan it for each pass, until the next analyze, and a sale grows it by orders of magnitude before that.
		"enable_seqscan": "off",
	}})
	if err != nil {
		return nil, fmt.Errorf("own outbox: %w", err)
	}
	owner := &Owner{conn: conn, token: rand.Text(), shards: shards}
	if err := owner.appear(ctx); err != nil {
		owner.Close(ctx)
		return nil, fmt.Errorf("own outbox: %w", err)
	}
	return owner, nil
}

// CheckDirect refuses an address of sessions that leads through a pooler (postgres.ErrPooled) or to another database or schema than the
// other statements go to (ErrElsewhere): owners there would keep nobody out. Errors that pass by waiting wrap postgres.ErrTransient.
func (o *Outbox) CheckDirect(ctx context.Context) error {
	err := o.checkDirect(ctx)
	switch {
	case err == nil:
		return nil
	case postgres.Transient(err):
		return fmt.Errorf("check the outbox's direct address: %w: %w", postgres.ErrTransient, err)
	}
	return fmt.Errorf("check the outbox's direct address: %w", err)
}

func (o *Outbox) checkDirect(ctx context.Context) error {
	conn, err := postgres.Connect(ctx, o.address, postgres.Session{Name: "hanjul-check", ConnectTimeout: connectWithin})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	direct, err := postgres.Look(ctx, conn)
	if err != nil {
		return err
	}
	if err := direct.Check(); err != nil {
		return err
	}
	here, err := postgres.Look(ctx, o.pool)
	if err != nil {
		return err
	}
	if direct != here {
		return fmt.Errorf("%w: %s and %s", ErrElsewhere, direct, here)
	}
	return nil
}

// Held lists the shards that this owner may publish.
func (w *Owner) Held() []int { return slices.Clone(w.held) }

// Close gives every shard back by ending the session. It may be repeated.
func (w *Owner) Close(ctx context.Context) {
	w.held = nil
	_ = w.conn.Close(ctx) // The session ends either way, and its locks with it.
}
