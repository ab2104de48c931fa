package waitingroom_test

import (
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/waitingroom"
)

// A slot that went to another server and came back has moved all the same, even though the server that answers is the one which opened it: it may
// have come back without the newest of what it had (hazard R18). The line of a product elsewhere has not moved.
func TestLineMovedThereAndBack(t *testing.T) {
	t.Parallel()
	cluster := localtest.RedisCluster(t)
	b := bundleOn(t, localtest.RedisFixture{Addrs: cluster.Addrs(), Mode: "cluster", Prefix: "h:"})
	b.open(settings(), 1, 10)
	key := b.keys.Product(b.product).Settings
	before, err := cluster.Primary(b.ctx, key)
	b.check(err)
	elsewhere := *b
	for other, err := cluster.Primary(b.ctx, key); other == before; other, err = cluster.Primary(b.ctx, elsewhere.keys.Product(elsewhere.product).Settings) {
		b.check(err)
		elsewhere.product += "x"
	}
	elsewhere.open(settings(), 1, 10)
	line := func(b *bundle) waitingroom.Line {
		t.Helper()
		l, err := b.room.Line(b.ctx, b.product)
		b.check(err)
		return l
	}
	opened := line(b)
	if opened.Moved {
		t.Fatalf("moved where it was opened: %+v", opened)
	}
	for range 2 {
		b.check(cluster.HandOver(t.Context(), key))
	}
	if now, err := cluster.Primary(b.ctx, key); err != nil || now != before {
		t.Fatalf("it did not come back: %v", err)
	}
	b.until("the client asks the server that came back", func() bool {
		l, err := b.room.Line(b.ctx, b.product)
		return err == nil && l.RunID[:40] == opened.RunID[:40]
	})
	if l := line(b); !l.Moved || l.RunID == opened.RunID {
		t.Fatalf("there and back is not noticed: %+v", l)
	}
	if l := line(&elsewhere); l.Moved {
		t.Fatalf("a line elsewhere has moved too: %+v", l)
	}
	b.check(b.room.AdvanceBegin(b.ctx, b.product, "there-and-back"))
	b.check(b.room.Advance(b.ctx, b.product, "there-and-back", 2, 0))
	if l := line(b); l.Moved || l.Inc != 2 {
		t.Fatalf("advanced, and moved: %+v", l)
	}
}
