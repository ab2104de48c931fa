package sale

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Of is what a sale needs of a running stack. With chaos, the first of each binary is a victim and Redis is emptied once.
func Of(stack *local.Stack, chaos bool) (Stack, error) {
	token, err := stack.OperatorToken()
	if err != nil {
		return Stack{}, fmt.Errorf("operator token: %w", err)
	}
	s := Stack{
		APIs: stack.APIs(), OperatorURLs: stack.OperatorURLs(), OperatorToken: token,
		Audit: func(ctx context.Context, args []string, out io.Writer) error {
			return stack.Run(ctx, out, nil, local.Consumer, append([]string{"audit"}, args...)...)
		},
		Judged: func(ctx context.Context, p product.ID) ([]order.ID, error) {
			return judged(ctx, books(stack), p)
		},
	}
	binaries := []string{local.QueueAPI, local.Scheduler, local.Consumer}
	for _, name := range binaries {
		s.AdminAddrs = append(s.AdminAddrs, stack.AdminAddrs(name)...)
	}
	if !chaos {
		return s, nil
	}
	for _, name := range binaries {
		s.Victims = append(s.Victims, stack.Processes(name)[0])
	}
	s.Empty = func(ctx context.Context) error {
		return emptyRedis(ctx, strings.Split(stack.Setting("HANJUL_REDIS_ADDRS"), ","))
	}
	return s, nil
}

// emptyRedis takes everything from the stack's own Redis, as a replaced node without its data would.
func emptyRedis(ctx context.Context, addrs []string) (err error) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer func() {
		if errClose := rdb.Close(); err == nil && errClose != nil {
			err = fmt.Errorf("empty redis: %w", errClose)
		}
	}()
	err = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
	if err != nil {
		return fmt.Errorf("empty redis: %w", err)
	}
	return nil
}
