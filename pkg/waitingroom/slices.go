package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/product"
)

// Entry is one person waiting.
type Entry struct {
	User  product.UserHash
	Place product.Place
}

// WaitingFrom reads at most n people waiting at the given place or behind it, in order (I7: no two neighbours have equal
// places). To read on, pass the last entry's place; it is returned again as the first.
func (r *Room) WaitingFrom(ctx context.Context, p product.ID, from product.Place, n int) ([]Entry, error) {
	k := r.keys.Product(p)
	scored, err := r.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: k.Waiting, Start: strconv.FormatInt(int64(from), 10), Stop: "+inf", ByScore: true, Count: int64(n),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("read waiting of product %s: %w", p, err)
	}
	entries := make([]Entry, 0, len(scored))
	for _, z := range scored {
		user, _ := z.Member.(string)
		entries = append(entries, Entry{product.UserHash(user), product.Place(z.Score)})
	}
	return entries, nil
}

// Set names a place where users are kept.
type Set string

// The sets that ScanUsers reads.
const (
	SetWaiting Set = "waiting"
	SetAway    Set = "away"
	SetActive  Set = "active"
	SetRecords Set = "who"
)

// ScanUsers reads about n users of one set from a cursor (0 at first) and returns the next cursor (0 at the end). A user who
// stays in the set during the scan is returned at least once, possibly twice.
func (r *Room) ScanUsers(ctx context.Context, p product.ID, set Set, cursor uint64, n int64) ([]product.UserHash, uint64, error) {
	k := r.keys.Product(p)
	var pairs []string
	var next uint64
	var err error
	switch set {
	case SetWaiting:
		pairs, next, err = r.rdb.ZScan(ctx, k.Waiting, cursor, "", n).Result()
	case SetAway:
		pairs, next, err = r.rdb.ZScan(ctx, k.Away, cursor, "", n).Result()
	case SetActive:
		pairs, next, err = r.rdb.ZScan(ctx, k.Active, cursor, "", n).Result()
	case SetRecords:
		pairs, next, err = r.rdb.HScan(ctx, k.Who, cursor, "", n).Result()
	default:
		return nil, 0, fmt.Errorf("scan product %s: unknown set %q", p, set)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("scan %s of product %s: %w", set, p, err)
	}
	users := make([]product.UserHash, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		users = append(users, product.UserHash(pairs[i]))
	}
	return users, next, nil
}
