package pass_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

func key(t testing.TB, kid, fill string) keyring.Key {
	t.Helper()
	k, err := keyring.Parse(kid + ":" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(fill, ed25519.SeedSize))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signer(t testing.TB, kid, fill string) *pass.Signer {
	t.Helper()
	s, err := pass.NewSigner(key(t, kid, fill))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sample() pass.Pass {
	return pass.Pass{
		User: "김한줄@example.org", Product: "concert.2026_A-1", Place: product.MakePlace(1, 61_000_000),
		OrderID: "018bcfe5-6800-7a10-8b2c-0d3e5f708192", Epoch: 1,
		Admitted: time.UnixMilli(1_800_000_000_123), IssuedAt: time.Unix(1_800_000_000, 0), ExpiresAt: time.Unix(1_800_000_300, 0),
	}
}

func sign(t testing.TB, s *pass.Signer, p pass.Pass) string {
	t.Helper()
	text, err := s.Sign(p)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Passes lie in the log for as long as orders do: the sample was signed by the first build, its keys were published by it.
func TestGolden(t *testing.T) {
	t.Parallel()
	s := signer(t, "p1", "p")
	held, err := os.ReadFile("testdata/pass_v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(held)), sign(t, s, sample())); diff != "" {
		t.Error(diff)
	}
	set, err := os.ReadFile("testdata/jwks_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	published, err := pass.ParseJWKS(set)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Verifier()["p1"], published["p1"]); diff != "" || len(published) != 2 {
		t.Error(len(published), diff)
	}
	for _, v := range []pass.Verifier{s.Verifier(), published} {
		got, err := v.Verify(strings.TrimSpace(string(held)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sample(), got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := signer(t, "p1", "p")
	rapid.Check(t, func(t *rapid.T) {
		want := sample()
		user := rapid.StringN(1, 64, 256).Draw(t, "user")
		u, err := product.ParseUserID(user)
		if err != nil {
			return
		}
		want.User = u
		want.Product = product.ID(rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "product"))
		want.Place = product.Place(rapid.Int64Range(1, 1<<53-1).Draw(t, "place"))
		want.OrderID = order.ID(rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).Draw(t, "id"))
		text, err := s.Sign(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Verifier().Verify(text)
		if err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	})
}

// The expiry in the text is never earlier than the lease's end.
func TestExpiryIsRoundedUp(t *testing.T) {
	t.Parallel()
	s := signer(t, "p1", "p")
	p := sample()
	p.ExpiresAt = p.ExpiresAt.Add(time.Millisecond)
	got, err := s.Verifier().Verify(sign(t, s, p))
	if err != nil || !got.ExpiresAt.Equal(sample().ExpiresAt.Add(time.Second)) {
		t.Fatal(got.ExpiresAt, err)
	}
	old := sample()
	old.ExpiresAt = time.Unix(1, 0)
	if _, err := s.Verifier().Verify(sign(t, s, old)); err != nil {
		t.Fatal("expiry is the caller's business", err)
	}
}

// forge makes a JWT of any header and claims with any signature.
func forge(header, claims any, signature func(text []byte) []byte) string {
	h, errH := json.Marshal(header)
	c, errC := json.Marshal(claims)
	if errH != nil || errC != nil {
		panic(errors.Join(errH, errC))
	}
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature([]byte(text)))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := signer(t, "p1", "p")
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("p", ed25519.SeedSize)))
	genuine := func(text []byte) []byte { return ed25519.Sign(private, text) }
	claims := func(change func(map[string]any)) map[string]any {
		m := map[string]any{
			"iss": "hanjul", "sub": "kim", "product": "p", "place": 7, "jti": string(sample().OrderID), "pass_epoch": 1, "adm": 1, "iat": 1, "exp": 2,
		}
		if change != nil {
			change(m)
		}
		return m
	}
	head := func(alg, kid string) map[string]string {
		return map[string]string{"alg": alg, "typ": "JWT", "kid": kid}
	}
	if _, err := s.Verifier().Verify(forge(head("EdDSA", "p1"), claims(nil), genuine)); err != nil {
		t.Fatal("the forge must make genuine passes too", err)
	}
	public := s.Verifier()["p1"]
	text := sign(t, s, sample())
	parts := strings.Split(text, ".")
	other := sign(t, signer(t, "p1", "x"), sample())
	bad := map[string]string{
		"empty": "", "dots": "..", "two parts": parts[0] + "." + parts[1], "four parts": text + ".AAAA", "spaces": " " + text,
		"alg none":              forge(head("none", "p1"), claims(nil), func([]byte) []byte { return nil }),
		"alg None, signed":      forge(head("None", "p1"), claims(nil), genuine),
		"alg of another scheme": forge(head("HS256", "p1"), claims(nil), genuine),
		"public key as secret": forge(head("HS256", "p1"), claims(nil), func(text []byte) []byte {
			mac := hmac.New(sha256.New, public)
			mac.Write(text)
			return mac.Sum(nil)
		}),
		"no alg":                    forge(map[string]string{"kid": "p1"}, claims(nil), genuine),
		"other kid":                 forge(head("EdDSA", "p2"), claims(nil), genuine),
		"no kid":                    forge(head("EdDSA", ""), claims(nil), genuine),
		"another key of that kid":   other,
		"another's signature":       parts[0] + "." + parts[1] + "." + strings.Split(other, ".")[2],
		"another's claims":          parts[0] + "." + strings.Split(sign(t, s, forUser("lee")), ".")[1] + "." + parts[2],
		"no signature":              parts[0] + "." + parts[1] + ".",
		"short signature":           forge(head("EdDSA", "p1"), claims(nil), func(text []byte) []byte { return genuine(text)[:63] }),
		"zero signature":            forge(head("EdDSA", "p1"), claims(nil), func([]byte) []byte { return make([]byte, 64) }),
		"not base64":                parts[0] + "." + parts[1] + ".!",
		"header no JSON":            "e." + parts[1] + "." + parts[2],
		"other issuer":              forge(head("EdDSA", "p1"), claims(func(m map[string]any) { m["iss"] = "shop" }), genuine),
		"no user":                   forge(head("EdDSA", "p1"), claims(func(m map[string]any) { m["sub"] = "" }), genuine),
		"user of control character": forge(head("EdDSA", "p1"), claims(func(m map[string]any) { m["sub"] = "a\x00" }), genuine),
		"no product":                forge(head("EdDSA", "p1"), claims(func(m map[string]any) { delete(m, "product") }), genuine),
		"no place":                  forge(head("EdDSA", "p1"), claims(func(m map[string]any) { m["place"] = 0 }), genuine),
		"no order":                  forge(head("EdDSA", "p1"), claims(func(m map[string]any) { m["jti"] = "x" }), genuine),
		"claims of other types":     forge(head("EdDSA", "p1"), claims(func(m map[string]any) { m["place"] = "7" }), genuine),
		"claims no object":          forge(head("EdDSA", "p1"), []int{1}, genuine),
		"too long":                  text + strings.Repeat("A", 4096),
	}
	for name, text := range bad {
		if got, err := s.Verifier().Verify(text); !errors.Is(err, pass.ErrInvalid) || got != (pass.Pass{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	names, texts := []string{"genuine"}, []string{text}
	for name, text := range bad {
		names, texts = append(names, name), append(texts, text)
	}
	names, texts = append(names, "genuine too"), append(texts, sign(t, s, forUser("lee")))
	got, faults := s.Verifier().VerifyMany(texts, each)
	for i, name := range names {
		want, err := s.Verifier().Verify(texts[i])
		if got[i] != want || !errors.Is(faults[i], err) || (err == nil) != strings.HasPrefix(name, "genuine") {
			t.Errorf("%s among many: %+v, %v; alone %+v, %v", name, got[i], faults[i], want, err)
		}
	}
	for name, v := range map[string]pass.Verifier{"no keys": nil, "foreign keys": signer(t, "p1", "x").Verifier()} {
		if _, err := v.Verify(text); !errors.Is(err, pass.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// each is the plain way of asking for many.
func each(key ed25519.PublicKey, texts, signatures [][]byte) bool {
	for i := range texts {
		if !ed25519.Verify(key, texts[i], signatures[i]) {
			return false
		}
	}
	return true
}

// Those of one key are asked for together, once; what is refused together is asked for alone, so that a forged pass spoils no other's.
func TestVerifyMany(t *testing.T) {
	t.Parallel()
	one, two := signer(t, "p1", "p"), signer(t, "p2", "q")
	both := one.Verifier()
	both["p2"] = two.Verifier()["p2"]
	var texts []string
	for _, s := range []*pass.Signer{one, two} {
		for _, user := range []product.UserID{"kim", "lee", "park"} {
			texts = append(texts, sign(t, s, forUser(user)))
		}
	}
	asked := 0
	for _, says := range []bool{true, false} {
		got, faults := both.VerifyMany(texts, func(_ ed25519.PublicKey, texts, _ [][]byte) bool {
			asked += len(texts)
			return says
		})
		for i := range texts {
			if faults[i] != nil || got[i].User != forUser([]product.UserID{"kim", "lee", "park"}[i%3]).User {
				t.Errorf("together says %v: %+v, %v", says, got[i], faults[i])
			}
		}
	}
	if asked != 2*len(texts) {
		t.Errorf("asked for %d together, want %d", asked, 2*len(texts))
	}
	if got, faults := both.VerifyMany(nil, each); len(got)+len(faults) != 0 {
		t.Error(got, faults)
	}
}

func forUser(u product.UserID) pass.Pass {
	p := sample()
	p.User = u
	return p
}

// A pass of no place is genuine and told apart from every other, alone and among many; a place and a nonce, or neither, is none.
func TestPlaceless(t *testing.T) {
	t.Parallel()
	s := signer(t, "k1", "a")
	p := sample()
	p.Place, p.Nonce = 0, "AAAAAAAAAAAAAAAAAAAAAA"
	text, err := s.Sign(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Verifier().Verify(text)
	if !errors.Is(err, pass.ErrPlaceless) || errors.Is(err, pass.ErrInvalid) || got != p.Told() {
		t.Fatal(got, err)
	}
	if _, err := signer(t, "k1", "b").Verifier().Verify(text); !errors.Is(err, pass.ErrInvalid) {
		t.Fatal("a foreign signature:", err)
	}
	placed, err := s.Sign(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, genuine := range []bool{true, false} { // together, and each alone
		_, faults := s.Verifier().VerifyMany([]string{placed, text, placed}, func(ed25519.PublicKey, [][]byte, [][]byte) bool { return genuine })
		if faults[0] != nil || !errors.Is(faults[1], pass.ErrPlaceless) || faults[2] != nil {
			t.Fatal(faults)
		}
	}
	for _, wrong := range []pass.Pass{{Place: 1, Nonce: p.Nonce}, {Place: 0, Nonce: p.Nonce[1:]}, {Place: 0}, {Place: -1, Nonce: p.Nonce}} {
		p.Place, p.Nonce = wrong.Place, wrong.Nonce
		text, err := s.Sign(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Verifier().Verify(text); !errors.Is(err, pass.ErrInvalid) {
			t.Errorf("place %d, nonce %q: %v", p.Place, p.Nonce, err)
		}
	}
}

func TestNewSignerWantsASeed(t *testing.T) {
	t.Parallel()
	long, err := keyring.Parse("k:" + base64.RawURLEncoding.EncodeToString(make([]byte, 64)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pass.NewSigner(long); err == nil || strings.Contains(err.Error(), "AAAA") {
		t.Fatal(err)
	}
}

func TestParseJWKS(t *testing.T) {
	t.Parallel()
	x := base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize))
	okp := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":"a","x":%q}`, x)
	if v, err := pass.ParseJWKS([]byte(`{"keys":[{"kty":"RSA","kid":"r","n":"AQAB"},` + okp + `]}`)); err != nil || len(v) != 1 {
		t.Fatal(v, err)
	}
	for _, bad := range []string{
		``, `[]`, `{}`, `{"keys":[]}`, `{"keys":[{"kty":"RSA"}]}`, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AA"}]}`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"!"}]}`, strings.Replace(`{"keys":[`+okp+`]}`, `"a"`, `""`, 1),
	} {
		if v, err := pass.ParseJWKS([]byte(bad)); err == nil {
			t.Errorf("%s: %v", bad, v)
		}
	}
}

func FuzzVerify(f *testing.F) {
	s := signer(f, "p1", "p")
	f.Add(sign(f, s, sample()))
	f.Add(forge(map[string]string{"alg": "none"}, map[string]any{}, func([]byte) []byte { return nil }))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := s.Verifier().Verify(text)
		if err == nil && got != sample() {
			t.Fatalf("%q is a pass that nobody signed: %+v", text, got)
		}
	})
}
