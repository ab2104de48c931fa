package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
	"hanjul/services/order-consumer/internal/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("away")

// world is every store that reconcile meets, in memory. Its fields are set before the run, or under mu.
type world struct {
	mu       sync.Mutex
	rows     map[order.ID]ledger.OrderRow
	parked   map[order.ID]bool
	bound    map[order.ID]bool
	inLine   map[order.ID]bool
	lost     bool // the slot has no settings
	products []ledger.ProductRow
	lines    map[product.ID]waitingroom.Line
	wanted   []orderstatus.Wanted
	statuses map[order.ID]order.Status
	settled  map[order.ID]int // times
	created  bool
	sent     []kafka.Record
	outcome  kafka.Outcome
	faults   int // so many settles fail
	pages    []ledger.Cursor
	looks    int
}

func newWorld() *world {
	return &world{
		rows: make(map[order.ID]ledger.OrderRow), parked: make(map[order.ID]bool), bound: make(map[order.ID]bool), inLine: make(map[order.ID]bool),
		lines: make(map[product.ID]waitingroom.Line), statuses: make(map[order.ID]order.Status), settled: make(map[order.ID]int),
		outcome: kafka.Accepted,
	}
}

func (w *world) OrdersByID(_ context.Context, ids []order.ID) (map[order.ID]ledger.OrderRow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := make(map[order.ID]ledger.OrderRow)
	for _, id := range ids {
		if row, ok := w.rows[id]; ok {
			found[id] = row
		}
	}
	return found, nil
}

func (w *world) OrdersJudgedSince(_ context.Context, after ledger.Cursor, limit int) ([]ledger.OrderRow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages = append(w.pages, after)
	var page []ledger.OrderRow
	for _, row := range w.rows {
		if row.JudgedAt.After(after.At) || row.JudgedAt.Equal(after.At) && row.OrderID > after.ID {
			page = append(page, row)
		}
	}
	slices.SortFunc(page, func(a, b ledger.OrderRow) int {
		if c := a.JudgedAt.Compare(b.JudgedAt); c != 0 {
			return c
		}
		return slices.Compare([]byte(a.OrderID), []byte(b.OrderID))
	})
	return page[:min(limit, len(page))], nil
}

func (w *world) Parked(context.Context, []order.ID) (map[order.ID]bool, error) { return w.parked, nil }

func (w *world) StockOf(context.Context, product.ID) (ledger.Stock, error) {
	return ledger.Stock{Total: 10, Sold: 3, Seq: 7}, nil
}

func (w *world) Products(context.Context) ([]ledger.ProductRow, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.products), nil
}

func (w *world) Settle(_ context.Context, _ product.ID, base, seq int64, create bool, judged []stock.Judged) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults > 0 {
		w.faults--
		return errAway
	}
	if base != 7 || seq != 7 {
		return fmt.Errorf("settled with %d@%d, want 7@7", base, seq)
	}
	w.created = w.created || create
	for _, j := range judged {
		w.settled[j.OrderID]++
	}
	return nil
}

func (w *world) PutMany(_ context.Context, entries []orderstatus.Entry) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		w.statuses[e.ID] = e.Status
	}
	return len(entries), nil
}

// TakeWanted puts what it hands out at the end, as the owner's script does by time.
func (w *world) TakeWanted(_ context.Context, n int) ([]orderstatus.Wanted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.wanted))
	taken := slices.Clone(w.wanted[:n])
	w.wanted = append(w.wanted[n:], taken...)
	w.looks++
	return taken, nil
}

func (w *world) Unwant(_ context.Context, answered ...orderstatus.Wanted) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = slices.DeleteFunc(w.wanted, func(x orderstatus.Wanted) bool { return slices.Contains(answered, x) })
	return nil
}

func (w *world) Line(_ context.Context, p product.ID) (waitingroom.Line, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[p], nil
}

func (w *world) Forsake(_ context.Context, _ product.ID, _ product.UserHash, id order.ID) (waitingroom.Forsaken, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		return waitingroom.ForsakeAbsent, nil
	}
	if w.bound[id] {
		return waitingroom.ForsakeBound, nil
	}
	if w.inLine[id] {
		return waitingroom.ForsakeInLine, nil
	}
	return waitingroom.ForsakeDone, nil
}

func (w *world) Produce(_ context.Context, records []kafka.Record) []kafka.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, records...)
	results := make([]kafka.Result, len(records))
	for i := range results {
		results[i].Outcome = w.outcome
		if w.outcome != kafka.Accepted {
			results[i].Err = errAway
		}
	}
	return results
}

// locked reads something of the world.
func locked[T any](w *world, read func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return read()
}

const (
	apple = product.ID("apple")
	user  = product.UserHash("0123456789abcdef0123456789abcdef")
)

func id(n int) order.ID { return order.ID(fmt.Sprintf("00000000-0000-7000-8000-%012d", n)) }

func row(n int, judged time.Time) ledger.OrderRow {
	return ledger.OrderRow{
		OrderID: id(n), Product: apple, User: user, Place: product.Place(n), Quantity: 1, State: order.StateConfirmed, Version: 1,
		Digest: "d", JudgedAt: judged,
	}
}

// start runs a reconciler on the world until the test ends.
func (w *world) start(t *testing.T, change func(*reconcile.Config)) {
	t.Helper()
	key, err := keyring.Parse("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	c := reconcile.Config{
		Ledger: w, Stock: w, Status: w, Room: w, Producer: w, Orders: "orders", Key: key,
		WantedEvery: time.Millisecond, CheckEvery: time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	r, err := reconcile.New(c)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func (w *world) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for pause := (kafka.Backoff{Min: time.Millisecond}); !locked(w, ok); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		if err := pause.Wait(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func wanted(n int, deadline int64) orderstatus.Wanted {
	return orderstatus.Wanted{Product: apple, User: user, OrderID: id(n), DeadlineMS: deadline}
}
