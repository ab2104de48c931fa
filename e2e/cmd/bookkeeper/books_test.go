package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// draw makes a history: sales, refusals, cancels, cancels that overtook their orders, restocks.
func draw(t *testing.T, r *rand.Rand, name product.ID, length int) *history {
	t.Helper()
	h := &history{product: name}
	h.adjust(t, 1000)
	type sale struct{ n, quantity int }
	var held []sale
	for n := range length {
		switch r.IntN(6) {
		case 0:
			h.reject(t, n)
		case 1:
			h.cancel(t, n, 0)
		case 2:
			h.adjust(t, int64(r.IntN(20)-5))
		case 3:
			if len(held) > 0 {
				at := r.IntN(len(held))
				h.cancel(t, held[at].n, held[at].quantity)
				held = append(held[:at], held[at+1:]...)
			}
		default:
			held = append(held, sale{n, 1 + r.IntN(4)})
			h.confirm(t, n, held[len(held)-1].quantity)
		}
	}
	return h
}

// TestBooksUnderRepeats delivers drawn histories as the topic may: in order the first time, but read again from some earlier place now
// and then, and with replays of any events in any order between. The books end as if each event had come once.
func TestBooksUnderRepeats(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		b, told := newBooks(t)
		h := draw(t, r, "p", 60)
		for next := 0; next < len(h.events); {
			end := min(len(h.events), next+1+r.IntN(8))
			batch := append([]event(nil), h.events[next:end]...)
			for range r.IntN(4) {
				batch = append(batch, h.events[r.IntN(end)])
			}
			if r.IntN(4) == 0 && next > 0 {
				batch = append([]event{h.events[r.IntN(next)]}, batch...)
			}
			enter(t, b, batch...)
			if next = end; r.IntN(3) == 0 {
				next = r.IntN(end) // crashed before the offsets were committed
			}
		}
		h.check(t, b)
		if strings.Contains(told.String(), "missing") {
			t.Fatalf("seed %d: a gap is told where there was none:\n%s", seed, told)
		}
	}
}

// TestBooksWithoutOldIDs deletes the ids of what was entered: the number alone still tells a repeat.
func TestBooksWithoutOldIDs(t *testing.T) {
	t.Parallel()
	b, _ := newBooks(t)
	h := draw(t, rand.New(rand.NewPCG(1, 1)), "p", 30)
	enter(t, b, h.events...)
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM bookkeeper.entered`); err != nil {
		t.Fatal(err)
	}
	enter(t, b, h.events...)
	h.check(t, b)
}

// TestBooksOfTwoReaders has two processes enter the same products at once, as after a rebalance.
func TestBooksOfTwoReaders(t *testing.T) {
	t.Parallel()
	b, _ := newBooks(t)
	histories := []*history{draw(t, rand.New(rand.NewPCG(1, 1)), "p", 40), draw(t, rand.New(rand.NewPCG(2, 1)), "q", 40)}
	var readers sync.WaitGroup
	for n := range 2 {
		readers.Go(func() {
			for at := range 40 {
				for i := range histories {
					h := histories[(i+n)%2] // each in another order
					some := h.events[min(at, len(h.events)-1):min(at+3, len(h.events))]
					if err := b.enter(t.Context(), string(h.product), some); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	readers.Wait()
	for _, h := range histories {
		enter(t, b, h.events...)
		h.check(t, b)
	}
}

// TestBooksAtAGap leaves events out at their first occurrence: the gap is told with its range, the product stands, another goes on, a restart
// tells it again, and a replay of what is missing closes it with what had come meanwhile.
func TestBooksAtAGap(t *testing.T) {
	t.Parallel()
	b, told := newBooks(t)
	h, other := draw(t, rand.New(rand.NewPCG(3, 1)), "p", 12), draw(t, rand.New(rand.NewPCG(4, 1)), "q", 12)
	says := func(text string, times int) {
		t.Helper()
		if n := strings.Count(told.String(), text); n != times {
			t.Fatalf("%q was told %d times, expected %d:\n%s", text, n, times, told)
		}
	}
	e := h.events
	enter(t, b, e[0], e[1], e[4], e[5])
	enter(t, b, e[4], e[8], e[0])
	enter(t, b, other.events...)
	says("product=p from_seq=3 to_seq=4", 1)
	other.check(t, b)
	if s := sumOf(t, b, "p"); s.Seq != 2 {
		t.Fatalf("the product went on to %d", s.Seq)
	}
	open, err := b.openGaps(t.Context())
	if err != nil || len(open) != 1 || open[0] != (gap{"p", 3, 4}) {
		t.Fatalf("open gaps %v, %v", open, err)
	}
	enter(t, b, e[2], e[3])
	says("product=p from_seq=7 to_seq=8", 1)
	enter(t, b, e[6], e[7])
	says("gap is closed", 1)
	enter(t, b, e...)
	h.check(t, b)
	if open, err = b.openGaps(t.Context()); err != nil || len(open) != 0 {
		t.Fatalf("open gaps %v, %v", open, err)
	}
}

// TestBooksStop hands over what no repeat, replay or gap explains: nothing of it is entered, and it is no error to wait out.
func TestBooksStop(t *testing.T) {
	t.Parallel()
	b, _ := newBooks(t)
	h := &history{product: "p"}
	h.adjust(t, 10)
	enter(t, b, h.confirm(t, 1, 2))
	enter(t, b, h.events...)
	h.check(t, b)
	fresh := func(change func(*event)) event {
		other := &history{product: "p", events: append([]event(nil), h.events...), total: h.total, sold: h.sold}
		e := other.confirm(t, 2, 1)
		change(&e)
		return e
	}
	for name, e := range map[string]event{
		"an id under another number": fresh(func(e *event) { e.id = h.events[0].id }),
		"a number under another id":  fresh(func(e *event) { e.Seq = 2 }),
		"sums that differ":           fresh(func(e *event) { e.LeftAfter++ }),
		"an order confirmed again":   fresh(func(e *event) { e.OrderID = h.events[1].OrderID }),
		"an id that no table takes":  fresh(func(e *event) { e.OrderID = "x\x00" }),
	} {
		if err := b.enter(t.Context(), "p", []event{e}); !errors.Is(err, errStop) {
			t.Errorf("%s: %v", name, err)
		}
		h.check(t, b)
	}
}

// TestBooksCountUnknownTypes has a type of a later release take its number and change nothing.
func TestBooksCountUnknownTypes(t *testing.T) {
	t.Parallel()
	b, _ := newBooks(t)
	h := &history{product: "p"}
	h.adjust(t, 10)
	h.add(t, order.Event{Type: "hanjul.order.gifted", OrderID: h.order(1)})
	h.confirm(t, 2, 3)
	enter(t, b, h.events...)
	h.check(t, b)
}

// TestDecodeReadsTheSamples reads the samples that pkg/order keeps for ever, of every version there is.
func TestDecodeReadsTheSamples(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "pkg", "order", "testdata", "event_*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		message := kafka.Message{Key: []byte("p"), Value: text, Headers: []kafka.Header{{Key: order.HeaderID, Value: []byte("id")}}}
		e, err := decode(message)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		want, err := order.DecodeEvent(text)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != string(want.Type) || e.Seq != want.Seq || e.LeftAfter != want.LeftAfter || e.Product != string(want.Product) ||
			(want.OrderID != nil) != (e.OrderID != "") || (want.Delta != nil) != (e.Delta != 0) || (want.Reason != nil) != (e.Reason != "") ||
			(want.Quantity != nil) != (e.Quantity != nil) {
			t.Errorf("%s reads as %+v", path, e)
		}
		for name, bad := range map[string]kafka.Message{
			"another key":     {Key: []byte("q"), Value: text, Headers: message.Headers},
			"no id":           {Key: message.Key, Value: text},
			"a later version": {Key: message.Key, Value: []byte(strings.Replace(string(text), `"v":1`, `"v":2`, 1)), Headers: message.Headers},
			"no JSON":         {Key: message.Key, Value: text[1:], Headers: message.Headers},
		} {
			if _, err := decode(bad); !errors.Is(err, errStop) {
				t.Errorf("%s with %s: %v", path, name, err)
			}
		}
	}
}
