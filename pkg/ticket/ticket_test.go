package ticket_test

import (
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

func key(t testing.TB, kid, fill string) keyring.Key {
	t.Helper()
	k, err := keyring.Parse(kid + ":" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(fill, 32))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sample() ticket.Ticket {
	return ticket.Ticket{
		Product: "concert.2026_A-1", User: "00112233445566778899aabbccddeeff", Place: product.MakePlace(1, 61_000_000),
		IssuedAt: time.Unix(1_800_000_000, 0),
	}
}

// Tickets that people hold outlive a deployment: the sample was signed by the first build.
func TestGolden(t *testing.T) {
	t.Parallel()
	const path = "testdata/ticket_v1.txt"
	k := key(t, "t1", "t")
	text, err := ticket.Sign(k, sample())
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(held)), text); diff != "" {
		t.Error(diff)
	}
	got, err := ticket.Verify(keyring.Ring{key(t, "t2", "x"), k}, strings.TrimSpace(string(held)), sample().IssuedAt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Error(diff)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	k := key(t, "t1", "t")
	rapid.Check(t, func(t *rapid.T) {
		want := ticket.Ticket{
			Product: product.ID(rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "product")),
			User:    product.UserHash(rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "user")),
			Place:   product.Place(rapid.Int64Range(1, 1<<53-1).Draw(t, "place")), IssuedAt: sample().IssuedAt,
		}
		text, err := ticket.Sign(k, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ticket.Verify(keyring.Ring{k}, text, want.IssuedAt.Add(ticket.Life))
		if err != nil || got != want {
			t.Fatal(got, err)
		}
		// One changed character anywhere, and it is no ticket.
		at := rapid.IntRange(0, len(text)-1).Draw(t, "changed")
		changed := text[:at] + string(rapid.RuneFrom([]rune("AQgw.-_x09")).Draw(t, "to")) + text[at+1:]
		if changed == text || equivalent(changed, text) {
			return
		}
		if got, err := ticket.Verify(keyring.Ring{k}, changed, want.IssuedAt); !errors.Is(err, ticket.ErrInvalid) {
			t.Fatalf("%s passed as %+v (%v)", changed, got, err)
		}
	})
}

// equivalent: the last character of a base64 text has bits that mean nothing, so a few texts are one MAC.
func equivalent(a, b string) bool {
	head, mac, _ := strings.Cut(a, ".")
	head2, mac2, _ := strings.Cut(b, ".")
	x, err := base64.RawURLEncoding.DecodeString(mac)
	y, err2 := base64.RawURLEncoding.DecodeString(mac2)
	return head == head2 && err == nil && err2 == nil && string(x) == string(y)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	k := key(t, "t1", "t")
	text, err := ticket.Sign(k, sample())
	if err != nil {
		t.Fatal(err)
	}
	now := sample().IssuedAt
	body, mac, _ := strings.Cut(text, ".")
	signed := func(claims string) string {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(claims))
		return encoded + "." + base64.RawURLEncoding.EncodeToString(k.Sum([]byte(encoded)))
	}
	for name, bad := range map[string]string{
		"empty": "", "no MAC": body, "empty MAC": body + ".", "empty body": "." + mac, "spaces": " " + text, "twice": text + "." + mac,
		"not base64": "!." + mac, "no JSON": signed("kim"), "no key": signed(`{}`), "null": signed(`null`),
		"another key's id": signed(`{"k":"t2","p":"p","u":"u","n":1,"i":1}`), "long": strings.Repeat("A", 600),
	} {
		if got, err := ticket.Verify(keyring.Ring{k, key(t, "t3", "y")}, bad, now); !errors.Is(err, ticket.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, ring := range map[string]keyring.Ring{"no keys": nil, "another key of that id": {key(t, "t1", "x")}, "other ids": {key(t, "t2", "t")}} {
		if _, err := ticket.Verify(ring, text, now); !errors.Is(err, ticket.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ticket.Verify(keyring.Ring{k}, text, now.Add(ticket.Life+time.Second)); !errors.Is(err, ticket.ErrExpired) {
		t.Error(err)
	}
}

func FuzzVerify(f *testing.F) {
	k := key(f, "t1", "t")
	text, err := ticket.Sign(k, sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("e30.AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ticket.Verify(keyring.Ring{k}, s, sample().IssuedAt)
		if err == nil && got != sample() {
			t.Fatalf("%q is a ticket that nobody signed: %+v", s, got)
		}
	})
}
