package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// Bounds of one reading of the line: users per slice of a scan, and readers at once.
const (
	slice   = 1000
	readers = 8
)

func loadLine(ctx context.Context, s Sources, b *Books) error {
	b.Line.TakenAt = time.Now()
	line, err := s.Room.Audit(ctx, b.Product)
	if errors.Is(err, waitingroom.ErrNotReady) {
		return nil // a slot without settings: nothing is known, and the checks say so
	}
	if err != nil {
		return err
	}
	v := line.View
	b.Inc = max(b.Inc, v.Inc)
	b.Line = Line{
		Known: true, StockKnown: v.StockKnown, Base: v.Base, Seq: v.Seq, Held: v.Held, IntentUnits: line.HeldSum, Intents: v.InFlight,
		Waiting: v.Waiting, Away: v.Away, Active: line.ActiveAll, Ordering: line.Orderings, Ended: line.Tally.Ended(),
		Joined: line.Tally.Joined + line.Tally.Restored, Graces: line.Graces, Back: line.Tally.Back, Capacity: int64(v.Capacity), Burst: int64(v.Burst), Rate: v.Rate,
		Admits: line.Admits, Users: map[product.UserHash]int{}, Statuses: map[order.ID]order.Status{}, TakenAt: b.Line.TakenAt,
	}
	if err := loadParked(ctx, s, b); err != nil {
		return err
	}
	if err := loadUsers(ctx, s, b); err != nil {
		return err
	}
	if err := loadPlaces(ctx, s, b); err != nil {
		return err
	}
	return loadStatuses(ctx, s, b)
}

// loadParked adds up what parked orders hold. One that has a row by now, of a cancel, must hold nothing.
func loadParked(ctx context.Context, s Sources, b *Books) error {
	held, err := s.Room.HeldBy(ctx, b.Product, parked(b.Ledger.DeadLetters))
	if err != nil {
		return err
	}
	for _, o := range b.Ledger.Orders {
		delete(held, o.OrderID)
	}
	for _, units := range held {
		b.Line.HeldParked += units
	}
	return nil
}

// loadUsers finds everybody who is in any set, and for each, at one instant, in how many.
func loadUsers(ctx context.Context, s Sources, b *Books) error {
	for _, set := range []waitingroom.Set{waitingroom.SetWaiting, waitingroom.SetAway, waitingroom.SetActive, waitingroom.SetRecords} {
		for cursor := uint64(0); ; {
			users, next, err := s.Room.ScanUsers(ctx, b.Product, set, cursor, slice)
			if err != nil {
				return err
			}
			for _, u := range users {
				b.Line.Users[u] = 0
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	users := make([]product.UserHash, 0, len(b.Line.Users))
	for u := range b.Line.Users {
		users = append(users, u)
	}
	sets := make([]int, len(users))
	err := each(len(users), func(i int) error {
		m, err := s.Room.Membership(ctx, b.Product, users[i])
		sets[i] = m.Sets
		return err
	})
	for i, u := range users {
		b.Line.Users[u] = sets[i]
	}
	return err
}

// loadPlaces walks the line and notes equal neighbours.
func loadPlaces(ctx context.Context, s Sources, b *Books) error {
	last := waitingroom.Entry{}
	for from := product.Place(0); ; {
		entries, err := s.Room.WaitingFrom(ctx, b.Product, from, slice)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Place == last.Place && e.User != last.User {
				b.Line.EqualPlaces = append(b.Line.EqualPlaces, e.Place)
			}
			last = e
		}
		if len(entries) < slice || last.Place == from {
			return nil
		}
		from = last.Place
	}
}

// loadStatuses reads what the users of all judged orders would read.
func loadStatuses(ctx context.Context, s Sources, b *Books) error {
	statuses := make([]order.Status, len(b.Ledger.Orders))
	found := make([]bool, len(b.Ledger.Orders))
	err := each(len(statuses), func(i int) error {
		var err error
		statuses[i], found[i], err = s.Status.Get(ctx, b.Ledger.Orders[i].OrderID)
		return err
	})
	for i, o := range b.Ledger.Orders {
		if found[i] {
			b.Line.Statuses[o.OrderID] = statuses[i]
		}
	}
	return err
}

// each calls fn for 0..n-1, a few at a time, and returns the first error.
func each(n int, fn func(int) error) error {
	var workers sync.WaitGroup
	var mu sync.Mutex
	next, first := 0, error(nil)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= n || first != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(readers, n) {
		workers.Go(func() {
			for i, more := take(); more; i, more = take() {
				if err := fn(i); err != nil {
					mu.Lock()
					if first == nil {
						first = fmt.Errorf("read %d of %d: %w", i+1, n, err)
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return first
}
