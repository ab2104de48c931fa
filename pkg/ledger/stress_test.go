package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/postgres/postgrestest"
	"hanjul/pkg/product"
)

// stressConsumers judge one log at once. One of them is the owner at any time; nothing here says which.
const stressConsumers = 4

// stressSeeds are the logs of an ordinary run; HANJUL_JUDGE_SEEDS=n runs the seeds 1 to n instead.
func stressSeeds(t *testing.T) []uint64 {
	t.Helper()
	seeds := []uint64{1, 2, 3}
	if text := os.Getenv("HANJUL_JUDGE_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		seeds = nil
		for s := range n {
			seeds = append(seeds, uint64(s+1))
		}
	}
	return seeds
}

// Four consumers judge one log at once, each from stale offsets again and again, over connections that break before and after
// their commits. The tables end as one pass of decide over the log would leave them.
func TestJudgeUnderStress(t *testing.T) {
	t.Parallel()
	for _, seed := range stressSeeds(t) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { t.Parallel(); stress(t, seed) })
	}
}

func stress(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	totals := map[product.ID]int64{"p": 5 + r.Int64N(30), "q": r.Int64N(12)}
	limit := 1 + r.Int64N(5)
	log := stressLog(t, r)

	url := ledgertest.URL(t)
	direct := ledgertest.OpenAt(t, url)
	for p, total := range totals {
		ledgertest.Product(t, direct, p, total, func(s *product.Settings) { s.UserLimit = int(limit) })
	}
	before := postgrestest.NewProxy(t, url, postgrestest.Before, 12)
	after := postgrestest.NewProxy(t, url, postgrestest.After, 12)
	ways := []*ledger.Ledger{direct, ledgertest.OpenAt(t, before.URL), ledgertest.OpenAt(t, after.URL)}

	var judged frontier
	var running sync.WaitGroup
	for i := range stressConsumers {
		running.Go(func() {
			c := consumer{log: log, ways: ways, judged: &judged, r: rand.New(rand.NewPCG(seed, uint64(i)+1))}
			if err := c.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if t.Failed() {
		return
	}
	if before.Cuts() == 0 || after.Cuts() == 0 {
		t.Errorf("no commit was cut: %d before, %d after", before.Cuts(), after.Cuts())
	}
	compare(t, direct, ledger.Replay(t, log, totals, limit), int64(len(log)))
}

// frontier is the offset before which everything is judged; nobody may begin behind it, as with a committed offset.
type frontier struct {
	mu   sync.Mutex
	next int
}

func (f *frontier) reach(next int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = max(f.next, next)
}

func (f *frontier) get() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

type consumer struct {
	log    []ledger.Input
	ways   []*ledger.Ledger
	judged *frontier
	r      *rand.Rand
	at     int
}

// run judges batches until the log ends, and now and then begins again at an offset of before. A batch that failed is done again,
// by this consumer or by another.
func (c *consumer) run(ctx context.Context) error {
	for c.at < len(c.log) {
		if c.r.IntN(6) == 0 {
			c.at = c.r.IntN(c.judged.get() + 1)
		}
		next := min(c.at+1+c.r.IntN(20), len(c.log))
		b := ledger.Batch{Topic: "orders", NextOffset: int64(next), Commands: c.log[c.at:next]}
		result, err := c.ways[c.r.IntN(len(c.ways))].Judge(ctx, b)
		switch {
		case errors.Is(err, ledger.ErrTransient):
			continue
		case err != nil:
			return err
		case len(result.Verdicts) != next-c.at:
			return fmt.Errorf("%d verdicts for %d commands", len(result.Verdicts), next-c.at)
		}
		c.judged.reach(next)
		c.at = next
	}
	return nil
}

// compare holds the tables against the replay. Only the moments of judging may differ, and the version that encoding sets.
func compare(t *testing.T, l *ledger.Ledger, want ledger.Replayed, end int64) {
	t.Helper()
	got := ledger.Replayed{
		Orders: map[order.ID]ledger.OrderRow{}, Commands: map[string]ledger.CommandRow{}, Letters: map[int64]ledger.Park{},
		Stock: map[product.ID]ledger.Stock{},
	}
	events := map[product.ID][]order.Event{}
	ids := map[product.ID][]string{}
	for p := range want.Stock {
		books := checkBooks(t, l, p)
		got.Stock[p] = ledger.Stock{Total: books.Product.Total, Sold: books.Product.Sold, Seq: books.Product.Seq}
		for _, row := range books.Orders {
			got.Orders[row.OrderID] = row
		}
		for _, row := range books.Commands {
			got.Commands[row.CommandID] = row
		}
		for _, row := range books.Letters { // those that name no product are read with each
			got.Letters[row.Offset] = ledger.Park{Reason: row.Reason, Product: row.Product, OrderID: row.OrderID, CommandID: row.CommandID}
		}
		for _, row := range books.Outbox {
			if row.Seq == 0 {
				continue
			}
			e, err := order.DecodeEvent(row.Payload)
			if err != nil {
				t.Fatal(err)
			}
			events[p], ids[p] = append(events[p], e), append(ids[p], row.ID)
		}
	}
	wantEvents, wantIDs := map[product.ID][]order.Event{}, map[product.ID][]string{}
	for i, e := range want.Events {
		wantEvents[e.Product] = append(wantEvents[e.Product], e)
		wantIDs[e.Product] = append(wantIDs[e.Product], want.EventIDs[i])
	}
	maps.DeleteFunc(want.Letters, func(_ int64, p ledger.Park) bool { return p.Product == unstocked }) // read with no product here
	moments := cmp.Options{
		cmpopts.IgnoreFields(ledger.OrderRow{}, "JudgedAt"), cmpopts.IgnoreFields(ledger.CommandRow{}, "JudgedAt"),
		cmpopts.IgnoreFields(order.Event{}, "At", "Version"), cmpopts.EquateEmpty(),
	}
	for name, pair := range map[string][2]any{
		"orders": {want.Orders, got.Orders}, "commands": {want.Commands, got.Commands}, "letters": {want.Letters, got.Letters},
		"stock": {want.Stock, got.Stock}, "events": {wantEvents, events}, "event ids": {wantIDs, ids},
	} {
		if diff := cmp.Diff(pair[0], pair[1], moments); diff != "" {
			t.Errorf("%s differ from a sequential replay:\n%s", name, diff)
		}
	}
	if next, err := l.Progress(t.Context(), "orders"); err != nil || next[0] != end {
		t.Errorf("progress %v, want %d: %v", next, end, err)
	}
}

const unstocked product.ID = "none"

// stressLog is a partition's log: two products and one without stock, few users with few keys, late and repeated places, cancels and
// voids before and behind their orders, adjusts both ways, loads, and records that do not verify. A third of it are copies.
func stressLog(t *testing.T, r *rand.Rand) []ledger.Input {
	t.Helper()
	var places, log []ledger.Input
	for n := range 60 {
		p := []product.ID{"p", "p", "p", "p", "q", "q", unstocked}[r.IntN(7)]
		in := place(t, p, fmt.Sprint("u", r.IntN(12)), int64(n+1), 1+r.IntN(3))
		if r.IntN(4) == 0 {
			in.Command.IdempotencyKey = fmt.Sprint("k", r.IntN(2))
		}
		places = append(places, in)
	}
	for n := range 150 {
		about := places[r.IntN(len(places))] // of any user, come or still to come
		id := fmt.Sprint("c", n)
		in := about
		switch r.IntN(12) {
		case 0, 1:
			in = cancel(t, about, id)
		case 2:
			in = command(t, order.KindVoid, about.Command.Product, order.VoidID(about.Command.OrderID), func(c *order.Command) {
				c.OrderID, c.UserHash = about.Command.OrderID, about.User
			})
		case 3:
			in = command(t, order.KindAdjust, about.Command.Product, id, func(c *order.Command) { c.Delta = int64(r.IntN(11)) - 5 })
		case 4:
			in = command(t, order.KindLoadStock, about.Command.Product, id, nil)
		case 5:
			in.Park = &ledger.Park{Reason: "test"}
			if r.IntN(2) == 0 {
				in.Park.Product, in.Park.OrderID = about.Command.Product, about.Command.OrderID
			}
		case 6, 7, 8, 9:
			if r.IntN(8) == 0 {
				in.At = time.UnixMilli(about.Command.DeadlineMS + 1)
			}
		default:
			if n > 0 {
				in = log[r.IntN(n)]
			}
		}
		log = append(log, in)
	}
	for i := range log {
		log[i].Offset = int64(i)
	}
	return log
}
