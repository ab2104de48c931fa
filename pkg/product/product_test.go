package product_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "concert.2026_A-1", ".", "-", strings.Repeat("x", 64)} {
		if p, err := product.ParseID(good); err != nil || string(p) != good {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 65), "a b", "a/b", "a{b}", "?", "한", "a\x00", "a\n"} {
		if _, err := product.ParseID(bad); !errors.Is(err, product.ErrInvalid) || !strings.Contains(err.Error(), "product") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParseUserID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "김한줄", "a b", "a@b.example", strings.Repeat("x", 256), "👩‍👧"} {
		if u, err := product.ParseUserID(good); err != nil || string(u) != good {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 257), "a\nb", "a\x00", "\xff", "a\x7f", "\u0085"} {
		if _, err := product.ParseUserID(bad); !errors.Is(err, product.ErrInvalid) || !strings.Contains(err.Error(), "user") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func key(t testing.TB, fill string) keyring.Key {
	t.Helper()
	k, err := keyring.Parse("k1:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(fill, 32))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestHashUser(t *testing.T) {
	t.Parallel()
	h := product.HashUser(key(t, "u"), "kim")
	if h != product.HashUser(key(t, "u"), "kim") || h == product.HashUser(key(t, "v"), "kim") || h == product.HashUser(key(t, "u"), "lee") {
		t.Fatal(h)
	}
	if again, err := product.ParseUserHash(string(h)); err != nil || again != h {
		t.Fatal(again, err)
	}
	for _, bad := range []string{"", "kim", string(h) + "0", strings.ToUpper(string(h)), string(h[:31]) + "g", string(h[:30])} {
		if _, err := product.ParseUserHash(bad); !errors.Is(err, product.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A place is its incarnation and its low part, orders by both, survives a Redis score, and is read back from its text.
func TestPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inc, low := rapid.IntRange(1, product.IncMax).Draw(t, "inc"), rapid.Int64Range(0, 1<<43-1).Draw(t, "low")
		p := product.MakePlace(inc, low)
		if p.Inc() != inc || p.Low() != low {
			t.Fatalf("%d: %d, %d", p, p.Inc(), p.Low())
		}
		if float := float64(p); product.Place(float) != p {
			t.Fatalf("%d is not exact as a score", p)
		}
		if again, err := product.ParsePlace(p.String()); err != nil || again != p {
			t.Fatal(again, err)
		}
		if other := product.MakePlace(rapid.IntRange(1, inc).Draw(t, "earlier inc"), rapid.Int64Range(0, low).Draw(t, "earlier low")); other > p {
			t.Fatalf("%d is behind %d", other, p)
		}
	})
	for _, bad := range []string{"", "0", "-1", "1.5", "9007199254740992", "1e3", " 1", "x"} {
		if _, err := product.ParsePlace(bad); !errors.Is(err, product.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSettingsValidate(t *testing.T) {
	t.Parallel()
	if err := product.DefaultSettings().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*product.Settings){
		"state":          func(s *product.Settings) { s.State = "ajar" },
		"rate":           func(s *product.Settings) { s.Rate = 0 },
		"burst":          func(s *product.Settings) { s.Burst = 0 },
		"capacity":       func(s *product.Settings) { s.Capacity = -1 },
		"pass_ms":        func(s *product.Settings) { s.PassMS = 999 },
		"order_ttl_ms":   func(s *product.Settings) { s.OrderTTLMS = 86_400_001 },
		"max_len":        func(s *product.Settings) { s.MaxLen = 0 },
		"inflight_max":   func(s *product.Settings) { s.InflightMax = 0 },
		"units_per_pass": func(s *product.Settings) { s.UnitsPerPass = 0 },
		"oversub":        func(s *product.Settings) { s.Oversub = -1 },
		"max_quantity":   func(s *product.Settings) { s.MaxQuantity = 1001 },
		"user_limit":     func(s *product.Settings) { s.UserLimit = 0 },
		"absence_ms":     func(s *product.Settings) { s.AbsenceMS = 89_999 },
		"grace_ms":       func(s *product.Settings) { s.GraceMS = 999 },
		"reason":         func(s *product.Settings) { s.Reason = strings.Repeat("x", 201) },
	} {
		s := product.DefaultSettings()
		change(&s)
		if err := s.Validate(); !errors.Is(err, product.ErrInvalid) || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if got := strings.Count(product.Settings{}.Validate().Error(), "expected"); got != 12 {
		t.Errorf("%d faults at once", got)
	}
}

// A row of an older version lacks the later members and takes their defaults; what a row says, zero too, is kept.
func TestSettingsOfAnOlderRow(t *testing.T) {
	t.Parallel()
	want := product.DefaultSettings()
	var old, halted product.Settings
	if err := json.Unmarshal([]byte(`{"state":"open","rate":2}`), &old); err != nil ||
		old.AbsenceMS != want.AbsenceMS || old.GraceMS != want.GraceMS || old.OrdersHalted || old.State != product.Open || old.Rate != 2 {
		t.Fatal(old, err)
	}
	want.OrdersHalted, want.AbsenceMS, want.GraceMS = true, 0, 1000
	row, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(row, &halted); err != nil || halted != want {
		t.Fatal(halted, err)
	}
}

// All keys of a product share its slot, two products share none, and no two keys are one.
func TestKeys(t *testing.T) {
	t.Parallel()
	space := product.Keyspace{Prefix: "t:"}
	seen := map[string]string{space.Catalogue(): "catalogue", space.Wanted(): "wanted", space.Status("x"): "status"}
	for _, p := range []product.ID{"a", "b"} {
		keys := reflect.ValueOf(space.Product(p))
		for i := range keys.NumField() {
			name, field := keys.Field(i).String(), keys.Type().Field(i).Name
			if other, twice := seen[name]; twice {
				t.Errorf("%s and %s are both %q", field, other, name)
			}
			seen[name] = field
			if !strings.HasPrefix(name, "t:{"+string(p)+"}:") {
				t.Errorf("%s: %q carries no tag", field, name)
			}
		}
	}
}
