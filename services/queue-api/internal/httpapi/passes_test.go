package httpapi

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/keyring"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// A pass that was signed here or verified before says the same as one that is verified, and only its whole text is taken for it.
func TestPassesRemembered(t *testing.T) {
	t.Parallel()
	key, err := keyring.Parse("pass:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("p", 32))))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := pass.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	says := pass.Pass{
		User: "a", Product: "shoe", Place: product.MakePlace(1, 7), OrderID: "018bcfe5-6800-7a10-8b2c-0d3e5f708192", Epoch: 2,
		Admitted: time.UnixMilli(1_800_000_000_123), IssuedAt: time.UnixMilli(1_800_000_000_123), ExpiresAt: time.UnixMilli(1_800_000_300_123),
	}
	text, err := signer.Sign(says)
	if err != nil {
		t.Fatal(err)
	}
	want, err := signer.Verifier().Verify(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, says.Told()); diff != "" {
		t.Fatal(diff)
	}
	signed, met := newPasses(signer.Verifier()), newPasses(signer.Verifier())
	signed.keep(text, says.Told())
	for range 2 {
		for name, p := range map[string]*passes{"signed": signed, "met": met} {
			got, err := p.verify(text)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Fatal(name, err, diff)
			}
			if _, err := p.verify(text[:len(text)-8] + strings.Repeat("A", 8)); err == nil {
				t.Fatalf("%s: another signature was taken", name)
			}
		}
	}
	if len(met.young) != 1 {
		t.Fatalf("%d remembered, expected the genuine one", len(met.young))
	}
}

// However many passes come, no more are remembered than twice the bound, and the newest are.
func TestPassesAreForgotten(t *testing.T) {
	t.Parallel()
	p := newPasses(pass.Verifier{})
	text := func(n int) string { return fmt.Sprintf("pass %d", n) }
	for n := range 5 * passesKept {
		p.keep(text(n), pass.Pass{Epoch: int64(n)})
		if len(p.young)+len(p.old) > 2*passesKept {
			t.Fatalf("%d and %d are remembered", len(p.young), len(p.old))
		}
		if got, err := p.verify(text(max(0, n-passesKept+1))); err != nil || got.Epoch != int64(max(0, n-passesKept+1)) {
			t.Fatalf("one of the newest is forgotten: %v, %v", got, err)
		}
	}
	if _, err := p.verify(text(0)); err == nil {
		t.Fatal("the oldest was not forgotten")
	}
}
