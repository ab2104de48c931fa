package httpapi

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

func ringOf(t testing.TB, ids ...string) keyring.Ring {
	t.Helper()
	var ring keyring.Ring
	for _, id := range ids {
		k, err := keyring.Parse(id + ":" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(id[:1], 32))))
		if err != nil {
			t.Fatal(err)
		}
		ring = append(ring, k)
	}
	return ring
}

// TestStreamTokens: what was sealed is opened, the same text each time, by every key of the ring, until it expires; nothing else is.
func TestStreamTokens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_007, 0)
	tokens, later, other := newStreamTokens(ringOf(t, "a")), newStreamTokens(ringOf(t, "b", "a")), newStreamTokens(ringOf(t, "b"))
	rapid.Check(t, func(t *rapid.T) {
		s := streamToken{
			user:    product.UserID(rapid.StringN(1, 64, 256).Draw(t, "user")),
			expires: streamTokenExpiry(now),
			ticket: ticket.Ticket{
				Product: product.ID(rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "product")),
				Place:   product.Place(rapid.Int64Range(1, 1<<53-1).Draw(t, "place")), IssuedAt: now,
				Start: rapid.Int64Range(0, 1<<40).Draw(t, "start"), Promise: rapid.Int64Range(0, 1<<40).Draw(t, "promise"),
			},
		}
		text := tokens.seal(s)
		if text != tokens.seal(s) || len(text) > streamTokenMax {
			t.Fatal(text)
		}
		if len(s.user) > 3 && strings.Contains(text, string(s.user)) {
			t.Fatal("the person can be read")
		}
		for _, by := range []*streamTokens{tokens, later} {
			if got, err := by.open(text, s.expires.Add(-time.Second)); err != nil || got != s {
				t.Fatalf("%+v, %v; want %+v", got, err, s)
			}
			if _, err := by.open(text, s.expires); !errors.Is(err, errStreamTokenExpired) {
				t.Fatal(err)
			}
		}
		if _, err := other.open(text, now); !errors.Is(err, errStreamTokenInvalid) {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(text)-2).Draw(t, "changed") // the last character has bits that mean nothing
		changed := text[:at] + string(rapid.RuneFrom([]rune("AQgw.-_x09b")).Draw(t, "to")) + text[at+1:]
		if _, err := later.open(changed, now); changed != text && !errors.Is(err, errStreamTokenInvalid) {
			t.Fatal(changed, err)
		}
	})
	if left := streamTokenExpiry(now).Sub(now); left > streamTokenLife || left < streamTokenLife-streamTokenStep {
		t.Fatal(left)
	}
}

// TestTokensAreNoTickets, nor the reverse, though both are made with the same ring.
func TestTokensAreNoTickets(t *testing.T) {
	t.Parallel()
	ring, now := ringOf(t, "a"), time.Now()
	proof := ticket.Ticket{Product: "shoe", User: "00112233445566778899aabbccddeeff", Place: 1, IssuedAt: now}
	text, err := ticket.Sign(ring.Current(), proof)
	if err != nil {
		t.Fatal(err)
	}
	tokens := newStreamTokens(ring)
	for _, bad := range []string{"", ".", "a.", "a.AAAA", text, "a." + text, strings.Repeat("a", 2000), "b." + strings.Repeat("A", 100)} {
		if _, err := tokens.open(bad, now); !errors.Is(err, errStreamTokenInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	token := tokens.seal(streamToken{user: "a", ticket: proof, expires: streamTokenExpiry(now)})
	if _, err := ticket.Verify(ring, token, now); !errors.Is(err, ticket.ErrInvalid) {
		t.Fatal(err)
	}
}
