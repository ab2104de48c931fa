package order_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// key is a key of 32 equal bytes.
func key(t testing.TB, kid string, fill byte) keyring.Key {
	t.Helper()
	k, err := keyring.Parse(kid + ":" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(string(rune(fill)), 32))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pointer[T any](v T) *T { return &v }

// commands are the samples under testdata, one for each kind. They were written by the first build and are never changed: every later
// build reads them.
func commands() map[string]order.Command {
	const (
		id   = order.ID("018bcfe5-6800-7a10-8b2c-0d3e5f708192")
		hash = product.UserHash("00112233445566778899aabbccddeeff")
	)
	return map[string]order.Command{
		"place": {
			Version: 1, Kind: order.KindPlace, ID: string(id), Product: "concert.2026_A-1", OrderID: id, User: "김한줄@example.org",
			Place: 8796093022209, Quantity: 2, IdempotencyKey: "click-1", Pass: "header.claims.signature", DeadlineMS: 1_800_000_600_000,
			AtMS: 1_800_000_000_000, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		"place_direct": {
			Version: 3, Kind: order.KindPlace, ID: "9f2c1d7e-0b6a-8c43-9a5d-1e2f3a4b5c6d", Product: "concert.2026_A-1",
			OrderID: "9f2c1d7e-0b6a-8c43-9a5d-1e2f3a4b5c6d", User: "김한줄@example.org", Quantity: 2, IdempotencyKey: "click-1",
			DeadlineMS: 1_800_000_600_000, AtMS: 1_800_000_000_000, KeyID: "k1", MAC: "x",
		},
		"cancel": {
			Version: 1, Kind: order.KindCancel, ID: "cancel-1", Product: "concert.2026_A-1", OrderID: id, User: "kim", Quantity: 2, AtMS: 1,
			KeyID: "k1", MAC: "gTxvgakvdeAr91JJxK-HYLf4ViFnJH4TgZa-FICzR44",
		},
		"adjust": {
			Version: 1, Kind: order.KindAdjust, ID: "restock-1", Product: "concert.2026_A-1", Delta: -40, AtMS: 1,
			KeyID: "k1", MAC: "x",
		},
		"load_stock": {Version: 1, Kind: order.KindLoadStock, ID: "load-1", Product: "concert.2026_A-1", AtMS: 1, KeyID: "k1", MAC: "x"},
		"void": {
			Version: 1, Kind: order.KindVoid, ID: order.VoidID(id), Product: "concert.2026_A-1", OrderID: id, UserHash: hash, AtMS: 1,
			KeyID: "k1", MAC: "x",
		},
		"drop": {
			Version: 2, Kind: order.KindDrop, ID: "drop-1", Product: "concert.2026_A-1", OrderID: id, User: "kim", AtMS: 1,
			KeyID: "k1", MAC: "x",
		},
	}
}

func events() map[string]order.Event {
	const id = order.ID("018bcfe5-6800-7a10-8b2c-0d3e5f708192")
	at := time.Date(2027, 1, 15, 8, 0, 0, 123456000, time.UTC)
	return map[string]order.Event{
		"confirmed": {
			Version: 1, Type: order.Confirmed, Product: "p", Seq: 7, OrderID: pointer(id), User: pointer(product.UserID("김한줄")),
			Place: pointer(product.Place(8796093022209)), Quantity: pointer(2), LeftAfter: 41, At: at,
		},
		"rejected": {
			Version: 1, Type: order.Rejected, Product: "p", Seq: 8, OrderID: pointer(id), User: pointer(product.UserID("kim")),
			Place: pointer(product.Place(8796093022209)), Quantity: pointer(2), Reason: pointer(order.ReasonSoldOut), LeftAfter: 0, At: at,
		},
		"cancelled": {
			Version: 1, Type: order.Cancelled, Product: "p", Seq: 9, OrderID: pointer(id), User: pointer(product.UserID("kim")),
			Reason: pointer(order.ReasonCancelledBefore), CommandID: pointer("cancel-1"), LeftAfter: 0, At: at,
		},
		"adjusted": {
			Version: 1, Type: order.StockAdjusted, Product: "p", Seq: 10, Delta: pointer(int64(-40)), CommandID: pointer("restock-1"),
			LeftAfter: 1, At: at,
		},
	}
}

// golden compares with a sample under testdata. A missing sample is written when HANJUL_WRITE_GOLDEN=1; one that exists never is.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && os.Getenv("HANJUL_WRITE_GOLDEN") == "1" {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSuffix(string(want), "\n"), string(got)); diff != "" {
		t.Errorf("%s: the form on the wire has changed:\n%s", path, diff)
	}
}

func TestCommandGolden(t *testing.T) {
	t.Parallel()
	for name, c := range commands() {
		encoded, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		sampleName := fmt.Sprintf("command_%s_v%d.json", name, c.Version)
		golden(t, sampleName, encoded)
		sample, err := os.ReadFile(filepath.Join("testdata", sampleName))
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := order.DecodeCommand(sample)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, decoded); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestEventGolden(t *testing.T) {
	t.Parallel()
	for name, e := range events() {
		encoded, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "event_"+name+"_v1.json", encoded)
		sample, err := os.ReadFile(filepath.Join("testdata", "event_"+name+"_v1.json"))
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := order.DecodeEvent(sample)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, decoded); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if _, err := order.DecodeEvent([]byte(`{"v":2}`)); !errors.Is(err, order.ErrVersion) {
		t.Error(err)
	}
	if _, err := order.DecodeEvent([]byte(`[]`)); err == nil || errors.Is(err, order.ErrVersion) {
		t.Error(err)
	}
	later := []byte(`{"v":1,"type":"hanjul.order.confirmed","seq":3,"something":"new"}`)
	if e, err := order.DecodeEvent(later); err != nil || e.Seq != 3 {
		t.Error("a field of a later build must be ignored", err)
	}
}

func TestDeadLetterGolden(t *testing.T) {
	t.Parallel()
	d := order.DeadLetter{
		Reason: "undecodable", Topic: "orders", Partition: 3, Offset: 42, RecordedAt: time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC),
		Key: []byte("p"), Payload: []byte("\x00\xff no command"),
	}
	encoded, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "dead_letter_v1.json", encoded)
	d.Payload, d.Key = make([]byte, 1<<20), make([]byte, 1<<20)
	if encoded, err = d.Encode(); err != nil || len(encoded) > 900_000 || !strings.Contains(string(encoded), `"truncated":true`) {
		t.Fatal(len(encoded), err)
	}
}

// The derived ids are part of the contract: a redone transaction of a later build must write the ids of an earlier one.
func TestDerivedIDsGolden(t *testing.T) {
	t.Parallel()
	const id = order.ID("018bcfe5-6800-7a10-8b2c-0d3e5f708192")
	hash := product.HashUser(key(t, "user", 'u'), "kim")
	ids := []string{
		"hash " + string(hash),
		"place " + string(order.DeriveID(key(t, "order", 'o'), "p", hash, product.MakePlace(1, 61_000_000), 1_700_000_000_000_000)),
		"verdict " + order.OrderEventID(id, 1), "cancelled " + order.OrderEventID(id, 2), "command " + order.CommandEventID("restock-1"),
		"send " + order.OutboxCommandID("restock-1"), "dead " + order.DeadLetterID("orders", 3, 42), "void " + order.VoidID(id),
		"digest " + order.Digest(2, "click-1"), "digest " + order.Digest(2, ""),
	}
	golden(t, "derived_ids_v1.txt", []byte(strings.Join(ids, "\n")))
	direct := "direct " + string(order.DeriveDirectID(key(t, "order", 'o'), "p", hash, "click-1"))
	golden(t, "derived_ids_v3.txt", []byte(direct))
	ids = append(ids, direct)
	seen := map[string]bool{}
	for _, line := range ids {
		name, derived, _ := strings.Cut(line, " ")
		if seen[derived] {
			t.Errorf("%s twice", derived)
		}
		seen[derived] = true
		if name == "hash" || name == "digest" {
			continue
		}
		if _, err := order.ParseID(derived); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
