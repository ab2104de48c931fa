package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/product"
)

const (
	slotsGroup = "schedulers"
	slotsMost  = 100 // entries of one read, as many as the stream holds
	// deadAfter is how long a reader of the group may do nothing before it is taken for dead and forgotten.
	deadAfter = 10 * time.Minute
)

// Slots reads the streams of slots that became free (key slots), each entry by one reader of all schedulers. Its client must have a
// connection for each product read at the same time. Safe for concurrent use.
type Slots struct {
	rdb  redis.UniversalClient
	keys product.Keyspace
}

// NewSlots takes a client of its own, since a read waits on its connection.
func NewSlots(rdb redis.UniversalClient, keys product.Keyspace) *Slots { return &Slots{rdb, keys} }

// Read waits for entries that no reader has had, and returns their ids; none when wait is over. Where there is no stream or no group, also
// after a loss, both are made, from which moment on the scripts write. What is read and not acknowledged can be claimed.
func (s *Slots) Read(ctx context.Context, p product.ID, reader string, wait time.Duration) ([]string, error) {
	key := s.keys.Product(p).Slots
	for again := true; ; again = false {
		streams, err := s.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: slotsGroup, Consumer: reader, Streams: []string{key, ">"}, Count: slotsMost, Block: wait,
		}).Result()
		switch {
		case errors.Is(err, redis.Nil):
			return nil, nil
		case redis.HasErrorPrefix(err, "NOGROUP") && again:
			if err := s.rdb.XGroupCreateMkStream(ctx, key, slotsGroup, "0").Err(); err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
				return nil, fmt.Errorf("make the group of slots of %s: %w", p, err)
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("read slots of %s: %w", p, err)
		}
		var ids []string
		for _, stream := range streams {
			for _, message := range stream.Messages {
				ids = append(ids, message.ID)
			}
		}
		return ids, nil
	}
}

// Ack says that entries were acted on. Safe to repeat.
func (s *Slots) Ack(ctx context.Context, p product.ID, ids []string) error {
	if err := s.rdb.XAck(ctx, s.keys.Product(p).Slots, slotsGroup, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge slots of %s: %w", p, err)
	}
	return nil
}

// Claim takes over entries that another reader had for longer than idle and did not acknowledge, and forgets readers that are long dead
// and have none.
func (s *Slots) Claim(ctx context.Context, p product.ID, reader string, idle time.Duration) ([]string, error) {
	key := s.keys.Product(p).Slots
	ids, _, err := s.rdb.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{
		Stream: key, Group: slotsGroup, Consumer: reader, MinIdle: idle, Start: "0", Count: slotsMost,
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("claim slots of %s: %w", p, err)
	}
	readers, err := s.rdb.XInfoConsumers(ctx, key, slotsGroup).Result()
	if err != nil {
		return ids, fmt.Errorf("readers of slots of %s: %w", p, err)
	}
	for _, other := range readers {
		if other.Name != reader && other.Pending == 0 && other.Idle > deadAfter {
			if err := s.rdb.XGroupDelConsumer(ctx, key, slotsGroup, other.Name).Err(); err != nil {
				return ids, fmt.Errorf("forget a reader of slots of %s: %w", p, err)
			}
		}
	}
	return ids, nil
}
