package waitingroom_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/redisconn/redistest"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// sale is one product's whole life with a crowd: each joins, polls, and orders or leaves; schedulers admit, a consumer judges. Everybody's
// client loses answers, and everybody asks again as the services and their callers do.
type sale struct {
	*bundle    // sees all, and loses nothing
	room       *waitingroom.Room
	schedulers []*waitingroom.Admitter
	counter    *stock.Counter
	statuses   *orderstatus.Store
	log        chan waitingroom.BindRequest // what was produced, copies too
}

const (
	crowd     = 30
	saleUnits = 1000
	// pollEvery is short for people and long for Redis, which loses most of what goes out together.
	pollEvery = 10 * time.Millisecond
)

// saleEnd is what a sale comes to.
type saleEnd struct {
	Line      []int // who waited, in the order of their places
	Standings map[int]waitingroom.State
	Tally     waitingroom.Tally
	Stock     [3]int64 // base, seq, held
	Judged    map[int]int
	Confirmed int // statuses
}

// sale makes one sale's connections, whose answers get lost.
func (b *bundle) sale(fixture localtest.RedisFixture, swallower *redistest.Swallower) *sale {
	config := redisconn.Config{Addrs: fixture.Addrs, Mode: redisconn.Mode(fixture.Mode), Timeout: 20 * time.Second}
	client := func(options *redis.UniversalOptions) redis.UniversalClient {
		options.Dialer = swallower.Dial
		rdb := redisconn.New(options)
		b.t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	people := redisconn.Share(client(redisconn.ClientOptions(config))) // as queue-api
	consumer := client(redisconn.ClientOptions(config))
	s := &sale{
		bundle: b, room: waitingroom.New(people, b.keys), statuses: orderstatus.New(people, b.keys, orderstatus.Config{}),
		counter: stock.New(consumer, b.keys), log: make(chan waitingroom.BindRequest, 100*crowd),
	}
	for range 3 {
		s.schedulers = append(s.schedulers, waitingroom.NewAdmitter(client(redisconn.OnceOptions(config)), b.keys))
	}
	return s
}

// until polls at a person's pace.
func (s *sale) until(what string, reached func() bool) {
	ticker, deadline := time.NewTicker(pollEvery), time.After(time.Minute)
	defer ticker.Stop()
	for !reached() {
		select {
		case <-ticker.C:
		case <-deadline:
			s.t.Errorf("%s: not reached", what)
			return
		}
	}
}

// again repeats a call until it is answered.
func again[T any](s *sale, what string, call func(ctx context.Context) (T, error)) (answer T) {
	s.until(what, func() bool {
		var err error
		answer, err = call(s.ctx)
		return err == nil
	})
	return answer
}

// person is one of the crowd: every fifth gives the pass up, the others order, and send what they were answered.
func (s *sale) person(n int, place product.Place) {
	u := user(n)
	s.until("a pass", func() bool {
		standing, err := s.room.Status(s.ctx, s.product, u, &waitingroom.TicketClaim{Place: place, OrderID: s.id(u, place)})
		return err == nil && standing.State == waitingroom.Active
	})
	if n%5 == 0 {
		again(s, "leave", func(ctx context.Context) (waitingroom.Standing, error) { return s.room.Leave(ctx, s.product, u, place) })
		return
	}
	request := s.request(u, place, 1+n%2)
	bound := again(s, "bind", func(ctx context.Context) (waitingroom.BindResult, error) { return s.room.Bind(ctx, request) })
	if bound.Outcome != waitingroom.BindBound || string(bound.Command) != string(request.Command) {
		s.t.Errorf("person %d: %+v", n, bound)
		return
	}
	s.log <- request
	accepted := order.Status{Version: order.VersionAccepted, State: order.StateAccepted, Product: s.product, User: u}
	again(s, "status", func(ctx context.Context) (bool, error) { return s.statuses.Put(ctx, request.OrderID, accepted) })
	again(s, "acknowledgement", func(ctx context.Context) (bool, error) { return true, s.room.Acked(ctx, s.product, request.OrderID) })
}

// judge is the consumer: a ledger that confirms each order once, then decrement and status, told again until they are answered.
func (s *sale) judge() (judged map[int]int) {
	judged = map[int]int{}
	known, base, seq := map[order.ID]bool{}, int64(saleUnits), int64(0)
	for request := range s.log {
		if !known[request.OrderID] {
			known[request.OrderID] = true
			base, seq = base-int64(request.Quantity), seq+1
			judged[request.Quantity]++
		}
		settled := []stock.Judged{{OrderID: request.OrderID, User: request.User, Place: request.Place}}
		again(s, "decrement", func(ctx context.Context) (bool, error) {
			return true, s.counter.Settle(ctx, s.product, base, seq, false, settled)
		})
		verdict := order.Status{Version: order.VersionVerdict, State: order.StateConfirmed, Product: s.product, User: request.User, Quantity: request.Quantity}
		again(s, "verdict", func(ctx context.Context) (bool, error) { return s.statuses.Put(ctx, request.OrderID, verdict) })
	}
	return judged
}

// hold holds the sale and says how it ended.
func (s *sale) hold() saleEnd {
	set := settings()
	set.Capacity, set.Rate, set.Burst = 10, 1000, 5
	s.open(set, 1, saleUnits)
	end := saleEnd{Standings: map[int]waitingroom.State{}}
	places := make([]product.Place, crowd)
	for n := range crowd {
		places[n] = again(s, "join", func(ctx context.Context) (waitingroom.Standing, error) {
			return s.room.Join(ctx, s.product, user(n), nil)
		}).Place
	}
	for n := range crowd {
		end.Line = append(end.Line, n)
	}
	slices.SortFunc(end.Line, func(a, b int) int { return int(places[a] - places[b]) })

	var gate, consumer, crowds sync.WaitGroup
	over := make(chan struct{})
	for _, scheduler := range s.schedulers {
		gate.Go(func() {
			ticker := time.NewTicker(pollEvery)
			defer ticker.Stop()
			for {
				select {
				case <-over:
					return
				case <-ticker.C: // an error is the next look's: admit is never repeated by itself (F41)
					if r, err := scheduler.Admit(s.ctx, s.product, 3); err == nil && r.Active > int64(set.Capacity) {
						s.t.Errorf("%d active, capacity %d", r.Active, set.Capacity)
					}
				}
			}
		})
	}
	consumer.Go(func() { end.Judged = s.judge() })
	for n := range crowd {
		crowds.Go(func() { s.person(n, places[n]) })
	}
	crowds.Wait()
	close(s.log)
	consumer.Wait()
	close(over)
	gate.Wait()

	for n := range crowd {
		end.Standings[n] = s.found(n)
		status, found, err := orderstatus.New(s.rdb, s.keys, orderstatus.Config{}).Get(s.ctx, s.id(user(n), places[n]))
		s.check(err)
		if found && status.State == order.StateConfirmed {
			end.Confirmed++
		}
	}
	books := s.balance()
	end.Tally, end.Stock = books.Tally, [3]int64{books.View.Base, books.View.Seq, books.View.Held}
	s.keepsRate(books, set)
	return end
}

// keepsRate checks every run of whole seconds.
func (b *bundle) keepsRate(books waitingroom.Books, s product.Settings) {
	b.t.Helper()
	for from := range books.Admits {
		var n int64
		for to := from; to < from+120; to++ {
			n += books.Admits[to]
			if most := int64(s.Rate)*(to-from+1) + int64(s.Burst); n > most {
				b.t.Fatalf("%d admitted from second %d to %d, at most %d", n, from, to, most)
			}
		}
	}
}

// A whole sale over connections on which every nth answer is lost comes to the same as one without: nobody's move is lost or made twice.
func TestLostAnswersChangeNothing(t *testing.T) {
	t.Parallel()
	fixture := localtest.Redis(t)
	b := bundleOn(t, fixture)
	hold := func(every int) (saleEnd, int) {
		fresh := *b
		fresh.product = product.ID("every" + strconv.Itoa(every))
		swallower := redistest.Swallow(every)
		return fresh.sale(fixture, swallower).hold(), swallower.Swallowed()
	}
	want, _ := hold(0)
	if want.Tally.Ordered != crowd*4/5 || want.Confirmed != crowd*4/5 || want.Tally.Left != crowd/5 || !slices.IsSorted(want.Line) {
		t.Fatalf("without a loss: %+v", want)
	}
	for _, every := range []int{7, 20} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			got, swallowed := hold(every)
			if diff := cmp.Diff(want, got); diff != "" || swallowed < crowd/every {
				t.Fatalf("%d answers were lost: %s", swallowed, diff)
			}
			t.Logf("%d answers were lost", swallowed)
		})
	}
}
