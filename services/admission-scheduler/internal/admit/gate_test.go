package admit_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
	"hanjul/services/admission-scheduler/internal/admit"
)

const wide, narrow = 1000, 50 // capacities

// crowd is a burst of people who join one line, take their pass as soon as they have it and use it up at once, while three schedulers with
// every trigger let them through.
type crowd struct {
	*world
	people         int
	rate, burst    int64
	narrowed       int64             // second since 1970 at which the capacity was lowered
	shared         *waitingroom.Room // as a queue-api has it
	known          map[product.UserHash]int
	places         []atomic.Int64 // by person; 0 until they were told
	admitted       chan int
	bound          chan stock.Judged
	joinsTook      time.Duration
	samples        int64
	last           waitingroom.ProductView // of the sample before
	slack, slackAt float64                 // of the rate: see sample
}

// TestGate holds a burst against capacity and rate, second by second and sample by sample. The suite does with a few thousand people;
// HANJUL_GATE_JOINS, set by make test-gate, is how many.
func TestGate(t *testing.T) {
	t.Parallel()
	people, err := strconv.Atoi(cmp.Or(os.Getenv("HANJUL_GATE_JOINS"), "3000"))
	if err != nil || people < 1000 {
		t.Fatalf("HANJUL_GATE_JOINS: expected 1000 or more, found %d, %v", people, err)
	}
	server := localtest.RedisWith(t, local.RedisOptions{}) // its notify-keyspace-events is set below
	c := &crowd{
		people: people, rate: int64(min(people/2, 2500)), burst: int64(min(people/20, 250)),
		known: map[product.UserHash]int{}, places: make([]atomic.Int64, people),
		admitted: make(chan int, people), bound: make(chan stock.Judged, people),
	}
	c.world = newWorldAt(t, []string{server.Addr()}, "gate:", int64(people), func(s *product.Settings) {
		s.Rate, s.Burst, s.Capacity, s.PassMS, s.InflightMax = float64(c.rate), int(c.burst), wide, 1000, 1_000_000
	})
	for n := range people {
		c.known[user(n)] = n
	}
	shared := redisconn.Share(c.client(redisconn.ClientOptions(c.conn)))
	c.shared = waitingroom.New(shared, c.keys)
	var schedulers []*scheduler
	for range 3 {
		schedulers = append(schedulers, c.gate())
	}
	c.open()
	for _, s := range schedulers {
		for _, trigger := range []admit.Trigger{admit.PubSub, admit.Keyspace} {
			until(t, "it listens", func() bool { return s.gauge(t, "hanjul_admit_trigger_up", string(trigger)) == 1 })
		}
	}
	c.hold()
	hints := map[admit.Trigger]float64{}
	for _, s := range schedulers {
		for _, trigger := range []admit.Trigger{admit.PubSub, admit.Keyspace, admit.Stream} {
			hints[trigger] += s.count(t, "hanjul_admit_hints_total", string(trigger))
		}
	}
	t.Logf("hints heard: %v", hints)
}

func (c *crowd) client(options *redis.UniversalOptions) redis.UniversalClient {
	rdb := redisconn.New(options)
	c.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// gate is a scheduler with connections of its own and every trigger, with the tick of the default settings.
func (c *crowd) gate() *scheduler {
	rdb, once := c.client(redisconn.ClientOptions(c.conn)), c.client(redisconn.OnceOptions(c.conn))
	room := waitingroom.New(rdb, c.keys)
	return c.scheduler(func(config *admit.Config) {
		config.Room, config.Admitter, config.Tick = room, waitingroom.NewAdmitter(once, c.keys), 100*time.Millisecond
		config.Triggers = []admit.Trigger{admit.Tick, admit.PubSub, admit.Keyspace, admit.Stream}
		config.Sources = map[admit.Trigger]admit.Source{
			admit.PubSub: room.Follow,
			admit.Keyspace: func(ctx context.Context, begun func(), hint func(product.ID)) error {
				return room.FollowLeases(ctx, true, begun, hint)
			},
		}
		config.Slots, config.Readers = waitingroom.NewSlots(c.client(redisconn.ClientOptions(c.conn)), c.keys), 1
	})
}

// hold lets everybody in and through, and looks at the line all the time.
func (c *crowd) hold() {
	over, work := make(chan struct{}), new(sync.WaitGroup)
	work.Go(func() { c.each(5*time.Millisecond, over, c.sample) })
	work.Go(func() { c.each(10*time.Millisecond, over, c.find) })
	work.Go(func() { c.judge(over) })
	for range 64 {
		work.Go(func() {
			for {
				select {
				case n := <-c.admitted:
					c.use(n)
				case <-over:
					return
				}
			}
		})
	}
	c.joins()
	c.wait("half of them are admitted", func(k waitingroom.Books) bool { return k.View.Admitted >= int64(c.people/2) })
	c.narrow()
	c.wait("all of them are through", func(k waitingroom.Books) bool {
		return k.View.Admitted == int64(c.people) && k.ActiveAll+k.View.InFlight == 0
	})
	close(over)
	work.Wait()
	c.end()
}

// wait polls for an event as long as people move.
func (c *crowd) wait(what string, happened func(waitingroom.Books) bool) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	last, since := int64(-1), time.Now()
	for k := c.books(); !happened(k); k = c.books() {
		if moved := k.View.Admitted + k.Tally.Ordered + k.Tally.Lapsed; moved != last {
			last, since = moved, time.Now()
		}
		if time.Since(since) > within {
			c.t.Errorf("never came: %s: %+v", what, k)
			return
		}
		<-ticker.C
	}
}

// narrow lowers the capacity, so that from here on every admission is of a slot that became free.
func (c *crowd) narrow() {
	s := c.row().Settings
	s.Capacity = narrow
	if _, err := c.world.books.PutProduct(c.t.Context(), c.action(), s, nil); err != nil {
		c.t.Error(err)
	}
	c.narrowed = c.books().View.NowMS / 1000
}

// each does something at a pace until it is over.
func (c *crowd) each(pace time.Duration, over <-chan struct{}, do func()) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-over:
			return
		}
	}
}

func (c *crowd) books() waitingroom.Books {
	books, err := c.room.Audit(c.t.Context(), p)
	if err != nil {
		c.t.Error(err)
	}
	return books
}

// joins is the burst.
func (c *crowd) joins() {
	begun := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 128 {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < c.people; n = int(next.Add(1)) - 1 {
				s, err := c.shared.Join(c.t.Context(), p, user(n), nil)
				if err != nil || !s.Created {
					c.t.Errorf("join of %d: %+v, %v", n, s, err)
					return
				}
				c.places[n].Store(int64(s.Place))
			}
		})
	}
	wg.Wait()
	c.joinsTook = time.Since(begun)
}

// sample holds one instant against the bounds. By Redis TIME, what was admitted since any instant before is at most the rate times the time
// since then, and the burst: so it is for the one instant since which the most is left over.
func (c *crowd) sample() {
	k := c.books()
	c.samples++
	// Nobody is thrown out when the capacity is lowered, and nobody is admitted until there are fewer.
	most := max(int64(k.View.Capacity), c.last.Active)
	if k.View.Capacity != c.last.Capacity {
		most = max(most, int64(c.last.Capacity))
	}
	if k.View.Active > most {
		c.t.Errorf("%d active, at most %d, capacity %d", k.View.Active, most, k.View.Capacity)
	}
	c.last = k.View
	// Nobody gives up a place in the line here: whoever was admitted holds a slot or freed one.
	if freed := k.Tally.Left + k.Tally.Bound + k.Tally.Lapsed; k.Tally.Admitted != k.ActiveAll+freed {
		c.t.Errorf("admitted %d, but %d hold a pass and %d were freed", k.Tally.Admitted, k.ActiveAll, freed)
	}
	over := float64(k.Tally.Admitted) - float64(c.rate)*float64(k.View.NowMS)/1000
	if c.samples == 1 {
		c.slackAt = over
	}
	c.slackAt = min(c.slackAt, over)
	c.slack = max(c.slack, over-c.slackAt)
	if over-c.slackAt > float64(c.burst)+0.01 {
		c.t.Errorf("%g admitted beyond the rate, burst %d", over-c.slackAt, c.burst)
	}
}

// find hands whoever holds a pass, and was told their place, to those that use passes.
func (c *crowd) find() {
	active, err := c.rdb.ZRange(c.t.Context(), c.keys.Product(p).Active, 0, -1).Result()
	if err != nil {
		c.t.Error(err)
	}
	for _, u := range active {
		n, ok := c.known[product.UserHash(u)]
		if ok && c.places[n].Load() > 0 {
			delete(c.known, product.UserHash(u))
			c.admitted <- n
		}
	}
}

// use gives a pass up or orders with it. Every fiftieth person lets it lapse, and Redis tells when.
func (c *crowd) use(n int) {
	place := product.Place(c.places[n].Load())
	id := order.ID("order-" + place.String())
	var err error
	switch {
	case n%50 == 0:
		err = c.room.Lease(c.t.Context(), p, user(n), time.Now().Add(time.Second))
	case n%2 == 0:
		_, err = c.shared.Leave(c.t.Context(), p, user(n), place)
	default:
		var result waitingroom.BindResult
		result, err = c.shared.Bind(c.t.Context(), waitingroom.BindRequest{
			Product: p, User: user(n), Place: place, OrderID: id, ExpiresMS: time.Now().Add(time.Minute).UnixMilli(), Epoch: 1,
			Digest: order.Digest(1, ""), Quantity: 1, Command: []byte(id),
		})
		if result.Outcome == waitingroom.BindBound {
			c.bound <- stock.Judged{OrderID: id, User: user(n), Place: place}
		}
	}
	if err != nil {
		c.t.Errorf("person %d: %v", n, err)
	}
}

// judge confirms what was ordered, as the consumer does, in batches.
func (c *crowd) judge(over <-chan struct{}) {
	counter, base, seq := stock.New(c.rdb, c.keys), int64(c.people), int64(0)
	c.each(5*time.Millisecond, over, func() {
		var batch []stock.Judged
		for len(c.bound) > 0 && len(batch) < 500 {
			batch = append(batch, <-c.bound)
		}
		if len(batch) == 0 {
			return
		}
		base, seq = base-int64(len(batch)), seq+int64(len(batch))
		if err := counter.Settle(c.t.Context(), p, base, seq, false, batch); err != nil {
			c.t.Error(err)
		}
	})
}

// end looks at the books when everything is over.
func (c *crowd) end() {
	k := c.books()
	if ended := k.Tally.Left + k.Tally.Ordered + k.Tally.Lapsed; k.Tally.Joined != int64(c.people) || k.Tally.Admitted != int64(c.people) || ended != int64(c.people) {
		c.t.Errorf("nobody may be lost, and nobody admitted twice: %+v", k.Tally)
	}
	if k.View.Held != 0 || k.View.Base != int64(c.people)-k.Tally.Ordered {
		c.t.Errorf("stock: %+v", k.View)
	}
	seconds := slices.Sorted(maps.Keys(k.Admits))
	for _, from := range seconds {
		var n int64
		for to := from; to <= seconds[len(seconds)-1]; to++ {
			n += k.Admits[to]
			if most := c.rate*(to-from+1) + c.burst; n > most {
				c.t.Errorf("%d admitted from second %d to %d, at most %d", n, from, to, most)
			}
		}
	}
	// Of the whole seconds in which nothing but the rate held people up.
	var whole []int64
	var sum int64
	for _, second := range seconds {
		if second > seconds[0] && second < c.narrowed {
			whole, sum = append(whole, k.Admits[second]), sum+k.Admits[second]
		}
	}
	reached := "no whole second"
	if len(whole) > 0 {
		reached = fmt.Sprintf("in whole seconds %v, %.2f %% of the rate", whole, 100*float64(sum)/float64(int64(len(whole))*c.rate))
	}
	c.t.Logf("%d joins in %.1f s; rate %d, burst %d: %s; %d samples, none above the capacity (%d, then %d), at most %.1f beyond the rate; %d ordered, %d left, %d lapsed",
		c.people, c.joinsTook.Seconds(), c.rate, c.burst, reached, c.samples, wide, narrow, c.slack, k.Tally.Ordered, k.Tally.Left, k.Tally.Lapsed)
}
