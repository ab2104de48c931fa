package waitingroom

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// What tests do to a slot behind the scripts' backs: lose it, and let time pass.

// SlotKeys are all keys of the product.
func (r *Room) SlotKeys(p product.ID) []string {
	k := r.keys.Product(p)
	return []string{
		k.Settings, k.Restoring, k.Clock, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Judged,
		k.Intents, k.Ordering, k.Stock, k.Seen, k.Changes, k.Tally, k.Admits, k.Bans,
	}
}

// Forget empties the product's slot, as a Redis that lost everything.
func (r *Room) Forget(ctx context.Context, p product.ID) error {
	return r.rdb.Del(ctx, r.SlotKeys(p)...).Err()
}

// Expire puts the end of a user's lease into the past.
func (r *Room) Expire(ctx context.Context, p product.ID, u product.UserHash) error {
	return r.rdb.ZAddXX(ctx, r.keys.Product(p).Active, redis.Z{Score: 1000, Member: string(u)}).Err()
}

// MakeDue puts an intent's next attention into the past and keeps its count.
func (r *Room) MakeDue(ctx context.Context, p product.ID, id order.ID) error {
	key := r.keys.Product(p).Ordering
	score, err := r.rdb.ZScore(ctx, key, string(id)).Result()
	if err != nil {
		return err
	}
	return r.rdb.ZAddXX(ctx, key, redis.Z{Score: score - float64(int64(score)) + 1000, Member: string(id)}).Err()
}

// Attention is an intent's next attention in milliseconds.
func (r *Room) Attention(ctx context.Context, p product.ID, id order.ID) (int64, error) {
	score, err := r.rdb.ZScore(ctx, r.keys.Product(p).Ordering, string(id)).Result()
	return int64(score), err
}

// SetClock sets one field of clock.
func (r *Room) SetClock(ctx context.Context, p product.ID, field string, value int64) error {
	return r.rdb.HSet(ctx, r.keys.Product(p).Clock, field, strconv.FormatInt(value, 10)).Err()
}

// Clock reads one field of clock.
func (r *Room) Clock(ctx context.Context, p product.ID, field string) (string, error) {
	return r.rdb.HGet(ctx, r.keys.Product(p).Clock, field).Result()
}

// Elapse makes the last run of admit look as if it had been that much earlier, so that the time since then has passed.
func (r *Room) Elapse(ctx context.Context, p product.ID, d time.Duration) error {
	key := r.keys.Product(p).Clock
	pipe := r.rdb.TxPipeline()
	pipe.HIncrBy(ctx, key, "run_ms", -d.Milliseconds())
	pipe.HIncrBy(ctx, key, "still_ms", -d.Milliseconds())
	_, err := pipe.Exec(ctx)
	return err
}

// Silence makes the last beat that much older.
func (r *Room) Silence(ctx context.Context, d time.Duration) error {
	left, err := r.rdb.PTTL(ctx, r.keys.Alive()).Result()
	if err != nil {
		return err
	}
	return r.rdb.PExpire(ctx, r.keys.Alive(), left-d).Err()
}

// Ban bans a user until a time in milliseconds.
func (r *Room) Ban(ctx context.Context, p product.ID, u product.UserHash, untilMS int64) error {
	return r.rdb.HSet(ctx, r.keys.Product(p).Bans, string(u), strconv.FormatInt(untilMS, 10)).Err()
}

// SendAway moves a waiting user to away, as admit does with who is unheard for too long.
func (r *Room) SendAway(ctx context.Context, p product.ID, u product.UserHash) error {
	k := r.keys.Product(p)
	place, err := r.rdb.ZScore(ctx, k.Waiting, string(u)).Result()
	if err != nil {
		return err
	}
	pipe := r.rdb.TxPipeline()
	pipe.ZRem(ctx, k.Waiting, string(u))
	pipe.ZAdd(ctx, k.Away, redis.Z{Score: place, Member: string(u)})
	pipe.ZAdd(ctx, k.AwayTill, redis.Z{Score: 1 << 50, Member: string(u)})
	pipe.HIncrBy(ctx, k.Tally, "away", 1)
	pipe.XAdd(ctx, &redis.XAddArgs{Stream: k.Changes, Values: []string{"move", "-" + strconv.FormatInt(int64(place), 10)}})
	_, err = pipe.Exec(ctx)
	return err
}

// Unheard makes the last time that somebody near the front was heard that much earlier.
func (r *Room) Unheard(ctx context.Context, p product.ID, u product.UserHash, d time.Duration) error {
	return r.rdb.ZIncrBy(ctx, r.keys.Product(p).Seen, -float64(d.Milliseconds()), string(u)).Err()
}

// EndGrace puts the end of somebody's grace into the past.
func (r *Room) EndGrace(ctx context.Context, p product.ID, u product.UserHash) error {
	return r.rdb.ZAddXX(ctx, r.keys.Product(p).AwayTill, redis.Z{Score: 1000, Member: string(u)}).Err()
}

// ReleaseClaim lets a claim of RestoreBegin or AdvanceBegin run out.
func (r *Room) ReleaseClaim(ctx context.Context, p product.ID) error {
	return r.rdb.Del(ctx, r.keys.Product(p).Restoring).Err()
}

// StaleEnds are users whose record has ended and is not in whot, from which it will be forgotten, or the reverse.
func (r *Room) StaleEnds(ctx context.Context, p product.ID) ([]string, error) {
	k := r.keys.Product(p)
	records, err := r.rdb.HGetAll(ctx, k.Who).Result()
	if err != nil {
		return nil, err
	}
	ends, err := r.rdb.ZRange(ctx, k.WhoT, 0, -1).Result()
	if err != nil {
		return nil, err
	}
	var stale []string
	listed := map[string]bool{}
	for _, u := range ends {
		listed[u] = true
		if records[u] == "" {
			stale = append(stale, u)
		}
	}
	for u, text := range records {
		record, err := decodeWho(text)
		if err != nil {
			return nil, err
		}
		if ended := record.State != Active && record.State != Ordering; ended != listed[u] {
			stale = append(stale, u)
		}
	}
	return stale, nil
}
