package waitingroom_test

import (
	"errors"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/product"
	"hanjul/pkg/waitingroom"
)

// Two schedulers find the slot empty: one nonce restores it, once.
func TestRestoreHasOneHolder(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for range 2 {
		b.check(b.room.RestoreBegin(b.ctx, b.product, "a"))
	}
	if err := b.room.RestoreBegin(b.ctx, b.product, "b"); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("second holder: %v", err)
	}
	l, err := b.room.Line(b.ctx, b.product)
	b.check(err)
	if l.Present || !l.Restoring {
		t.Fatalf("line: %+v", l)
	}
	b.check(b.room.RestoreRenew(b.ctx, b.product, "a"))
	if err := b.room.RestoreRenew(b.ctx, b.product, "b"); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("renewed by another: %v", err)
	}
	s := b.line(settings(), 1)
	if err := b.room.RestoreCommit(b.ctx, b.product, "b", s, 2, 0, 0); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("committed by another: %v", err)
	}
	// a is paused, its claim runs out, b opens the line: a's commit comes too late, b's may repeat.
	b.check(b.room.ReleaseClaim(b.ctx, b.product))
	if err := b.room.RestoreRenew(b.ctx, b.product, "a"); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("renewed too late: %v", err)
	}
	b.check(b.room.RestoreBegin(b.ctx, b.product, "b"))
	if err := b.room.RestoreCommit(b.ctx, b.product, "a", s, 1, 0, 0); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("commit of a claim that ran out: %v", err)
	}
	for range 2 {
		b.check(b.room.RestoreCommit(b.ctx, b.product, "b", s, 2, product.MakePlace(1, 5), 3))
	}
	if err := b.room.RestoreCommit(b.ctx, b.product, "a", s, 1, 0, 0); !errors.Is(err, waitingroom.ErrOpen) {
		t.Fatalf("commit into an open line: %v", err)
	}
	if err := b.room.RestoreBegin(b.ctx, b.product, "c"); !errors.Is(err, waitingroom.ErrOpen) {
		t.Fatalf("begin on an open line: %v", err)
	}
	l, err = b.room.Line(b.ctx, b.product)
	b.check(err)
	if !l.Present || l.Restoring || l.Inc != 2 || l.Front != product.MakePlace(1, 5) || l.SettingsV != 1 || l.Moved || l.PlacesLow || l.StockKnown {
		t.Fatalf("line: %+v", l)
	}
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if err := b.room.AdvanceBegin(b.ctx, b.product, "a"); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("advance of nothing: %v", err)
	}
	if err := b.room.Advance(b.ctx, b.product, "a", 2, 0); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("advance of nothing: %v", err)
	}
	b.open(settings(), 1, 10)
	before := b.join(user(1))
	b.check(b.room.AdvanceBegin(b.ctx, b.product, "a"))
	if err := b.room.AdvanceBegin(b.ctx, b.product, "b"); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("second holder: %v", err)
	}
	b.check(b.room.RestoreRenew(b.ctx, b.product, "a"))
	if err := b.room.Advance(b.ctx, b.product, "b", 3, 0); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("advanced by another: %v", err)
	}
	b.check(b.room.SetClock(b.ctx, b.product, "front", 99))
	for range 2 {
		b.check(b.room.Advance(b.ctx, b.product, "a", 2, 7))
	}
	if err := b.room.Advance(b.ctx, b.product, "a", 1, 0); !errors.Is(err, waitingroom.ErrNotHolder) {
		t.Fatalf("advanced to a lower inc: %v", err)
	}
	v, err := b.room.View(b.ctx, b.product)
	b.check(err)
	if v.Inc != 2 || v.Front != 99 {
		t.Fatalf("view: %+v", v)
	}
	if s := b.join(user(1)); s.Place != before.Place {
		t.Fatalf("the data are not kept: %+v", s)
	}
	if s := b.join(user(2)); s.Place.Inc() != 2 || s.Position != 2 {
		t.Fatalf("next place: %+v", s)
	}
	b.balance()
}

// Places count from the opening for as long as they last, and from the incarnation's start after that (F42).
func TestPlacesBeginAnew(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.opened = time.Now().Add(-95 * 24 * time.Hour).UnixMicro()
	b.open(settings(), 1, 10)
	if s := b.join(user(1)); s.Place.Low() > (24 * time.Hour).Microseconds() {
		t.Fatalf("place of a line restored after 95 days: %d", s.Place.Low())
	}
	c := newBundle(t)
	c.open(settings(), 1, 10)
	c.check(c.room.SetClock(c.ctx, c.product, "low_from", time.Now().Add(-95*24*time.Hour).UnixMicro()))
	c.join(user(1))
	l, err := c.room.Line(c.ctx, c.product)
	c.check(err)
	if !l.PlacesLow {
		t.Fatalf("line after 95 days: %+v", l)
	}
	c.check(c.room.AdvanceBegin(c.ctx, c.product, "a"))
	c.check(c.room.Advance(c.ctx, c.product, "a", 2, 0))
	if s := c.join(user(2)); s.Place.Low() > (24*time.Hour).Microseconds() || s.Position != 2 {
		t.Fatalf("place after the advance: %+v", s)
	}
}

func TestSettingsPut(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.room.SettingsPut(b.ctx, b.product, b.line(settings(), 9)); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("settings on an absent slot: %v", err)
	}
	s := product.DefaultSettings()
	s.Rate, s.Reason, s.QueueOn = 0.125, "보수 중 | pause", false
	s.OrdersHalted, s.AbsenceMS, s.GraceMS = true, 0, 1000
	b.open(s, 1, 10)
	want := b.line(s, 1)
	check := func() {
		t.Helper()
		v, err := b.room.View(b.ctx, b.product)
		b.check(err)
		if v.Settings != want.Settings || v.SettingsV != want.V || v.OpenedUS != want.OpenedUS || v.PassEpoch != want.PassEpoch {
			t.Fatalf("view: %+v, expected %+v", v, want)
		}
	}
	check()
	stale := b.line(settings(), 1)
	if applied, err := b.room.SettingsPut(b.ctx, b.product, stale); err != nil || applied {
		t.Fatalf("stale settings: %v, %v", applied, err)
	}
	check()
	// A slot that an older version wrote lacks the later settings: nobody is halted, and nobody becomes away.
	b.check(b.rdb.HDel(b.ctx, b.keys.Product(b.product).Settings, "orders_halted", "absence_ms", "grace_ms").Err())
	want.OrdersHalted, want.AbsenceMS, want.GraceMS = false, 0, product.DefaultSettings().GraceMS
	check()
	next := b.line(settings(), 5)
	next.OrdersHalted, next.AbsenceMS, next.GraceMS = true, 90_000, 2000
	next.OpenedUS, next.PassEpoch = 42, 0 // neither a second opening nor a revocation taken back
	for n := range 2 {
		applied, err := b.room.SettingsPut(b.ctx, b.product, next)
		if err != nil || applied != (n == 0) {
			t.Fatalf("settings: %v, %v", applied, err)
		}
	}
	want.Settings, want.V = next.Settings, 5
	check()
	bad := b.line(settings(), 6)
	bad.Rate = 0
	if _, err := b.room.SettingsPut(b.ctx, b.product, bad); !errors.Is(err, product.ErrInvalid) {
		t.Fatalf("settings out of range: %v", err)
	}
}

func TestLoadAsked(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.room.LoadAsked(b.ctx, b.product); !errors.Is(err, waitingroom.ErrNotReady) {
		t.Fatalf("without settings: %v", err)
	}
	b.restore(settings(), 1, 0, 0)
	v, err := b.room.View(b.ctx, b.product)
	b.check(err)
	ask := func() bool {
		t.Helper()
		ask, err := b.room.LoadAsked(b.ctx, b.product)
		b.check(err)
		return ask
	}
	if !ask() {
		t.Fatal("nobody was asked for an unknown stock")
	}
	b.check(b.room.SetClock(b.ctx, b.product, "load_asked", v.NowMS+86_400_000))
	if !ask() {
		t.Fatal("an asked time ahead of the clock holds up")
	}
	b.until("asked again a second later", ask)
	b.check(b.counter.Settle(b.ctx, b.product, 3, 0, true, nil))
	if ask() {
		t.Fatal("asked for a known stock")
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	if _, err := b.room.InCatalogue(b.ctx, "p1"); !errors.Is(err, waitingroom.ErrNoCatalogue) {
		t.Fatalf("without a catalogue: %v", err)
	}
	if _, err := b.room.Products(b.ctx); !errors.Is(err, waitingroom.ErrNoCatalogue) {
		t.Fatalf("without a catalogue: %v", err)
	}
	for range 2 {
		b.check(b.room.PutCatalogue(b.ctx, []product.ID{"p1", "p2"}))
	}
	for id, want := range map[product.ID]bool{"p1": true, "p2": true, "p3": false} {
		if known, err := b.room.InCatalogue(b.ctx, id); err != nil || known != want {
			t.Fatalf("%s: %v, %v", id, known, err)
		}
	}
	b.check(b.room.PutCatalogue(b.ctx, nil)) // ids are never removed
	all, err := b.room.Products(b.ctx)
	b.check(err)
	if len(all) != 2 || all[0] == all[1] {
		t.Fatalf("products: %v", all)
	}
}

// A server that was restarted says so until the line is advanced; nothing it had acknowledged is gone.
func TestLineAfterRestart(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	b := bundleOn(t, localtest.RedisFixture{Addrs: []string{server.Addr()}, Mode: server.Mode(), Prefix: "r:"})
	b.open(settings(), 1, 10)
	before := b.join(user(1))
	b.check(server.Restart(b.ctx))
	var l waitingroom.Line
	b.until("an answer after the restart", func() (reached bool) {
		var err error
		l, err = b.room.Line(b.ctx, b.product)
		return err == nil
	})
	if !l.Present || !l.Moved {
		t.Fatalf("line after a restart: %+v", l)
	}
	b.check(b.room.AdvanceBegin(b.ctx, b.product, "a"))
	b.check(b.room.Advance(b.ctx, b.product, "a", 2, l.Front))
	l, err := b.room.Line(b.ctx, b.product)
	b.check(err)
	if l.Moved || l.Inc != 2 {
		t.Fatalf("line after the advance: %+v", l)
	}
	if s := b.join(user(1)); s.Place != before.Place {
		t.Fatalf("place after a restart: %+v", s)
	}
}

// A node that forgot its scripts is sent their text.
func TestScriptsAfterFlush(t *testing.T) {
	t.Parallel()
	server := localtest.PrivateRedis(t)
	b := bundleOn(t, localtest.RedisFixture{Addrs: []string{server.Addr()}, Mode: server.Mode(), Prefix: "f:"})
	flush := func() { b.check(b.rdb.ScriptFlush(b.ctx).Err()) }
	flush()
	b.open(settings(), 1, 10)
	flush()
	s := b.join(user(1))
	flush()
	b.admit(1)
	flush()
	if r := b.bind(b.request(user(1), s.Place, 1)); r.Outcome != waitingroom.BindBound {
		t.Fatalf("bind: %+v", r)
	}
	flush()
	b.balance()
}
