package ledger_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/product"
)

func eviction(user product.UserID, d time.Duration) ledger.Eviction {
	return ledger.Eviction{User: user, Hash: product.HashUser(keyring.Key{}, user), For: d}
}

func TestBans(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	for _, p := range []product.ID{"p", "q"} {
		ledgertest.Product(t, l, p, 10)
	}
	evict := func(request string, e ledger.Eviction) ledger.ActionResult {
		t.Helper()
		r, err := l.Evict(ctx, action("p", request), e)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	list := func(above int64, running bool, limit int) (bans []ledger.Ban, upTo int64) {
		t.Helper()
		bans, upTo, err := l.Bans(ctx, "p", above, running, limit)
		if err != nil {
			t.Fatal(err)
		}
		return bans, upTo
	}
	if bans, upTo := list(0, false, 10); len(bans) != 0 || upTo != 0 {
		t.Fatal(bans, upTo)
	}

	first := evict("r1", eviction("김 서연", time.Hour))
	if first.Repeat || first.Product.BansV == 0 || first.Product.SettingsV != 1 || time.Until(first.BannedUntil) < 59*time.Minute || time.Until(first.BannedUntil) > time.Hour+time.Minute {
		t.Fatalf("%+v", first)
	}
	// The same request is done once, and tells the same end.
	again := evict("r1", eviction("김 서연", time.Hour))
	again.Repeat = false
	if diff := cmp.Diff(first, again); diff != "" {
		t.Fatal(diff)
	}
	until := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
	second := evict("r2", ledger.Eviction{User: "b", Hash: eviction("b", 1).Hash, Until: until})
	if !second.BannedUntil.Equal(until) || second.Product.BansV <= first.Product.BansV {
		t.Fatalf("%+v", second)
	}
	want := []ledger.Ban{
		{User: eviction("김 서연", 1).Hash, Until: first.BannedUntil, V: first.Product.BansV}, {User: eviction("b", 1).Hash, Until: until, V: second.Product.BansV},
	}
	equal := cmp.Comparer(func(x, y time.Time) bool { return x.Equal(y) })
	bans, upTo := list(0, false, 10)
	if diff := cmp.Diff(want, bans, equal); diff != "" || upTo != second.Product.BansV {
		t.Fatal(diff, upTo)
	}
	// In slices, each of which says how far it goes.
	if bans, upTo := list(0, false, 1); len(bans) != 1 || upTo != want[0].V {
		t.Fatal(bans, upTo)
	}
	if bans, upTo := list(want[0].V, false, 1); len(bans) != 1 || bans[0].V != want[1].V || upTo != want[1].V {
		t.Fatal(bans, upTo)
	}
	if bans, upTo := list(want[1].V, false, 1); len(bans) != 0 || upTo != want[1].V {
		t.Fatal(bans, upTo)
	}

	// Lifted: a change like any other, and nothing that a line which begins anew needs.
	lifted, err := l.Unban(ctx, action("p", "r3"), "b", want[1].User)
	if err != nil || lifted.Product.BansV <= second.Product.BansV {
		t.Fatal(lifted, err)
	}
	if bans, upTo := list(want[0].V, false, 10); len(bans) != 1 || bans[0].Until.After(time.Now()) || bans[0].V != lifted.Product.BansV || upTo != lifted.Product.BansV {
		t.Fatal(bans, upTo)
	}
	if bans, upTo := list(0, true, 10); len(bans) != 1 || bans[0].V != want[0].V || upTo != lifted.Product.BansV {
		t.Fatal(bans, upTo)
	}
	for request, user := range map[string]product.UserID{"r4": "b", "r5": "nobody"} { // not banned: nothing changes
		r, err := l.Unban(ctx, action("p", request), user, eviction(user, 1).Hash)
		if err != nil || r.Product.BansV != lifted.Product.BansV {
			t.Fatal(r, err)
		}
	}
	// A later word about the same user replaces the earlier one, sooner or later.
	shorter := evict("r6", eviction("김 서연", time.Minute))
	if bans, _ := list(0, true, 10); len(bans) != 1 || !bans[0].Until.Equal(shorter.BannedUntil) {
		t.Fatal(bans)
	}
	if bans, upTo, err := l.Bans(ctx, "q", 0, false, 10); err != nil || len(bans) != 0 || upTo != 0 {
		t.Fatal(bans, upTo, err)
	}

	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"another user":      {func() error { _, err := l.Evict(ctx, action("p", "r1"), eviction("x", time.Hour)); return err }, ledger.ErrRequestReused},
		"another call":      {func() error { _, err := l.Unban(ctx, action("p", "r1"), "b", want[1].User); return err }, ledger.ErrRequestReused},
		"unknown product":   {func() error { _, err := l.Evict(ctx, action("no", "r7"), eviction("x", time.Hour)); return err }, ledger.ErrUnknownProduct},
		"unban of unknown":  {func() error { _, err := l.Unban(ctx, action("no", "r8"), "b", want[1].User); return err }, ledger.ErrUnknownProduct},
		"bans of unknown":   {func() error { _, _, err := l.Bans(ctx, "no", 0, false, 1); return err }, ledger.ErrUnknownProduct},
		"revoke of unknown": {func() error { _, err := l.RevokePasses(ctx, action("no", "r9"), ""); return err }, ledger.ErrUnknownProduct},
		"no user":           {func() error { _, err := l.Evict(ctx, action("p", "ra"), eviction("", time.Hour)); return err }, ledger.ErrInvalid},
		"no hash": {func() error {
			_, err := l.Evict(ctx, action("p", "rb"), ledger.Eviction{User: "x", For: time.Hour})
			return err
		}, ledger.ErrInvalid},
		"no end": {func() error { _, err := l.Evict(ctx, action("p", "rc"), eviction("x", 0)); return err }, ledger.ErrInvalid},
		"two ends": {func() error {
			e := eviction("x", 1e9)
			e.Until = until
			_, err := l.Evict(ctx, action("p", "rd"), e)
			return err
		}, ledger.ErrInvalid},
		"an end in the past": {func() error {
			_, err := l.Evict(ctx, action("p", "re"), ledger.Eviction{User: "x", Hash: want[0].User, Until: time.Unix(1, 0)})
			return err
		}, ledger.ErrInvalid},
		"an end too far": {func() error {
			_, err := l.Evict(ctx, action("p", "rf"), eviction("x", 20*365*24*time.Hour))
			return err
		}, ledger.ErrInvalid},
		"a reason too long": {func() error { _, err := l.RevokePasses(ctx, action("p", "rg"), string(make([]byte, 201))); return err }, ledger.ErrInvalid},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Changes at once take numbers of their own, and a reader that goes on from its last number misses none.
func TestBansAtOnce(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	const writers, each = 4, 15
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				e := eviction(product.UserID(strconv.Itoa(w)+"-"+strconv.Itoa(n%5)), time.Hour)
				if _, err := l.Evict(t.Context(), action("p", strconv.Itoa(w)+" "+strconv.Itoa(n)), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	newest, has := map[product.UserHash]int64{}, int64(0)
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		for {
			bans, upTo, err := l.Bans(t.Context(), "p", has, false, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range bans {
				if b.V <= has || b.V > upTo {
					t.Fatalf("%d is not above %d and up to %d", b.V, has, upTo)
				}
				newest[b.User] = b.V
			}
			if has = upTo; len(bans) < 3 {
				break
			}
		}
	}
	all, _, err := l.Bans(t.Context(), "p", 0, false, 1000)
	if err != nil || len(all) != writers*5 {
		t.Fatal(len(all), err)
	}
	for _, b := range all {
		if newest[b.User] != b.V {
			t.Errorf("%s: read %d, the last is %d", b.User, newest[b.User], b.V)
		}
	}
}

func TestRevokePasses(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	for range 2 { // once, however often it is asked for
		r, err := l.RevokePasses(t.Context(), action("p", "r1"), "the key leaked")
		if err != nil || r.Product.PassEpoch != 2 || r.Product.SettingsV != 2 {
			t.Fatal(r, err)
		}
	}
	if r, err := l.RevokePasses(t.Context(), action("p", "r2"), ""); err != nil || r.Product.PassEpoch != 3 || r.Product.SettingsV != 3 {
		t.Fatal(r, err)
	}
}
