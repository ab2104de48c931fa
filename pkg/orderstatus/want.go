package orderstatus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// ErrWantedFull says that the list of wanted orders is as long as it may be; ask again later.
var ErrWantedFull = errors.New("list of wanted orders is full")

// Want asks order-consumer to look an order up and write its status, and after its deadline to void it. An entry that is
// already there is left as it is. Safe to repeat.
func (s *Store) Want(ctx context.Context, w Wanted) error {
	member := w.encode()
	if _, err := decodeWanted(member); err != nil {
		return fmt.Errorf("want order %s: %w", w.OrderID, err)
	}
	answer, err := s.want.Run(ctx, s.rdb, []string{s.keys.Wanted()}, member, strconv.Itoa(s.config.WantedMax))
	if err != nil {
		return fmt.Errorf("want order %s: %w", w.OrderID, err)
	}
	if answer.Text(0) == "full" {
		return fmt.Errorf("want order %s: %w", w.OrderID, ErrWantedFull)
	}
	return answer.Err()
}
