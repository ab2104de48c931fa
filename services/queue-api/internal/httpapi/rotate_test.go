package httpapi

import (
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// TestPassesOfOtherKeys: a pass that the last key signed, or the next one at another process, is taken; one of no key of ours is not.
func TestPassesOfOtherKeys(t *testing.T) {
	t.Parallel()
	signer := func(kid, fill string) *pass.Signer {
		t.Helper()
		key, err := keyring.Parse(kid + ":" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(fill, 32))))
		if err != nil {
			t.Fatal(err)
		}
		s, err := pass.NewSigner(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	now, last, foreign := signer("b", "b"), signer("a", "a"), signer("c", "c")
	api := New(nil, nil, nil, nil, nil, Keys{Passes: now, PassesAlso: last.Verifier()}, slog.New(slog.DiscardHandler), nil, Config{})
	at := time.Unix(1_800_000_000, 0)
	order, err := order.ParseID("018bcfe5-6800-7a10-8b2c-0d3e5f708192")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		signer *pass.Signer
		taken  bool
	}{{now, true}, {last, true}, {foreign, false}} {
		text, err := c.signer.Sign(pass.Pass{User: "a", Product: product.ID("shoe"), Place: 1, OrderID: order, Epoch: 1, Admitted: at, IssuedAt: at, ExpiresAt: at})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.passes.verifier.Verify(text); (err == nil) != c.taken {
			t.Error(c.taken, err)
		}
	}
}
