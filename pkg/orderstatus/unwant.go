package orderstatus

import (
	"context"
	"fmt"
)

// Unwant strikes answered orders off the list of wanted ones. Safe to repeat.
func (s *Store) Unwant(ctx context.Context, answered ...Wanted) error {
	if len(answered) == 0 {
		return nil
	}
	members := make([]any, len(answered))
	for i, w := range answered {
		members[i] = w.encode()
	}
	if err := s.rdb.ZRem(ctx, s.keys.Wanted(), members...).Err(); err != nil {
		return fmt.Errorf("unwant %d orders: %w", len(answered), err)
	}
	return nil
}
