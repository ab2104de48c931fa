package admit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

const (
	slotLines = 10 // at the same time, each with a capacity of one
	slotsEach = 50 // that become free, one after the other, in each
	endsEach  = 20 // of passes that live for a second, the least there is
	slotAim   = 20 * time.Millisecond
)

// BenchmarkSlotLatency is how long a slot stands free before the next person has it, by each trigger alone and by all of them: of passes
// that are used or given up, from the begin of the call to the change of the line, and of passes that end, from that moment on.
func BenchmarkSlotLatency(b *testing.B) {
	for range b.N {
		for _, set := range [][]admit.Trigger{
			{admit.Tick}, {admit.PubSub}, {admit.Stream}, {admit.Keyspace}, {admit.Tick, admit.PubSub, admit.Stream, admit.Keyspace},
		} {
			alone := len(set) == 1
			name := string(set[0])
			if !alone {
				name = "all"
			}
			if name != string(admit.Keyspace) { // which hears of nothing else
				slotLatency(b, "slot-latency "+name, set, false)
			}
			if name != string(admit.PubSub) && name != string(admit.Stream) { // which do not hear of it
				slotLatency(b, "slot-latency-expired "+name, set, true)
			}
		}
	}
}

func slotLatency(b *testing.B, name string, set []admit.Trigger, expired bool) {
	b.Helper()
	oneAtATime, each := func(s *product.Settings) { s.Rate, s.Burst, s.Capacity = 100_000, 1000, 1 }, slotsEach
	if expired {
		bounded := oneAtATime
		oneAtATime, each = func(s *product.Settings) { bounded(s); s.PassMS = 1000 }, endsEach
	}
	w := newWorld(b, 1_000_000, oneAtATime)
	ids := []product.ID{p}
	for n := 1; n < slotLines; n++ {
		id := product.ID("p" + strconv.Itoa(n))
		ledgertest.Product(b, w.books, id, 1_000_000, oneAtATime)
		if _, err := w.books.Open(b.Context(), ledger.Action{RequestID: "o" + strconv.Itoa(n), Operator: "bench", Product: id}); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, id)
	}
	s := w.scheduler(func(c *admit.Config) { // as the service has it
		c.Tick, c.Upkeep, c.Deadline, c.Concurrency = 100*time.Millisecond, time.Second, 2*time.Second, 32
		c.Triggers, c.Slots, c.Readers, c.Sources = set, nil, 16, map[admit.Trigger]admit.Source{
			admit.PubSub: w.room.Follow,
			admit.Keyspace: func(ctx context.Context, begun func(), hint func(product.ID)) error {
				return w.room.FollowLeases(ctx, true, begun, hint)
			},
		}
		if slices.Contains(set, admit.Stream) {
			c.Slots = waitingroom.NewSlots(w.rdb, w.keys)
		}
	})
	defer s.stop()
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			line := &slotLine{w: w, id: id}
			for range each {
				waited, ok := line.next(b, expired)
				if !ok {
					return
				}
				mu.Lock()
				took = append(took, waited)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Printf("bench %s: p50 %.1f ms, p99 %.1f ms of %d slots, aim %d ms\n", name,
		ms(took[len(took)/2]), ms(took[len(took)*99/100]), len(took), slotAim.Milliseconds())
}

// slotLine is one line with its only slot.
type slotLine struct {
	w      *world
	id     product.ID
	joined int
	has    waitingroom.Standing // who has the slot
	who    product.UserHash
	last   string // change of the line
}

// next frees the slot when it was taken for a while, and tells how long it took until somebody else had it.
func (l *slotLine) next(b *testing.B, expired bool) (time.Duration, bool) {
	b.Helper()
	for l.has.State != waitingroom.Active { // the first one
		if l.joined == 0 {
			until(b, "the line opens", func() bool { v, err := l.w.room.View(b.Context(), l.id); return err == nil && v.StockKnown })
			l.last = "0"
			if !l.join(b) {
				return 0, false
			}
			l.who = l.user(0)
		}
		if _, _, ok := l.admitted(b); !ok || !l.look(b) {
			return 0, false
		}
	}
	if !l.join(b) {
		return 0, false
	}
	var freed time.Time
	var err error
	if expired {
		freed, err = l.expire(b.Context())
	} else {
		<-time.After(50*time.Millisecond + rand.N(100*time.Millisecond)) //nolint:gosec // no secret; by then the capacity is known to hold people up
		freed = time.Now()
		err = l.give(b.Context())
	}
	if err != nil {
		b.Error(err)
		return 0, false
	}
	at, byRedis, ok := l.admitted(b)
	l.who = l.user(l.joined - 1)
	if expired {
		at = byRedis
	}
	return at.Sub(freed), ok && l.look(b)
}

func (l *slotLine) user(n int) product.UserHash {
	return product.HashUser(keyring.Key{}, product.UserID(string(l.id)+strconv.Itoa(n)))
}

// join puts somebody behind who has the slot.
func (l *slotLine) join(b *testing.B) bool {
	b.Helper()
	if _, err := l.w.room.Join(b.Context(), l.id, l.user(l.joined), nil); err != nil {
		b.Error(err)
		return false
	}
	l.joined++
	return true
}

// look reads who has the slot now.
func (l *slotLine) look(b *testing.B) bool {
	b.Helper()
	var err error
	if l.has, err = l.w.room.Status(b.Context(), l.id, l.who, nil); err != nil || l.has.State != waitingroom.Active {
		b.Errorf("%+v, %v", l.has, err)
		return false
	}
	return true
}

// admitted waits for the change that somebody was admitted, and tells when it arrived and when Redis wrote it.
func (l *slotLine) admitted(b *testing.B) (at, byRedis time.Time, ok bool) {
	b.Helper()
	deadline := time.Now().Add(within)
	for time.Now().Before(deadline) {
		read, err := l.w.rdb.XRead(b.Context(), &redis.XReadArgs{Streams: []string{l.w.keys.Product(l.id).Changes, l.last}, Block: time.Second}).Result()
		at = time.Now()
		if err != nil && err != redis.Nil { //nolint:errorlint // the client's own
			b.Error(err)
			return at, at, false
		}
		for _, stream := range read {
			for _, change := range stream.Messages {
				l.last = change.ID
				if move, _ := change.Values["move"].(string); strings.HasPrefix(move, "<") {
					ms, _ := strconv.ParseInt(change.ID[:strings.IndexByte(change.ID, '-')], 10, 64)
					return at, time.UnixMilli(ms), true
				}
			}
		}
	}
	b.Errorf("nobody was admitted to %s", l.id)
	return at, at, false
}

// give uses the pass, or gives it up, in turn.
func (l *slotLine) give(ctx context.Context) error {
	if l.joined%2 == 0 {
		_, err := l.w.room.Leave(ctx, l.id, l.who, l.has.Place)
		return err
	}
	result, err := l.w.room.Bind(ctx, waitingroom.BindRequest{
		Product: l.id, User: l.who, Place: l.has.Place, OrderID: order.DeriveID(keyring.Key{}, l.id, l.who, l.has.Place, l.has.Product.OpenedUS),
		ExpiresMS: l.has.LeaseEndMS, Epoch: l.has.Product.PassEpoch, Digest: order.Digest(1, ""), Quantity: 1, Command: []byte("command"),
	})
	if err == nil && result.Outcome != waitingroom.BindBound {
		err = fmt.Errorf("%+v", result)
	}
	return err
}

// expire has the lease written that queue-api writes for a pass, and tells when both end.
func (l *slotLine) expire(ctx context.Context) (time.Time, error) {
	end := time.UnixMilli(l.has.LeaseEndMS)
	return end, l.w.room.Lease(ctx, l.id, l.who, end)
}
