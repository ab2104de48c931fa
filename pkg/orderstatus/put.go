package orderstatus

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/order"
	"hanjul/pkg/redisconn"
)

// chunk is the most statuses of one pipeline.
const chunk = 500

// Entry is one status to write.
type Entry struct {
	ID     order.ID
	Status order.Status
}

// Put writes a status if its version is greater than the stored one, and tells whether it did. A quantity of 0 or an empty
// digest leaves what a lower version knew. Each write renews the status's life and is hinted at to those who Follow. Safe to
// repeat.
func (s *Store) Put(ctx context.Context, id order.ID, status order.Status) (written bool, err error) {
	call := s.call(Entry{id, status})
	answer, err := s.put.Run(ctx, s.rdb, call.Keys, call.Args...)
	if err != nil {
		return false, fmt.Errorf("put status of order %s: %w", id, err)
	}
	return answer.Text(0) == "written", answer.Err()
}

// PutMany is Put for many orders in pipelines, and tells how many were written. After an error some may have been.
func (s *Store) PutMany(ctx context.Context, entries []Entry) (written int, err error) {
	for len(entries) > 0 {
		n := min(chunk, len(entries))
		calls := make([]redisconn.Call, n)
		for i, e := range entries[:n] {
			calls[i] = s.call(e)
		}
		answers, err := s.put.RunMany(ctx, s.rdb, calls)
		if err != nil {
			return written, fmt.Errorf("put statuses of %d orders: %w", len(entries), err)
		}
		for _, a := range answers {
			if a.Text(0) == "written" {
				written++
			}
		}
		entries = entries[n:]
	}
	return written, nil
}

func (s *Store) call(e Entry) redisconn.Call {
	return redisconn.Call{
		Keys: []string{s.keys.Status(string(e.ID))},
		Args: []any{
			strconv.Itoa(e.Status.Version), string(e.Status.State), string(e.Status.Reason), string(e.Status.User),
			string(e.Status.Product), strconv.Itoa(e.Status.Quantity), e.Status.Digest,
			strconv.FormatInt(s.config.TTL.Milliseconds(), 10), s.keys.Hints(), string(e.ID),
		},
	}
}
