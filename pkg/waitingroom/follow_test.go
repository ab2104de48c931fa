package waitingroom_test

import (
	"context"
	"errors"
	"testing"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

// listener runs Follow and hands over what it was told.
type listener struct {
	*bundle
	hints chan product.ID
	marks int
}

func (b *bundle) follow() *listener {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &listener{bundle: b, hints: make(chan product.ID, 1000)}
	begun, ended := make(chan struct{}, 10), make(chan error, 1)
	go func() {
		ended <- b.room.Follow(ctx, func() { begun <- struct{}{} }, func(p product.ID) { f.hints <- p })
	}()
	<-begun
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	})
	return f
}

// heard is how many hints there were since the last call. The message behind them shows that all have come: it is published by the server that runs
// the product's scripts, since what several servers of a cluster publish comes in any order.
func (f *listener) heard() int {
	f.t.Helper()
	f.marks++
	f.check(f.rdb.Eval(f.ctx, `return redis.call('PUBLISH', ARGV[1], 'mark')`, []string{f.keys.Product(f.product).Settings}, f.keys.GateHints()).Err())
	for n := 0; ; n++ {
		if p := <-f.hints; p == "mark" {
			return n
		} else if p != f.product {
			f.t.Fatalf("a hint at %q", p)
		}
	}
}

func (f *listener) hears(what string, want int) {
	f.t.Helper()
	if got := f.heard(); got != want {
		f.t.Fatalf("%s: %d hints, expected %d", what, got, want)
	}
}

// Every script that lets a line move says so, while there is something to move, and into the stream where there is one.
func TestScriptsHintAtLinesThatMayMove(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Capacity = 3
	f := b.follow()
	b.open(s, 1, 100)
	f.hears("the stock is known", 1)

	var places []product.Place
	for n := range 10 {
		places = append(places, b.join(user(n)).Place)
	}
	f.hears("an empty line, and nine who came to people", 1)
	b.awaitTokens()
	b.admit(2)
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(0), places[0])))
	f.hears("a slot that nobody was found to wait for", 0)
	b.admit(1)
	if r := b.admitOnce(1); r.Reason != waitingroom.AdmitCapacity {
		t.Fatalf("%+v", r)
	}
	k := b.keys.Product(b.product)
	if n := b.rdb.Exists(b.ctx, k.Slots).Val(); n != 0 {
		t.Fatal("a stream that nobody reads was begun")
	}
	b.check(b.rdb.XGroupCreateMkStream(b.ctx, k.Slots, "g", "$").Err())

	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(1), places[1])))
	f.hears("left", 1)
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(9), places[9])))
	f.hears("left the line without a pass", 0)
	request := b.request(user(2), places[2], 1)
	b.bind(request)
	b.bind(request)
	f.hears("bound, and bound again", 1)
	b.check(b.room.Expire(b.ctx, b.product, user(3)))
	b.status(user(3))
	b.status(user(3))
	f.hears("lapsed as status found", 1)
	if n := b.rdb.XLen(b.ctx, k.Slots).Val(); n != 3 {
		t.Fatalf("%d entries of the stream, expected 3", n)
	}

	settle := func(base, seq int64, judged ...stock.Judged) {
		t.Helper()
		b.check(b.counter.Settle(b.ctx, b.product, base, seq, false, judged))
	}
	judged := stock.Judged{OrderID: request.OrderID, User: user(2), Place: places[2]}
	settle(99, 1, judged)
	settle(99, 1, judged)
	f.hears("sold: what was held is gone", 0)
	settle(120, 2)
	settle(110, 1)
	f.hears("restocked, then told late", 1)
	settle(110, 3)
	f.hears("taken away", 0)
	b.admit(3)
	again := b.request(user(4), places[4], 1)
	b.bind(again)
	f.heard()
	settle(110, 4, stock.Judged{OrderID: again.OrderID, User: user(4), Place: places[4]})
	f.hears("rejected: its unit is back", 1)
	b.balance()
	if again.OrderID == order.ID("") {
		t.Fatal("no order")
	}
}

func TestTheStreamOfSlotsIsBounded(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	s := settings()
	s.Capacity = 1
	b.open(s, 1, 10_000)
	k := b.keys.Product(b.product)
	b.check(b.rdb.XGroupCreateMkStream(b.ctx, k.Slots, "g", "$").Err())
	b.join(user(0))
	b.awaitTokens()
	place := b.status(user(0)).Place
	for n := range 350 {
		next := b.join(user(n + 1)).Place
		b.admitOnce(1)
		b.check(errorOf(b.room.Leave(b.ctx, b.product, user(n), place)))
		b.admitOnce(1)
		place = next
	}
	if n := b.rdb.XLen(b.ctx, k.Slots).Val(); n < 50 || n > 300 {
		t.Fatalf("%d entries, expected about 100", n)
	}
}
