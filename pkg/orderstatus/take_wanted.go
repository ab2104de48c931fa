package orderstatus

import (
	"context"
	"fmt"
	"strconv"
)

// TakeMax is the most entries that one call of TakeWanted hands out.
const TakeMax = 500

// TakeWanted hands out wanted orders, at most n (1–TakeMax), longest waiting first, and puts their next turn 5 seconds off, so
// that of several consumers one looks each up. What is answered is struck off with Unwant; the rest comes again by itself:
// after a crash, or because neither row nor deadline was there yet. Entries that are none of ours are dropped. Safe to repeat.
func (s *Store) TakeWanted(ctx context.Context, n int) ([]Wanted, error) {
	answer, err := s.takeWanted.Run(ctx, s.rdb, []string{s.keys.Wanted()}, strconv.Itoa(min(max(n, 1), TakeMax)))
	if err != nil {
		return nil, fmt.Errorf("take wanted orders: %w", err)
	}
	var taken []Wanted
	for i := range answer.Len() {
		member := answer.Text(i)
		w, err := decodeWanted(member)
		if err != nil {
			if err := s.rdb.ZRem(ctx, s.keys.Wanted(), member).Err(); err != nil {
				return nil, fmt.Errorf("drop a wanted entry out of form: %w", err)
			}
			continue
		}
		taken = append(taken, w)
	}
	return taken, answer.Err()
}
