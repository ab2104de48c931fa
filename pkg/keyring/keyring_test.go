package keyring_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hanjul/pkg/keyring"
)

func line(kid, secret string) string {
	return kid + ":" + base64.RawURLEncoding.EncodeToString([]byte(secret))
}

var secret = strings.Repeat("s", 32)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, good := range []string{line("k1", secret), " " + line("A-b_9", secret) + "=\n", line(strings.Repeat("k", 32), secret+secret)} {
		k, err := keyring.Parse(good)
		if err != nil || k.IsZero() || !strings.HasPrefix(strings.TrimSpace(good), k.ID()+":") {
			t.Errorf("%q: %v, %v", good, k, err)
		}
	}
	for _, bad := range []string{
		"", "k1", ":" + line("", secret), line("", secret), line("k 1", secret), line("k1", secret[:31]), line(strings.Repeat("k", 33), secret),
		"k1:!" + secret, line("k1\nk2", secret), "k1:" + strings.Repeat("+/", 32),
	} {
		k, err := keyring.Parse(bad)
		if err == nil || !k.IsZero() {
			t.Errorf("%q passed", bad)
			continue
		}
		if _, encoded, _ := strings.Cut(bad, ":"); len(encoded) > 8 && strings.Contains(err.Error(), encoded) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}

// The MAC is HMAC-SHA256; the value was computed by another implementation.
func TestSum(t *testing.T) {
	t.Parallel()
	k, err := keyring.Parse(line("k1", secret))
	if err != nil {
		t.Fatal(err)
	}
	const want = "2ddf346453159261f2c038245b04289adf6eb63a6f739901704202593f41dcd7"
	got := hex.EncodeToString(k.Sum([]byte("what do ya want for nothing?")))
	if got != want || !k.Equal([]byte("what do ya want for nothing?"), k.Sum([]byte("what do ya want for nothing?"))) {
		t.Fatal(got)
	}
	if k.Equal([]byte("other"), k.Sum([]byte("what do ya want for nothing?"))) || k.Equal(nil, nil) {
		t.Fatal("a wrong MAC passed")
	}
}

func TestSecretIsHidden(t *testing.T) {
	t.Parallel()
	k, err := keyring.Parse(line("k1", secret))
	if err != nil {
		t.Fatal(err)
	}
	ring := keyring.Ring{k}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, v := range []any{k, ring, struct{ K keyring.Key }{k}} {
			text := fmt.Sprintf(format, v)
			if strings.Contains(text, secret) || strings.Contains(text, "115") || strings.Contains(text, "0x73") {
				t.Errorf("%s prints the secret: %s", format, text)
			}
		}
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	k, err := keyring.Parse(line("a", strings.Repeat("s", 32)))
	if err != nil {
		t.Fatal(err)
	}
	one, other := k.Derive("one"), k.Derive("other")
	if one.ID() != "a" || !one.Equal([]byte("x"), k.Derive("one").Sum([]byte("x"))) {
		t.Fatal("not the same key again")
	}
	for _, not := range []keyring.Key{k, other} {
		if not.Equal([]byte("x"), one.Sum([]byte("x"))) {
			t.Fatal("one purpose's MAC is another's")
		}
	}
}

func TestRing(t *testing.T) {
	t.Parallel()
	if k := (keyring.Ring{}).Current(); !k.IsZero() {
		t.Fatal(k)
	}
	a, errA := keyring.Parse(line("a", secret))
	b, errB := keyring.Parse(line("b", secret+"b"))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	ring := keyring.Ring{b, a}
	if ring.Current().ID() != "b" {
		t.Fatal("the first signs")
	}
	if k, err := ring.Find("a"); err != nil || k.ID() != "a" {
		t.Fatal(k, err)
	}
	for _, id := range []string{"", "c", "A"} {
		if _, err := ring.Find(id); !errors.Is(err, keyring.ErrUnknownKey) {
			t.Fatal(err)
		}
	}
}

func TestParseRing(t *testing.T) {
	t.Parallel()
	a, b := line("a", secret), line("b", secret+"b")
	for _, good := range []string{a + "," + b, a + "\n" + b + "\n", " " + a + ",\r\n" + b} {
		ring, err := keyring.ParseRing(good)
		if err != nil || len(ring) != 2 || ring.Current().ID() != "a" {
			t.Fatal(ring, err)
		}
	}
	for _, bad := range []string{"", ",", "a", a + "," + line("a", secret+"c"), a + ",b:!"} {
		ring, err := keyring.ParseRing(bad)
		if err == nil || ring != nil {
			t.Errorf("%q passed", bad)
		} else if _, encoded, _ := strings.Cut(a, ":"); strings.Contains(err.Error(), encoded) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}
