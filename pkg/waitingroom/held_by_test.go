package waitingroom_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/order"
	"hanjul/pkg/stock"
)

// What an order holds is told as long as its intent is there, however many orders are asked for and in whichever slice they come.
func TestHeldBy(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	held := func(ids ...order.ID) map[order.ID]int64 {
		t.Helper()
		found, err := b.room.HeldBy(b.ctx, b.product, ids)
		b.check(err)
		return found
	}
	if found := held(b.id(user(0), 1)); len(found) > 0 { // a slot that was never opened
		t.Fatalf("held: %v", found)
	}
	b.open(settings(), 1, 100)
	const people = 3
	ids, want := make([]order.ID, 0, 2100), map[order.ID]int64{}
	var last stock.Judged
	for n := range people {
		b.join(user(n))
	}
	b.admit(people)
	for n := range people {
		request := b.request(user(n), b.status(user(n)).Place, n+1)
		b.bind(request)
		want[request.OrderID] = int64(n + 1)
		last = stock.Judged{OrderID: request.OrderID, User: user(n), Place: request.Place}
		ids = append(ids, request.OrderID)
		for range 700 { // the next one is in another slice
			ids = append(ids, b.id(user(len(ids)+1000), 1))
		}
	}
	if diff := cmp.Diff(want, held(ids...)); diff != "" {
		t.Fatalf("held (-want +got):\n%s", diff)
	}
	if k := b.books(); k.HeldSum != 6 || k.View.Held != 6 {
		t.Fatalf("books: %+v", k)
	}
	if intent, found, err := b.room.IntentOf(b.ctx, b.product, last.OrderID); err != nil || !found ||
		!bytes.Equal(intent.Command, b.request(last.User, last.Place, people).Command) {
		t.Fatalf("intent %+v, found %v: %v", intent, found, err)
	}
	b.check(b.counter.Settle(b.ctx, b.product, 97, 1, false, []stock.Judged{last}))
	delete(want, last.OrderID)
	if diff := cmp.Diff(want, held(ids...)); diff != "" {
		t.Fatalf("after one was judged (-want +got):\n%s", diff)
	}
	if intent, found, err := b.room.IntentOf(b.ctx, b.product, last.OrderID); err != nil || found {
		t.Fatalf("intent %+v, found %v: %v", intent, found, err)
	}
	if found := held(); len(found) > 0 {
		t.Fatalf("nothing was asked for: %v", found)
	}

	// An intent that is none of ours is an error and no number.
	b.check(b.rdb.HSet(b.ctx, b.keys.Product(b.product).Intents, string(last.OrderID), "many|of them").Err())
	if found, err := b.room.HeldBy(b.ctx, b.product, []order.ID{last.OrderID}); err == nil {
		t.Fatalf("held: %v", found)
	}
}
