package waitingroom_test

import (
	"errors"
	"testing"

	"hanjul/pkg/product"
	"hanjul/pkg/stock"
	"hanjul/pkg/waitingroom"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.room.Audit(b.ctx, b.product); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("without settings: %v", err)
	}
	b.open(settings(), 1, 10)
	for n := range 6 {
		b.join(user(n))
	}
	b.admit(4)
	bound := b.request(user(0), b.status(user(0)).Place, 3)
	judged := b.request(user(1), b.status(user(1)).Place, 2)
	b.bind(bound)
	b.bind(judged)
	b.check(errorOf(b.room.Leave(b.ctx, b.product, user(2), b.status(user(2)).Place)))
	b.check(b.counter.Settle(b.ctx, b.product, 8, 1, false, []stock.Judged{{OrderID: judged.OrderID, User: user(1), Place: judged.Place}}))
	k := b.books()
	want := waitingroom.Tally{Joined: 6, Admitted: 4, Bound: 2, Ordered: 1, Left: 1}
	if k.Tally != want || k.HeldSum != 3 || k.View.Held != 3 || k.View.Base != 8 || k.View.Seq != 1 || k.Judged != 1 || k.Remembered != 4 {
		t.Fatalf("books: %+v", k)
	}
	if k.View.Waiting != 2 || k.View.Active != 1 || k.ActiveAll != 1 || k.View.InFlight != 1 || k.Orderings != 1 {
		t.Fatalf("books: %+v", k)
	}
	sum := int64(0)
	for _, n := range k.Admits {
		sum += n
	}
	if sum != 4 {
		t.Fatalf("admits: %v", k.Admits)
	}
	b.balance()
}

// Slices see everybody, in order, wherever they are cut; a user is found in one state.
func TestSlices(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.open(settings(), 1, 1000)
	const line = 57
	want := map[product.UserHash]bool{}
	for n := range line {
		b.join(user(n))
		want[user(n)] = true
	}
	b.admit(3)
	var entries []waitingroom.Entry
	for from := product.Place(0); ; {
		slice, err := b.room.WaitingFrom(b.ctx, b.product, from, 10)
		b.check(err)
		if from > 0 {
			slice = slice[1:] // the last of the slice before
		}
		if len(slice) == 0 {
			break
		}
		entries = append(entries, slice...)
		from = entries[len(entries)-1].Place
	}
	if len(entries) != line-3 {
		t.Fatalf("%d entries, expected %d", len(entries), line-3)
	}
	for n := 1; n < len(entries); n++ {
		if entries[n].Place <= entries[n-1].Place {
			t.Fatalf("neighbours %+v and %+v (I7)", entries[n-1], entries[n])
		}
	}
	found := map[product.UserHash]bool{}
	for _, set := range []waitingroom.Set{waitingroom.SetWaiting, waitingroom.SetAway, waitingroom.SetActive, waitingroom.SetRecords} {
		for cursor := uint64(0); ; {
			users, next, err := b.room.ScanUsers(b.ctx, b.product, set, cursor, 10)
			b.check(err)
			for _, u := range users {
				found[u] = true
				m, err := b.room.Membership(b.ctx, b.product, u)
				b.check(err)
				if m.Sets != 1 {
					t.Fatalf("%s: %+v", u, m)
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	if len(found) != len(want) {
		t.Fatalf("%d users, expected %d", len(found), len(want))
	}
	if _, _, err := b.room.ScanUsers(b.ctx, b.product, "seen", 0, 10); err == nil {
		t.Fatal("an unknown set was scanned")
	}
	// Somebody in two sets is found out.
	b.check(b.room.SendAway(b.ctx, b.product, user(10)))
	b.check(b.rdb.HSet(b.ctx, b.keys.Product(b.product).Who, string(user(10)), "left|5||1").Err())
	if m, err := b.room.Membership(b.ctx, b.product, user(10)); err != nil || m.Sets != 2 {
		t.Fatalf("in two sets: %+v, %v", m, err)
	}
	b.check(b.rdb.HSet(b.ctx, b.keys.Product(b.product).Who, string(user(11)), "nonsense").Err())
	if _, err := b.room.Membership(b.ctx, b.product, user(11)); !errors.Is(err, product.ErrInvalid) {
		t.Fatalf("a record out of form: %v", err)
	}
}
