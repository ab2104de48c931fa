package ledger_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/ledger/ledgertest"
	"hanjul/pkg/order"
	"hanjul/pkg/postgres"
	"hanjul/pkg/postgres/postgrestest"
	"hanjul/pkg/product"
)

// movement is a signed adjust under the request id.
func movement(t testing.TB, p product.ID, request string, delta int64) *ledger.Movement {
	t.Helper()
	c, err := order.Command{Kind: order.KindAdjust, ID: request, Product: p, Delta: delta}.Sign(key(t))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &ledger.Movement{Delta: delta, Command: encoded}
}

func action(p product.ID, request string) ledger.Action {
	return ledger.Action{RequestID: request, Operator: "kim", Product: p}
}

func TestPutProduct(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	settings := product.DefaultSettings()
	settings.State, settings.Reason = product.Open, "ignored"
	made, err := l.PutProduct(ctx, action("p", "r1"), settings, movement(t, "p", "r1", 100))
	if err != nil || !made.Created || made.CommandID != "r1" {
		t.Fatal(made, err)
	}
	settings.State, settings.Reason = product.NotOpen, ""
	want := ledger.ProductRow{ID: "p", Settings: settings, SettingsV: 1, PassEpoch: 1}
	if diff := cmp.Diff(want, made.Product); diff != "" {
		t.Fatal(diff)
	}
	again, err := l.PutProduct(ctx, action("p", "r1"), settings, movement(t, "p", "r1", 100))
	if err != nil || !again.Repeat || !again.Created || again.CommandID != "r1" {
		t.Fatal(again, err)
	}
	books := readBooks(t, l, "p")
	if len(books.Outbox) != 1 || books.Outbox[0].ID != order.OutboxCommandID("r1") || books.Outbox[0].Topic != "orders" ||
		books.Outbox[0].Subject != "p" || books.Outbox[0].Type != string(order.TypeCommand) {
		t.Fatal(books.Outbox)
	}
	c, err := order.DecodeCommand(books.Outbox[0].Payload)
	if err != nil || c.Verify(keyring.Ring{key(t)}) != nil {
		t.Fatal("the command does not leave as it was signed", err)
	}

	settings.Rate = 7
	changed, err := l.PutProduct(ctx, action("p", "r2"), settings, nil)
	if err != nil || changed.Created || changed.Product.SettingsV != 2 || changed.Product.Settings.Rate != 7 {
		t.Fatal(changed, err)
	}
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"stock of one that exists": {func() error {
			_, err := l.PutProduct(ctx, action("p", "r3"), settings, movement(t, "p", "r3", 1))
			return err
		}, ledger.ErrStockExists},
		"another body": {func() error {
			_, err := l.PutProduct(ctx, action("p", "r2"), product.DefaultSettings(), nil)
			return err
		}, ledger.ErrRequestReused},
		"another product": {func() error { _, err := l.PutProduct(ctx, action("q", "r2"), settings, nil); return err }, ledger.ErrRequestReused},
		"another call":    {func() error { _, err := l.Open(ctx, action("p", "r2")); return err }, ledger.ErrRequestReused},
		"another operator": {func() error {
			a := action("p", "r2")
			a.Operator = "lee"
			_, err := l.PutProduct(ctx, a, settings, nil)
			return err
		}, ledger.ErrRequestReused},
		"settings out of range": {func() error { _, err := l.PutProduct(ctx, action("p", "r4"), product.Settings{}, nil); return err }, ledger.ErrInvalid},
		"a command of another id": {func() error {
			_, err := l.PutProduct(ctx, action("n", "r5"), settings, movement(t, "n", "other", 1))
			return err
		}, ledger.ErrInvalid},
		"no request id":  {func() error { _, err := l.Open(ctx, action("p", "")); return err }, ledger.ErrInvalid},
		"no operator":    {func() error { _, err := l.Open(ctx, ledger.Action{RequestID: "r6", Product: "p"}); return err }, ledger.ErrInvalid},
		"no product":     {func() error { _, err := l.Open(ctx, action("", "r7")); return err }, ledger.ErrInvalid},
		"unknown":        {func() error { _, err := l.Open(ctx, action("nobody", "r8")); return err }, ledger.ErrUnknownProduct},
		"restock of one": {func() error { _, err := l.Restock(ctx, action("no", "r9"), *movement(t, "no", "r9", 1)); return err }, ledger.ErrUnknownProduct},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Pool().Exec(ctx, `UPDATE products SET settings = jsonb_set(settings, '{state}', '"closed"') WHERE id = 'p'`); err != nil {
		t.Fatal(err)
	}
	if _, err := l.PutProduct(ctx, action("p", "r10"), settings, movement(t, "p", "r10", 1)); !errors.Is(err, ledger.ErrClosed) {
		t.Error(err)
	}
	if _, err := l.Open(ctx, action("p", "r11")); !errors.Is(err, ledger.ErrClosed) {
		t.Error(err)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 0)
	var opened int64
	for i, step := range []struct {
		do     string
		reason string
		want   product.State
		v      int64
		err    error
	}{
		{"resume", "", "", 0, ledger.ErrState},
		{"pause", "why", "", 0, ledger.ErrState},
		{"close", "why", "", 0, ledger.ErrState},
		{"open", "", product.Open, 2, nil},
		{"open", "", product.Open, 2, nil},
		{"pause", "soon back", product.Paused, 3, nil},
		{"pause", "soon back", product.Paused, 3, nil},
		{"pause", "later", product.Paused, 4, nil},
		{"open", "", "", 0, ledger.ErrState},
		{"resume", "", product.Open, 5, nil},
		{"resume", "", product.Open, 5, nil},
		{"pause", strings.Repeat("x", 201), "", 0, ledger.ErrInvalid},
		{"close", strings.Repeat("x", 201), "", 0, ledger.ErrInvalid},
		{"close", "it was a long day", product.Closed, 6, nil},
		{"close", "it was a long day", product.Closed, 6, nil},
		{"close", "", product.Closed, 7, nil},
		{"open", "", "", 0, ledger.ErrClosed},
		{"pause", "", "", 0, ledger.ErrClosed},
		{"resume", "", "", 0, ledger.ErrClosed},
	} {
		a := action("p", "s"+string(rune('a'+i)))
		var r ledger.ActionResult
		var err error
		switch step.do {
		case "open":
			r, err = l.Open(ctx, a)
		case "pause":
			r, err = l.Pause(ctx, a, step.reason)
		case "resume":
			r, err = l.Resume(ctx, a)
		case "close":
			r, err = l.CloseSale(ctx, a, step.reason)
		}
		if !errors.Is(err, step.err) {
			t.Fatalf("%d %s: %v", i, step.do, err)
		}
		if err != nil {
			continue
		}
		if r.Product.Settings.State != step.want || r.Product.SettingsV != step.v || r.Product.Settings.Reason != step.reason {
			t.Fatalf("%d %s: %+v", i, step.do, r.Product)
		}
		if opened == 0 {
			opened = r.Product.OpenedUS
		}
		if r.Product.OpenedUS != opened || opened == 0 {
			t.Fatalf("%d %s: opened at %d, first %d", i, step.do, r.Product.OpenedUS, opened)
		}
	}
}

// A halt is a setting that nothing else touches: neither new settings nor a change of state begin or end one.
func TestHalt(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 0)
	settings := product.DefaultSettings()
	n := 0
	halted := func(want bool, v int64, do func(ledger.Action) (ledger.ActionResult, error)) {
		t.Helper()
		n++
		r, err := do(action("p", "h"+strconv.Itoa(n)))
		if err != nil || r.Product.Settings.OrdersHalted != want || r.Product.SettingsV != v {
			t.Fatalf("call %d: %+v, %v", n, r.Product, err)
		}
	}
	call := func(f func(context.Context, ledger.Action) (ledger.ActionResult, error)) func(ledger.Action) (ledger.ActionResult, error) {
		return func(a ledger.Action) (ledger.ActionResult, error) { return f(ctx, a) }
	}
	put := func(asked bool) func(ledger.Action) (ledger.ActionResult, error) {
		return func(a ledger.Action) (ledger.ActionResult, error) {
			changed := settings
			changed.OrdersHalted, changed.Rate = asked, float64(n)
			return l.PutProduct(ctx, a, changed, nil)
		}
	}
	halted(false, 2, put(true))
	halted(true, 3, call(l.Halt))
	halted(true, 3, call(l.Halt))
	halted(true, 4, call(l.Open))
	halted(true, 5, put(false))
	halted(false, 6, call(l.Unhalt))
	halted(false, 6, call(l.Unhalt))
	if _, err := l.Halt(ctx, action("q", "h")); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Error(err)
	}
}

// So is the queue: on in a new product, and off or on by its own calls only.
func TestQueueOff(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	n := 0
	queued := func(want bool, v int64, do func(context.Context, ledger.Action) (ledger.ActionResult, error)) {
		t.Helper()
		n++
		r, err := do(ctx, action("p", "q"+strconv.Itoa(n)))
		if err != nil || r.Product.Settings.QueueOn != want || r.Product.SettingsV != v {
			t.Fatalf("call %d: %+v, %v", n, r.Product, err)
		}
	}
	put := func(asked bool) func(context.Context, ledger.Action) (ledger.ActionResult, error) {
		return func(ctx context.Context, a ledger.Action) (ledger.ActionResult, error) {
			settings := product.DefaultSettings()
			settings.QueueOn, settings.Rate = asked, float64(n)
			return l.PutProduct(ctx, a, settings, nil)
		}
	}
	queued(true, 1, put(false))
	queued(false, 2, l.QueueOff)
	queued(false, 2, l.QueueOff)
	queued(false, 3, l.Open)
	queued(false, 4, put(true))
	queued(false, 5, l.Halt)
	queued(true, 6, l.QueueOn)
	queued(true, 6, l.QueueOn)
	stale := action("p", "stale")
	stale.IfVersion = 5
	if _, err := l.QueueOff(ctx, stale); !errors.Is(err, ledger.ErrVersion) {
		t.Error(err)
	}
	if _, err := l.QueueOff(ctx, action("q", "q")); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Error(err)
	}
}

// A row that an older version wrote lacks the settings that came later, and has their defaults.
func TestProductOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 0)
	if _, err := l.Pool().Exec(t.Context(), `UPDATE products SET settings = settings - 'grace_ms' - 'user_limit' WHERE id = 'p'`); err != nil {
		t.Fatal(err)
	}
	want := product.DefaultSettings()
	if row, err := l.Product(t.Context(), "p"); err != nil || row.Settings.GraceMS != want.GraceMS || row.Settings.UserLimit != want.UserLimit {
		t.Fatal(row, err)
	}
}

// F19: of two operators who read the same settings one changes them, and the other is told; a repeat is still the same change.
func TestChangesOfOneVersion(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 0)
	at := func(request string, v int64) ledger.Action {
		a := action("p", request)
		a.IfVersion = v
		return a
	}
	const operators = 6
	done := make(chan error, operators)
	for n := range operators {
		go func() {
			settings := product.DefaultSettings()
			settings.Rate = float64(100 + n)
			_, err := l.PutProduct(ctx, at("put"+strconv.Itoa(n), 1), settings, nil)
			done <- err
		}()
	}
	changed := 0
	for range operators {
		switch err := <-done; {
		case err == nil:
			changed++
		case !errors.Is(err, ledger.ErrVersion):
			t.Error(err)
		}
	}
	if row, err := l.Product(ctx, "p"); err != nil || changed != 1 || row.SettingsV != 2 {
		t.Fatal(changed, row, err)
	}
	for range 2 {
		if r, err := l.Open(ctx, at("open", 2)); err != nil || r.Product.SettingsV != 3 {
			t.Fatal(r, err)
		}
	}
	if _, err := l.Halt(ctx, at("halt", 2)); !errors.Is(err, ledger.ErrVersion) {
		t.Error(err)
	}
	// The same product under an id that comes behind, page by page.
	ledgertest.Product(t, l, "q", 0)
	first, err := l.ProductsAfter(ctx, "", 1)
	if err != nil || len(first) != 1 || first[0].ID != "p" {
		t.Fatal(first, err)
	}
	if rest, err := l.ProductsAfter(ctx, "p", 5); err != nil || len(rest) != 1 || rest[0].ID != "q" {
		t.Fatal(rest, err)
	}
}

// F21: the change, its audit row and its command are one transaction, also when the answer to the commit is lost, and when the same request
// comes twice at once.
func TestActionsHappenOnce(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	direct := ledgertest.OpenAt(t, url)
	proxy := postgrestest.NewProxy(t, url, postgrestest.After, 1)
	l := ledgertest.OpenAt(t, proxy.URL)
	r, err := l.PutProduct(t.Context(), action("p", "r1"), product.DefaultSettings(), movement(t, "p", "r1", 5))
	if err != nil || !r.Repeat || !r.Created || proxy.Cuts() != 1 {
		t.Fatal(r, err)
	}
	var running sync.WaitGroup
	m := movement(t, "p", "r2", 3)
	for range 4 {
		running.Go(func() {
			if _, err := direct.Restock(t.Context(), action("p", "r2"), *m); err != nil {
				t.Error(err)
			}
		})
		running.Go(func() {
			if _, err := direct.PutProduct(t.Context(), action("q", "r3"), product.DefaultSettings(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if n := len(readBooks(t, direct, "p").Outbox); n != 2 {
		t.Fatalf("%d commands", n)
	}
	// The commands are judged under the request's id, and their answer is found by it.
	adjust := command(t, order.KindAdjust, "p", "r1", func(c *order.Command) { c.Delta = 5 })
	judge(t, direct, batch(adjust, adjust))
	verdict, found, err := direct.Command(t.Context(), "r1")
	if err != nil || !found || verdict.Result != ledger.CommandDone || verdict.Seq != 1 {
		t.Fatal(verdict, found, err)
	}
	if _, found, err := direct.Command(t.Context(), "r2"); found || err != nil {
		t.Fatal(found, err)
	}
	if s, err := direct.StockOf(t.Context(), "p"); err != nil || s != (ledger.Stock{Total: 5, Seq: 1}) {
		t.Fatal(s, err)
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ctx := t.Context()
	ledgertest.Product(t, l, "p", 0)
	at := time.UnixMilli(1_800_000_000_000).UTC()
	for _, p := range []struct {
		front  product.Place
		active int
		at     time.Time
	}{{0, 3, at.Add(-time.Hour)}, {10, 5, at}, {30, 7, at.Add(2 * time.Second)}, {20, 6, at.Add(time.Second)}} {
		if err := l.PersistLine(ctx, "p", p.front, p.active, p.at); err != nil {
			t.Fatal(err)
		}
	}
	row, err := l.NextInc(ctx, "p")
	if err != nil || row.LineInc != 1 || row.Front != 30 || row.ActiveN != 7 || !row.FrontAt.Equal(at.Add(2*time.Second)) {
		t.Fatal(row, err)
	}
	if row, err = l.Product(ctx, "p"); err != nil || row.LineInc != 1 {
		t.Fatal(row, err)
	}
	if _, err := l.Pool().Exec(ctx, `UPDATE products SET line_inc = 1022`); err != nil {
		t.Fatal(err)
	}
	if row, err = l.NextInc(ctx, "p"); err != nil || row.LineInc != product.IncMax {
		t.Fatal(row, err)
	}
	if _, err = l.NextInc(ctx, "p"); !errors.Is(err, ledger.ErrLineEnd) {
		t.Fatal(err)
	}
	if _, err = l.NextInc(ctx, "nobody"); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Fatal(err)
	}
	if err = l.PersistLine(ctx, "nobody", 1, 1, at); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Fatal(err)
	}
	if _, err = l.Product(ctx, "nobody"); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Fatal(err)
	}
	if _, err = l.StockOf(ctx, "nobody"); !errors.Is(err, ledger.ErrUnknownProduct) {
		t.Fatal(err)
	}
	ledgertest.Product(t, l, "a", 4)
	all, err := l.Products(ctx)
	if err != nil || len(all) != 2 || all[0].ID != "a" || all[0].Total != 4 || all[1].ID != "p" {
		t.Fatal(all, err)
	}
}

func TestOrdersJudgedSince(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 100)
	ledgertest.Product(t, l, "q", 100)
	want := map[order.ID]bool{}
	for i := range int64(5) {
		var inputs []ledger.Input
		for j := range int64(7) {
			inputs = append(inputs, place(t, []product.ID{"p", "q"}[i%2], "u"+string(rune('a'+j)), i*10+j+1, 1))
			want[inputs[j].Command.OrderID] = true
		}
		judge(t, l, batch(inputs...))
	}
	at := ledger.Cursor{At: time.Now().Add(-time.Hour)}
	for {
		page, err := l.OrdersJudgedSince(t.Context(), at, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page {
			if !want[row.OrderID] {
				t.Fatalf("order %s twice or unknown", row.OrderID)
			}
			delete(want, row.OrderID)
			at = row.Cursor()
		}
		if len(page) < 4 {
			break
		}
	}
	if len(want) != 0 {
		t.Fatalf("%d orders missing", len(want))
	}
	first := place(t, "p", "ua", 1, 1)
	rows, err := l.OrdersByID(t.Context(), []order.ID{first.Command.OrderID, place(t, "p", "nobody", 99, 1).Command.OrderID})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	status := order.Status{Version: 2, State: order.StateConfirmed, Product: "p", User: first.User, Quantity: 1, Digest: order.Digest(1, "")}
	if diff := cmp.Diff(status, rows[first.Command.OrderID].Status()); diff != "" {
		t.Fatal(diff)
	}
}

func TestSnapshotIsOneMoment(t *testing.T) {
	t.Parallel()
	l := ledgertest.Open(t)
	ledgertest.Product(t, l, "p", 10)
	judge(t, l, batch(place(t, "p", "a", 1, 1)))
	mine := errors.New("mine")
	err := l.Snapshot(t.Context(), "p", func(s *ledger.Snapshot) error {
		if _, err := s.Product(); err != nil {
			return err
		}
		judge(t, l, batch(place(t, "p", "b", 2, 1)))
		rows := 0
		if err := s.EachOrder(func(ledger.OrderRow) error { rows++; return nil }); err != nil {
			return err
		}
		if row, err := s.Product(); err != nil || row.Sold != 1 || rows != 1 {
			t.Errorf("%d rows, %d sold, %v", rows, row.Sold, err)
		}
		if err := s.EachOutbox(func(ledger.OutboxRow) error { return mine }); !errors.Is(err, mine) {
			t.Error(err)
		}
		if next, err := s.Progress("orders"); err != nil || next[0] != 1 {
			t.Error(next, err)
		}
		return mine
	})
	if !errors.Is(err, mine) {
		t.Fatal(err)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	l := ledgertest.OpenAt(t, url)
	if err := l.CheckSchema(t.Context()); !errors.Is(err, ledger.ErrSchema) || !strings.Contains(err.Error(), "order-consumer migrate") {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			if version, err := ledger.Migrate(t.Context(), postgres.At(url)); err != nil || version < 1 {
				t.Error(version, err)
			}
		})
	}
	running.Wait()
	if err := l.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
}
