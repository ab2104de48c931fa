package order_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// The order id is a function of product, user and place, and of nothing else: the same gives the same, another another. Its time is the
// join's.
func TestDeriveIDIsStableAndDistinct(t *testing.T) {
	t.Parallel()
	k, other := key(t, "order", 'o'), key(t, "order", 'x')
	type of struct {
		p     product.ID
		u     product.UserHash
		place product.Place
	}
	const opened = 1_700_000_000_000_000
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) of {
			return of{
				product.ID(rapid.StringMatching(`[A-Za-z0-9._-]{1,8}`).Draw(t, label+" product")),
				product.UserHash(rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, label+" user")),
				product.MakePlace(rapid.IntRange(1, product.IncMax).Draw(t, label+" inc"), rapid.Int64Range(0, 1<<43-1).Draw(t, label+" low")),
			}
		}
		a, b := draw("a"), draw("b")
		id := order.DeriveID(k, a.p, a.u, a.place, opened)
		if again := order.DeriveID(k, a.p, a.u, a.place, opened); again != id {
			t.Fatalf("%s, then %s", id, again)
		}
		if _, err := order.ParseID(string(id)); err != nil || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Fatal(id, err)
		}
		var ms int64
		if _, err := fmt.Sscanf(strings.ReplaceAll(string(id[:13]), "-", ""), "%x", &ms); err != nil || ms != opened/1000+a.place.Low()/1000 {
			t.Fatal(id, ms, err)
		}
		near := []of{
			{a.p + "x", a.u, a.place},
			{a.p, flip(a.u), a.place},
			{a.p, a.u, a.place + 1},
			{a.p, a.u, product.MakePlace(a.place.Inc()%product.IncMax+1, a.place.Low())},
		}
		if a != b {
			near = append(near, b)
		}
		for _, n := range near {
			if order.DeriveID(k, n.p, n.u, n.place, opened) == id {
				t.Fatalf("%+v and %+v have one id", a, n)
			}
		}
		if order.DeriveID(other, a.p, a.u, a.place, opened) == id {
			t.Fatal("another key gives the same id")
		}
	})
}

// An order without a pass has one id for each key of each user of each product, and none that a place could have.
func TestDeriveDirectID(t *testing.T) {
	t.Parallel()
	k, other := key(t, "k1", 'a'), key(t, "k2", 'b')
	type of struct {
		p   product.ID
		u   product.UserHash
		key string
	}
	rapid.Check(t, func(t *rapid.T) {
		a := of{
			product.ID(rapid.StringMatching(`[A-Za-z0-9._-]{1,8}`).Draw(t, "product")),
			product.UserHash(rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "user")),
			rapid.StringMatching(`[ -~]{1,16}`).Draw(t, "key"),
		}
		id := order.DeriveDirectID(k, a.p, a.u, a.key)
		if again := order.DeriveDirectID(k, a.p, a.u, a.key); again != id {
			t.Fatalf("%s, then %s", id, again)
		}
		if _, err := order.ParseID(string(id)); err != nil || id[14] != '8' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Fatal(id, err)
		}
		for _, n := range []of{{a.p + "x", a.u, a.key}, {a.p, flip(a.u), a.key}, {a.p, a.u, a.key + "x"}, {a.p, a.u, "|" + a.key}} {
			if order.DeriveDirectID(k, n.p, n.u, n.key) == id {
				t.Fatalf("%+v and %+v have one id", a, n)
			}
		}
		if order.DeriveDirectID(other, a.p, a.u, a.key) == id {
			t.Fatal("another key gives the same id")
		}
	})
}

// A place is ordered directly with a key and neither a place nor a pass; then its MAC covers all that it says, of the version that
// brought it, and a consumer of an earlier build waits for its successor.
func TestDirectCommand(t *testing.T) {
	t.Parallel()
	c, err := commands()["place_direct"].Sign(key(t, "k1", 'a'))
	if err != nil || !c.Direct() || c.Version != 3 || c.Validate() != nil {
		t.Fatal(c, err, c.Validate())
	}
	if err := c.Verify(keyring.Ring{key(t, "k1", 'a')}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*order.Command){
		"quantity": func(c *order.Command) { c.Quantity++ },
		"key":      func(c *order.Command) { c.IdempotencyKey += "x" },
		"user":     func(c *order.Command) { c.User += "x" },
		"deadline": func(c *order.Command) { c.DeadlineMS++ },
		"a pass":   func(c *order.Command) { c.Pass = "x" },
		"a place":  func(c *order.Command) { c.Place = 1 },
	} {
		changed := c
		change(&changed)
		if err := changed.Verify(keyring.Ring{key(t, "k1", 'a')}); !errors.Is(err, order.ErrMAC) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*order.Command){
		"idempotency_key:": func(c *order.Command) { c.IdempotencyKey = strings.Repeat("x", 129) },
		"quantity:":        func(c *order.Command) { c.Quantity = 0 },
		"pass:":            func(c *order.Command) { c.IdempotencyKey = "" },
		"v:":               func(c *order.Command) { c.Version = 1 },
	} {
		changed := c
		change(&changed)
		if err := changed.Validate(); !errors.Is(err, product.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s %v", name, err)
		}
	}
}

func flip(u product.UserHash) product.UserHash {
	if u[0] == '0' {
		return "1" + u[1:]
	}
	return "0" + u[1:]
}

func TestParseID(t *testing.T) {
	t.Parallel()
	good := "018bcfe5-6800-7a10-8b2c-0d3e5f708192"
	if id, err := order.ParseID(good); err != nil || string(id) != good {
		t.Fatal(id, err)
	}
	for _, bad := range []string{
		"", "x", strings.ToUpper(good), good + "0", good[:35], "{" + good[1:], strings.ReplaceAll(good, "-", "0"),
		"018bcfe56800-7a10-8b2c-0d3e5f7081-92-", "018bcfe5-6800-7a10-8b2c-0d3e5f70819g",
	} {
		if _, err := order.ParseID(bad); !errors.Is(err, product.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestCommandMAC(t *testing.T) {
	t.Parallel()
	k1, k2 := key(t, "k1", 'a'), key(t, "k2", 'b')
	signed, err := commands()["cancel"].Sign(k1)
	if err != nil {
		t.Fatal(err)
	}
	if signed.MAC != commands()["cancel"].MAC { // of the sample under testdata
		t.Fatal("the MAC of an older build no longer verifies")
	}
	encoded, err := signed.Encode()
	if err != nil {
		t.Fatal(err)
	}
	received, err := order.DecodeCommand(encoded)
	if err != nil {
		t.Fatal(err)
	}
	for _, ring := range []keyring.Ring{{k1}, {k2, k1}} {
		if err := received.Verify(ring); err != nil {
			t.Error(err)
		}
	}
	same, err := received.Sign(k1) // signing again gives the same MAC
	if err != nil || same.MAC != signed.MAC {
		t.Error(same.MAC, err)
	}
	for name, change := range map[string]func(*order.Command){
		"mac":     func(c *order.Command) { c.MAC = "AAAA" },
		"no mac":  func(c *order.Command) { c.MAC = "" },
		"base64":  func(c *order.Command) { c.MAC = "!" },
		"kid":     func(c *order.Command) { c.KeyID = "k2" },
		"kind":    func(c *order.Command) { c.Kind = order.KindVoid },
		"id":      func(c *order.Command) { c.ID += "x" },
		"product": func(c *order.Command) { c.Product += "x" },
		"order":   func(c *order.Command) { c.OrderID = "018bcfe5-6800-7a10-8b2c-0d3e5f708193" },
		"user":    func(c *order.Command) { c.User += "x" },
		"amount":  func(c *order.Command) { c.Quantity++ },
		"delta":   func(c *order.Command) { c.Delta = 5 },
	} {
		changed := received
		change(&changed)
		if err := changed.Verify(keyring.Ring{k1, k2}); !errors.Is(err, order.ErrMAC) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := received.Verify(keyring.Ring{k2}); !errors.Is(err, order.ErrMAC) || !errors.Is(err, keyring.ErrUnknownKey) {
		t.Error(err)
	}
	if err := received.Verify(nil); !errors.Is(err, order.ErrMAC) {
		t.Error(err)
	}
}

// Each kind needs its fields, and every fault is named at once.
func TestCommandValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of     string
		change func(*order.Command)
		fault  string
	}{
		"version":            {"place", func(c *order.Command) { c.Version = 0 }, "v:"},
		"no id":              {"cancel", func(c *order.Command) { c.ID = "" }, "command_id:"},
		"long id":            {"adjust", func(c *order.Command) { c.ID = strings.Repeat("x", 129) }, "command_id:"},
		"id of another":      {"place", func(c *order.Command) { c.ID = "x" }, "command_id:"},
		"product":            {"place", func(c *order.Command) { c.Product = "a b" }, "product:"},
		"kind":               {"place", func(c *order.Command) { c.Kind = "gift" }, "kind:"},
		"no place":           {"place", func(c *order.Command) { c.Place = 0 }, "place:"},
		"no quantity":        {"place", func(c *order.Command) { c.Quantity = 0 }, "quantity:"},
		"negative quantity":  {"place", func(c *order.Command) { c.Quantity = -1 }, "quantity:"},
		"much quantity":      {"place", func(c *order.Command) { c.Quantity = 1001 }, "quantity:"},
		"no deadline":        {"place", func(c *order.Command) { c.DeadlineMS = 0 }, "deadline_ms:"},
		"no pass":            {"place", func(c *order.Command) { c.Pass = "" }, "pass:"},
		"no order":           {"cancel", func(c *order.Command) { c.OrderID = "" }, "order_id:"},
		"no user":            {"cancel", func(c *order.Command) { c.User = "" }, "user:"},
		"control character":  {"place", func(c *order.Command) { c.User = "a\nb" }, "user:"},
		"no hash":            {"void", func(c *order.Command) { c.UserHash = "kim" }, "user_hash:"},
		"nothing":            {"adjust", func(c *order.Command) { c.Delta = 0 }, "delta:"},
		"too much":           {"adjust", func(c *order.Command) { c.Delta = 1_000_000_001 }, "delta:"},
		"long key":           {"place", func(c *order.Command) { c.IdempotencyKey = strings.Repeat("x", 129) }, "idempotency_key:"},
		"drop of before":     {"drop", func(c *order.Command) { c.Version = 1 }, "v:"},
		"drop of nothing":    {"drop", func(c *order.Command) { c.OrderID = "" }, "order_id:"},
		"drop of nobody's":   {"drop", func(c *order.Command) { c.User = "" }, "user:"},
		"cancel of negative": {"cancel", func(c *order.Command) { c.Quantity = -1 }, "quantity:"},
	} {
		cmd := commands()[c.of]
		c.change(&cmd)
		if err := cmd.Validate(); !errors.Is(err, product.ErrInvalid) || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	faults := order.Command{Kind: order.KindPlace}.Validate().Error()
	for _, field := range []string{"v:", "command_id:", "product:", "place:", "quantity:", "deadline_ms:", "pass:", "order_id:", "user:"} {
		if !strings.Contains(faults, field) {
			t.Errorf("%s is not among the faults:\n%s", field, faults)
		}
	}
}

func TestDecodeCommand(t *testing.T) {
	t.Parallel()
	for _, later := range []string{`{"v":2}`, `{"v":2,"kind":7}`, `{"v":2,"kind":"place"}`, `{"v":3,"kind":"drop"}`, `{"v":1000000}`} {
		if _, err := order.DecodeCommand([]byte(later)); !errors.Is(err, order.ErrVersion) {
			t.Errorf("%s: %v", later, err)
		}
	}
	for _, bad := range []string{"", "null", "[]", "{", `{"kind":"place"}`, `{"v":"1"}`, `{"v":1,"quantity":1.5}`, `{"v":1,"place":9e99}`, "\xff\xfe"} {
		if c, err := order.DecodeCommand([]byte(bad)); err == nil || errors.Is(err, order.ErrVersion) || c.Kind != "" {
			t.Errorf("%s: %+v, %v", bad, c, err)
		}
	}
	// A command with a field out of range is returned beside the error, so that it can be set aside under its id.
	c := commands()["place"]
	c.Quantity = 5000
	encoded, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := order.DecodeCommand(encoded); err == nil || got != c {
		t.Fatal(got, err)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, q := range []int{1, 2, 12} {
		for _, k := range []string{"", "a", "2|a", "|"} {
			d, of := order.Digest(q, k), fmt.Sprint(q, " ", k)
			if other, twice := seen[d]; twice || len(d) != 32 {
				t.Errorf("%s: %s as %s", of, d, other)
			}
			seen[d] = of
			if order.Digest(q, k) != d {
				t.Error("not stable")
			}
		}
	}
}

func TestReasonsAreAClosedList(t *testing.T) {
	t.Parallel()
	want := []order.Reason{"sold_out", "limit", "expired", "duplicate_key", "failed", "operator", "cancelled_before_judged"}
	if got := order.Reasons(); !slices.Equal(got, want) {
		t.Fatal(got)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range commands() {
		encoded, err := c.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	for _, seed := range []string{"", "{}", `{"v":1}`, `{"v":2}`, `{"v":1,"kind":"place","user":"\u0000"}`, `{"v":1,"idempotency_key":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := order.DecodeCommand(b)
		if err != nil {
			return
		}
		encoded, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := order.DecodeCommand(encoded)
		if err != nil || again != c {
			t.Fatalf("%+v\n%+v\n%v", c, again, err)
		}
		if err := again.Verify(keyring.Ring{key(t, "k1", 'z')}); !errors.Is(err, order.ErrMAC) {
			t.Fatal("verified without the key")
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	for _, e := range events() {
		encoded, err := e.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := order.DecodeEvent(b)
		if err != nil {
			return
		}
		if _, err := e.Encode(); err != nil {
			return // a time outside of what JSON can say
		}
	})
}
