package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// quiet is how long a subscription may say nothing before it is asked whether it is still there, and may then take to answer.
const quiet = 2 * time.Second

// errSilent says that a subscription did not answer.
var errSilent = errors.New("the subscription does not answer")

// Subscriber is a client of a cluster, of a server without cluster mode, or of one node.
type Subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Listen subscribes to a channel over one connection until ctx ends or the connection fails, and returns why: a node that says nothing
// is asked, so that one that is gone without a word ends it too. It calls begun whenever it has just begun to listen, also to another
// node: what was published before was not heard. Messages may be lost and come twice, so they are hints and the truth is elsewhere.
// Both are called one at a time and must not block.
func Listen(ctx context.Context, rdb Subscriber, channel string, begun func(), heard func(payload string)) error {
	subscription := rdb.Subscribe(ctx) // connects with the first channel
	release := context.AfterFunc(ctx, func() { _ = subscription.Close() })
	defer func() {
		if release() {
			_ = subscription.Close()
		}
	}()
	if err := subscription.Subscribe(ctx, channel); err != nil {
		return fmt.Errorf("listen to %s: %w", channel, err)
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
			return fmt.Errorf("listen to %s: %w", channel, err)
		}
		switch m := message.(type) {
		case *redis.Subscription:
			begun()
		case *redis.Message:
			heard(m.Payload)
		}
	}
}
