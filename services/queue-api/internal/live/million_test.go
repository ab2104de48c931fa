package live

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/lua"
	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

const (
	joiners     = 256                  // at once, while the line fills
	fewWaiting  = 1_000                // of the line that the long one is compared with
	roundCalls  = 100                  // of each kind, for each line, in a round
	costRounds  = 60                   // of which the median is told
	sliceRounds = 40                   // runs of the admit script in which every slice is full
	slowAim     = 5 * time.Millisecond // a script holds up everybody for as long
)

// BenchmarkMillion fills a line through the join script and tells what a person of it costs: memory in Redis and here, and how much more
// joins, looks and admissions take than in a line of a thousand; then the longest run of any script. People by HANJUL_MILLION_PEOPLE;
// "make million" has a million.
func BenchmarkMillion(b *testing.B) {
	people := 100_000
	if text := os.Getenv("HANJUL_MILLION_PEOPLE"); text != "" {
		var err error
		if people, err = strconv.Atoi(text); err != nil || people < 20*fewWaiting {
			b.Fatalf("HANJUL_MILLION_PEOPLE: expected a whole number from %d, found %q", 20*fewWaiting, text)
		}
	}
	for range b.N {
		m := newMillion(b)
		few, many := m.open("few"), m.open("many")
		m.join(few, fewWaiting)
		m.slow()
		before := m.info("memory", "used_memory")
		m.join(many, people)
		m.watchAll(many)
		m.memory(many, before)
		m.snapshot(many)
		m.costs(few, many)
		m.slices(many)
	}
}

// million is a Redis of the benchmark's own with two lines.
type million struct {
	*testing.B

	rdb, once redis.UniversalClient
	room      *waitingroom.Room
	admitter  *waitingroom.Admitter
	counter   *stock.Counter
	keys      product.Keyspace
	scripts   map[string]string // names by hash
	longest   run
}

// run is how long a script took once.
type run struct {
	took   time.Duration
	script string
}

// crowd is one line with who joined it.
type crowd struct {
	id      product.ID
	version int64
	joined  atomic.Int64
	waiting int64
}

func newMillion(b *testing.B) *million {
	b.Helper()
	server := localtest.RedisWith(b, local.RedisOptions{})
	conn := redisconn.Config{Addrs: []string{server.Addr()}, Timeout: time.Minute}
	m := &million{B: b, keys: product.Keyspace{Prefix: "hanjul:"}, scripts: map[string]string{}}
	files, err := lua.FS.ReadDir(".")
	m.check(err)
	for _, file := range files {
		source, err := lua.FS.ReadFile(file.Name())
		m.check(err)
		m.scripts[redis.NewScript(string(source)).Hash()] = file.Name()
	}
	m.rdb, m.once = redisconn.Share(redisconn.New(redisconn.ClientOptions(conn))), redisconn.New(redisconn.OnceOptions(conn))
	b.Cleanup(func() { _, _ = m.rdb.Close(), m.once.Close() })
	m.room, m.admitter, m.counter = waitingroom.New(m.rdb, m.keys), waitingroom.NewAdmitter(m.once, m.keys), stock.New(m.rdb, m.keys)
	m.config("slowlog-log-slower-than", "1000")
	return m
}

func (m *million) check(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *million) config(name, value string) {
	m.Helper()
	m.check(m.rdb.ConfigSet(m.Context(), name, value).Err())
}

// info is a number of a section of INFO.
func (m *million) info(section, name string) float64 {
	m.Helper()
	text, err := m.rdb.Info(m.Context(), section).Result()
	m.check(err)
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			n, err := strconv.ParseFloat(value, 64)
			m.check(err)
			return n
		}
	}
	m.Fatalf("redis does not tell %s", name)
	return 0
}

// settings of a line that nothing bounds but, at first, its capacity of one.
func (m *million) settings(c *crowd, capacity int) waitingroom.LineSettings {
	c.version++
	s := product.DefaultSettings()
	s.State, s.Rate, s.Burst, s.Capacity, s.MaxLen = product.Open, 100_000, 100_000, capacity, 10_000_000
	return waitingroom.LineSettings{Settings: s, V: c.version, OpenedUS: time.Now().Add(-time.Hour).UnixMicro(), PassEpoch: 1}
}

func (m *million) open(id product.ID) *crowd {
	m.Helper()
	c := &crowd{id: id}
	m.check(m.room.RestoreBegin(m.Context(), id, "n"))
	m.check(m.room.RestoreCommit(m.Context(), id, "n", m.settings(c, 1), 1, 0, 0))
	m.check(m.counter.Settle(m.Context(), id, 10_000_000, 0, true, nil))
	return c
}

// person is the hash of the nth person of a line.
func (c *crowd) person(n int64) product.UserHash {
	return product.HashUser(keyring.Key{}, product.UserID(string(c.id)+strconv.FormatInt(n, 10)))
}

// join puts n more people into the line, by the script that everybody joins with.
func (m *million) join(c *crowd, n int) {
	m.Helper()
	begun := time.Now()
	last := c.joined.Load() + int64(n)
	var group sync.WaitGroup
	for range min(joiners, n) {
		group.Go(func() {
			for i := c.joined.Add(1); i <= last; i = c.joined.Add(1) {
				if s, err := m.room.Join(m.Context(), c.id, c.person(i), nil); err != nil || !s.Created {
					m.Errorf("join: %+v, %v", s, err)
					return
				}
			}
		})
	}
	group.Wait()
	c.joined.Store(last)
	c.waiting += int64(n)
	if m.Failed() {
		m.FailNow()
	}
	if n > fewWaiting {
		fmt.Printf("bench million-filled: %d people in %.0f s\n", n, time.Since(begun).Seconds())
	}
}

// watchAll lets the capacity of one be taken, and looks at the line until everybody near the front is watched for absence.
func (m *million) watchAll(c *crowd) {
	m.Helper()
	near := product.Place(-1)
	for {
		_, err := m.admitter.Admit(m.Context(), c.id, 1)
		m.check(err)
		view, err := m.room.View(m.Context(), c.id)
		m.check(err)
		if view.Near == near {
			c.waiting = view.Waiting
			return
		}
		near = view.Near
	}
}

// memory tells what a person costs in Redis, everything counted: what all memory rose by, and of that each key's part.
func (m *million) memory(c *crowd, before float64) {
	m.Helper()
	m.slow() // the log takes memory itself
	each := (m.info("memory", "used_memory") - before) / float64(c.waiting)
	k := m.keys.Product(c.id)
	var parts []string
	for _, key := range []struct{ name, key string }{{"waiting", k.Waiting}, {"seen", k.Seen}, {"changes", k.Changes}, {"who", k.Who}} {
		bytes, err := m.rdb.MemoryUsage(m.Context(), key.key, 10_000).Result()
		if err != nil && !strings.Contains(err.Error(), "nil") {
			m.Fatal(err)
		}
		parts = append(parts, fmt.Sprintf("%s %.1f", key.name, float64(bytes)/float64(c.waiting)))
	}
	m.ReportMetric(each, "bytes/person")
	fmt.Printf("bench million-memory: %.0f bytes a person of %d, aim 160 (%s)\n", each, c.waiting, strings.Join(parts, ", "))
}

// snapshot tells what a line costs the process that answers polls from it.
func (m *million) snapshot(c *crowd) {
	m.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	m.check(err)
	all := New(m.room, nil, slog.New(slog.DiscardHandler), metrics, Config{
		Every: time.Hour, Wait: time.Minute, Timeout: time.Minute, PlacesMax: 100_000_000,
	})
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	before, begun := heap(), time.Now()
	look, found := all.Find(m.Context(), c.id, 1)
	took := time.Since(begun)
	if !found || look.View.Waiting != c.waiting {
		m.Fatalf("%v, %+v", found, look)
	}
	fmt.Printf("bench million-snapshot: %.1f bytes a place of %d, read in %.2f s\n", (heap()-before)/float64(c.waiting), c.waiting, took.Seconds())
	runtime.KeepAlive(all)
}

// work is what calls took in Redis: the run of the scripts alone, by its own clock.
func (m *million) work(n int, do func(i int) error) float64 {
	m.Helper()
	m.check(m.rdb.ConfigResetStat(m.Context()).Err())
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := do(i); err != nil {
				m.Error(err)
			}
		})
	}
	group.Wait()
	text, err := m.rdb.Info(m.Context(), "commandstats").Result()
	m.check(err)
	_, rest, found := strings.Cut(text, "cmdstat_evalsha:calls=")
	var runs int
	var usec float64
	if _, err := fmt.Sscanf(rest, "%d,usec=%f", &runs, &usec); err != nil || !found || runs < n || m.Failed() {
		m.Fatalf("%d runs of %d, %v", runs, n, err)
	}
	return usec / float64(runs)
}

// costs tells what calls take in the long line beside the short one. The rounds alternate; their medians are told.
func (m *million) costs(few, many *crowd) {
	m.Helper()
	ctx := m.Context()
	lines := []*crowd{few, many}
	kinds := []string{"join", "poll", "refresh", "admit"}
	took := map[string][2][]float64{}
	lasts := [2]string{}
	for i, c := range lines {
		_, err := m.room.SettingsPut(ctx, c.id, m.settings(c, 1_000_000))
		m.check(err)
		slice, err := m.room.WaitingSlice(ctx, c.id, 0)
		m.check(err)
		lasts[i] = slice.Last
	}
	note := func(kind string, i int, usec float64) {
		both := took[kind]
		both[i] = append(both[i], usec)
		took[kind] = both
	}
	for round := range costRounds {
		for i := range lines {
			i = (i + round) % 2
			c := lines[i]
			first := c.joined.Load()
			c.joined.Add(roundCalls)
			places := make([]product.Place, roundCalls)
			note("join", i, m.work(roundCalls, func(n int) error {
				s, err := m.room.Join(ctx, c.id, c.person(first+1+int64(n)), nil)
				places[n] = s.Place
				return err
			}))
			note("refresh", i, m.work(1, func(int) error {
				end, err := m.room.Watch(ctx, c.id, lasts[i])
				for err == nil && end.Known && end.More {
					end, err = m.room.Watch(ctx, c.id, end.Last)
				}
				lasts[i] = end.Last
				return err
			}))
			note("poll", i, m.work(roundCalls, func(n int) error {
				// Somebody anywhere in the line; those who came first may be through.
				s, err := m.room.Status(ctx, c.id, c.person(first+1+int64(n)-rand.Int64N(c.waiting*8/10)), nil) //nolint:gosec // no secret
				if err == nil && s.State != waitingroom.Waiting {
					err = fmt.Errorf("%+v", s)
				}
				return err
			}))
			// As many as joined go in front, so the lines keep their lengths.
			note("admit", i, m.work(1, func(int) error {
				r, err := m.admitter.Admit(ctx, c.id, roundCalls)
				if err == nil && r.Admitted != roundCalls {
					err = fmt.Errorf("%+v", r)
				}
				return err
			}))
		}
	}
	for _, kind := range kinds {
		a, b := middle(took[kind][0]), middle(took[kind][1])
		fmt.Printf("bench million-%s: %.0f us in Redis with %d waiting, %.0f us with %d, ratio %.2f, aim 1.3\n", kind, b, many.waiting, a, fewWaiting, b/a)
	}
}

// slices tells what the admit script takes when everything that it does by slices is full: passes that lapse, people who are away,
// graces that end, records to forget, and people to let through; and the longest run of any script. The time by the clock is what others
// wait, and counts what else the machine did; the processor's time does not.
func (m *million) slices(c *crowd) {
	m.Helper()
	k := m.keys.Product(c.id)
	m.slow()
	m.config("slowlog-log-slower-than", "0")
	var runs, processor []float64
	for range sliceRounds {
		m.old(k.Active, 100)
		m.old(k.Seen, 99) // with one more it would look for others before it lets anybody through
		m.old(k.AwayTill, 50)
		m.old(k.WhoT, 100)
		m.check(m.rdb.SlowLogReset(m.Context()).Err())
		spent := m.info("cpu", "used_cpu_user_main_thread") + m.info("cpu", "used_cpu_sys_main_thread")
		r, err := m.admitter.Admit(m.Context(), c.id, 100)
		m.check(err)
		spent = m.info("cpu", "used_cpu_user_main_thread") + m.info("cpu", "used_cpu_sys_main_thread") - spent
		if r.Admitted != 100 || r.Lapsed == 0 || r.Away == 0 {
			m.Fatalf("%+v", r)
		}
		runs, processor = append(runs, float64(m.slow().Microseconds())/1000), append(processor, spent*1000)
	}
	aim := slowAim.Milliseconds()
	fmt.Printf("bench million-slices: admit with every slice full p50 %.2f ms, most %.2f ms; of the processor p50 %.2f ms, most %.2f ms; %d runs, aim %d ms\n",
		middle(runs), slices.Max(runs), middle(processor), slices.Max(processor), len(runs), aim)
	ended, err := m.rdb.HLen(m.Context(), k.Who).Result()
	m.check(err)
	var bytes int64
	for _, key := range []string{k.Who, k.WhoT} {
		n, err := m.rdb.MemoryUsage(m.Context(), key, 10_000).Result()
		m.check(err)
		bytes += n
	}
	fmt.Printf("bench million-ended: %.0f bytes a person whose place ended, kept for a ticket's life\n", float64(bytes)/float64(ended))
	fmt.Printf("bench million-slowest-script: %.2f ms (%s), aim %d ms\n", float64(m.longest.took.Microseconds())/1000, m.longest.script, aim)
}

// old makes the first n members of a sorted set look as if their time had long come.
func (m *million) old(key string, n int64) {
	m.Helper()
	members, err := m.rdb.ZRange(m.Context(), key, 0, n-1).Result()
	m.check(err)
	pipe := m.rdb.Pipeline()
	for _, member := range members {
		pipe.ZAddXX(m.Context(), key, redis.Z{Score: 1, Member: member})
	}
	if len(members) > 0 {
		_, err = pipe.Exec(context.WithoutCancel(m.Context()))
		m.check(err)
	}
}

// slow is the longest run of a script since it was last asked, as the log of slow commands has it.
func (m *million) slow() time.Duration {
	m.Helper()
	entries, err := m.rdb.SlowLogGet(m.Context(), -1).Result()
	m.check(err)
	m.check(m.rdb.SlowLogReset(m.Context()).Err())
	var most time.Duration
	for _, e := range entries {
		if len(e.Args) < 2 || !strings.HasPrefix(strings.ToLower(e.Args[0]), "eval") {
			continue
		}
		most = max(most, e.Duration)
		if e.Duration > m.longest.took {
			m.longest = run{e.Duration, m.scripts[e.Args[1]]}
		}
	}
	return most
}

func middle(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
