package streams

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/order"
	"hanjul/pkg/orderstatus"
	"hanjul/pkg/product"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// fake is statuses without Redis: the test sends the hints and says when reading goes on.
type fake struct {
	begun  bool
	hints  chan order.ID
	gate   chan struct{} // each call of GetMany takes one; nil lets all through
	calls  chan []order.ID
	mu     sync.Mutex
	states map[order.ID]order.Status
	fail   error
}

func (f *fake) Follow(ctx context.Context, begun func(), hint func(order.ID)) error {
	if f.hints == nil {
		return errors.New("no subscription")
	}
	if f.begun {
		begun()
	}
	for {
		select {
		case id := <-f.hints:
			hint(id)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fake) GetMany(ctx context.Context, ids []order.ID) ([]orderstatus.Entry, error) {
	select {
	case f.calls <- ids:
	default: // nobody counts so many
	}
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var entries []orderstatus.Entry
	for _, id := range ids {
		if s, found := f.states[id]; found {
			entries = append(entries, orderstatus.Entry{ID: id, Status: s})
		}
	}
	err := f.fail
	f.fail = nil
	return entries, err
}

func (f *fake) put(id order.ID, version int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[id] = order.Status{Version: version, User: user}
}

const user product.UserHash = "00112233445566778899aabbccddeeff"

func id(n int) order.ID { return order.ID("o" + strconv.Itoa(n)) }

func newHub(t *testing.T, f *fake, c Config) *Hub {
	t.Helper()
	f.states, f.calls = map[order.ID]order.Status{}, make(chan []order.ID, 1000)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if c.Reread == 0 {
		c.Reread = time.Hour
	}
	return New(f, slog.New(slog.DiscardHandler), metrics, c)
}

// run runs the hub until the test ends.
func run(t *testing.T, h *Hub) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func open(t *testing.T, h *Hub, n int) *Stream {
	t.Helper()
	s, err := h.Open(id(n), user)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A thousand changes while one read is on its way cost no goroutine and one more read.
func TestHubWakesWithoutGoroutines(t *testing.T) {
	f := &fake{hints: make(chan order.ID), gate: make(chan struct{})}
	h := newHub(t, f, Config{PerUser: 2000})
	run(t, h)
	var all []*Stream
	for n := range 1000 {
		all = append(all, open(t, h, n))
		f.put(id(n), 1)
	}
	f.hints <- id(0)
	<-f.calls // and it waits there
	before := runtime.NumGoroutine()
	for range 3 {
		for n := range 1000 {
			f.hints <- id(n)
		}
	}
	f.hints <- "nobody waits for it"
	if after := runtime.NumGoroutine(); after > before {
		t.Fatalf("%d goroutines, %d before", after, before)
	}
	f.gate <- struct{}{}
	if ids := <-f.calls; len(ids) != 1000 {
		t.Fatalf("%d read at once", len(ids))
	}
	f.gate <- struct{}{}
	for _, s := range all {
		<-s.Changed()
		if s.Status().Version != 1 {
			t.Fatal(s.Status())
		}
	}
}

// Without any hint everything is found by the re-read, and what could not be read by the next one.
func TestHubRereadsWhatNoHintTold(t *testing.T) {
	t.Parallel()
	f := &fake{}
	h := newHub(t, f, Config{Reread: time.Millisecond, Refollow: time.Millisecond})
	f.fail = errors.New("away")
	run(t, h)
	first, second := open(t, h, 1), open(t, h, 1)
	f.put(id(1), 2)
	<-first.Changed()
	<-second.Changed()
	second.Known(3)
	f.put(id(1), 3)
	<-first.Changed()
	if first.Status().Version != 3 {
		t.Fatal(first.Status())
	}
	select {
	case <-second.Changed():
		t.Fatal("woken for what it knows")
	default:
	}
}

// A subscription that stands anew reads everything, for what was said before.
func TestHubReadsAllWhenItBeginsToListen(t *testing.T) {
	t.Parallel()
	f := &fake{hints: make(chan order.ID), begun: true}
	h := newHub(t, f, Config{})
	s := open(t, h, 1)
	f.put(id(1), 1)
	run(t, h)
	<-s.Changed()
}

func TestHubBounds(t *testing.T) {
	t.Parallel()
	f := &fake{hints: make(chan order.ID)}
	h := newHub(t, f, Config{Max: 2, PerUser: 1})
	s := open(t, h, 1)
	if _, err := h.Open(id(2), user); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	other, err := h.Open(id(2), "another")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Open(id(3), "a third"); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	other.Close()
	if len(h.orders)+len(h.people)+len(h.hinted)+h.open != 0 {
		t.Fatal("something is left of closed streams")
	}
	// Another person's status never reaches a stream.
	if s = open(t, h, 1); s.tell(order.Status{Version: 2, User: "another"}) {
		t.Fatal("told")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Run(ctx); err != nil {
		t.Fatal(err)
	}
	<-s.Stopping()
	if _, err := h.Open(id(1), "x"); !errors.Is(err, ErrStopping) {
		t.Fatal(err)
	}
}
