package orderstatus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/order"
)

// quiet is how long a subscription may say nothing before it is asked whether it is still there, and may then take to answer.
const quiet = 2 * time.Second

// errSilent says that a subscription did not answer.
var errSilent = errors.New("the subscription does not answer")

// Follow listens for statuses that are written, over one connection, until ctx ends or the connection fails, and returns why. It
// calls hint with the id of each, and begun whenever it has just begun to listen, also to another node: whatever was written before
// was not hinted at. Hints may be lost, come twice and come for orders of any user; the truth is in GetMany. Both are called one at a
// time and must not block.
func (s *Store) Follow(ctx context.Context, begun func(), hint func(id order.ID)) error {
	subscription := s.rdb.Subscribe(ctx) // connects with the first channel
	release := context.AfterFunc(ctx, func() { _ = subscription.Close() })
	defer func() {
		if release() {
			_ = subscription.Close()
		}
	}()
	if err := subscription.Subscribe(ctx, s.keys.Hints()); err != nil {
		return fmt.Errorf("follow statuses: %w", err)
	}
	asked := false
	for {
		message, err := subscription.ReceiveTimeout(ctx, quiet)
		var late net.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &late) && late.Timeout() && !asked:
			asked = true
			err = subscription.Ping(ctx)
		case errors.As(err, &late) && late.Timeout():
			err = errSilent
		case err == nil:
			asked = false
		}
		if err != nil {
			return fmt.Errorf("follow statuses: %w", err)
		}
		switch m := message.(type) {
		case *redis.Subscription:
			begun()
		case *redis.Message:
			if id, err := order.ParseID(m.Payload); err == nil {
				hint(id)
			}
		}
	}
}
