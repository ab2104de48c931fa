package orderstatus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Get reads a status; found is false when Redis knows none, which says nothing about the order (see Want).
func (s *Store) Get(ctx context.Context, id order.ID) (status order.Status, found bool, err error) {
	fields, err := s.rdb.HGetAll(ctx, s.keys.Status(string(id))).Result()
	if err != nil {
		return order.Status{}, false, fmt.Errorf("get status of order %s: %w", id, err)
	}
	return decode(id, fields)
}

// GetMany is Get for many orders in pipelines. What Redis does not know is left out; so is, after an error, what could not be
// read, while the rest is told all the same.
func (s *Store) GetMany(ctx context.Context, ids []order.ID) ([]Entry, error) {
	var (
		entries []Entry
		faults  []error
	)
	for len(ids) > 0 {
		n := min(chunk, len(ids))
		pipe := s.rdb.Pipeline()
		results := make([]*redis.MapStringStringCmd, n)
		for i, id := range ids[:n] {
			results[i] = pipe.HGetAll(ctx, s.keys.Status(string(id)))
		}
		_, _ = pipe.Exec(ctx) // each result below carries its own error
		var failed error
		for i, result := range results {
			fields, err := result.Result()
			if err != nil {
				failed = err
				continue
			}
			status, found, err := decode(ids[i], fields)
			if err != nil {
				failed = err
			} else if found {
				entries = append(entries, Entry{ids[i], status})
			}
		}
		if failed != nil {
			faults = append(faults, fmt.Errorf("get statuses of %d orders: %w", n, failed))
		}
		ids = ids[n:]
	}
	return entries, errors.Join(faults...)
}

func decode(id order.ID, fields map[string]string) (order.Status, bool, error) {
	if len(fields) == 0 {
		return order.Status{}, false, nil
	}
	version, err := strconv.Atoi(fields["ver"])
	if err != nil {
		return order.Status{}, false, fmt.Errorf("get status of order %s: ver: expected a number, got %q", id, fields["ver"])
	}
	quantity, err := strconv.Atoi(fields["quantity"])
	if err != nil {
		return order.Status{}, false, fmt.Errorf("get status of order %s: quantity: expected a number, got %q", id, fields["quantity"])
	}
	return order.Status{
		Version: version, State: order.State(fields["state"]), Reason: order.Reason(fields["reason"]),
		Product: product.ID(fields["product"]), User: product.UserHash(fields["user"]),
		Quantity: quantity, Digest: fields["digest"],
	}, true, nil
}
