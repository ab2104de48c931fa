package httpapi_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hanjul/pkg/keyring"
	"hanjul/pkg/pass"
	"hanjul/services/queue-api/internal/apitest"
	"hanjul/services/queue-api/internal/httpapi"
)

// outsider verifies a pass as somebody does who has the key set, RFC 7515 and RFC 8037, and nothing of ours.
func outsider(t *testing.T, set []byte, text string) (claims map[string]any, genuine bool) {
	t.Helper()
	var keys struct{ Keys []map[string]string }
	var head map[string]string
	parts := strings.Split(text, ".")
	unpack := func(part string, into any) []byte {
		t.Helper()
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err == nil && into != nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if err := json.Unmarshal(set, &keys); err != nil || len(parts) != 3 {
		t.Fatal(err, string(set), text)
	}
	unpack(parts[0], &head)
	unpack(parts[1], &claims)
	for _, k := range keys.Keys {
		if k["kid"] == head["kid"] && k["alg"] == head["alg"] && k["kty"] == "OKP" && k["crv"] == "Ed25519" && k["use"] == "sig" {
			return claims, ed25519.Verify(unpack(k["x"], nil), []byte(parts[0]+"."+parts[1]), unpack(parts[2], nil))
		}
	}
	return claims, false
}

// keysOf fetches the key set of a running server.
func keysOf(t *testing.T, base, etag string) (status int, h http.Header, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/.well-known/jwks.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err = io.ReadAll(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, body
}

// TestPublishedKeys verifies passes with the published set alone, without Redis (case 9), before, during and after a rotation of the key that signs.
func TestPublishedKeys(t *testing.T) {
	t.Parallel()
	signer := func(kid string) *pass.Signer {
		t.Helper()
		key, err := keyring.Parse(kid + ":" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(kid[:1], 32))))
		if err != nil {
			t.Fatal(err)
		}
		s, err := pass.NewSigner(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	last, next := signer("last"), signer("next")
	// The three rollouts: the next key is published, signs, and stands alone.
	stages := []struct {
		signs *pass.Signer
		also  pass.Verifier
	}{{last, nil}, {last, next.Verifier()}, {next, last.Verifier()}, {next, nil}}
	bundles := make([]*apitest.Bundle, len(stages))
	sets, etags, passes := make([][]byte, len(stages)), make([]string, len(stages)), make([]string, len(stages))
	for i, stage := range stages {
		b := apitest.New(t, apitest.Options{Keys: func(k *httpapi.Keys) { k.Passes, k.PassesAlso = stage.signs, stage.also }})
		server := httptest.NewServer(b.Handler)
		t.Cleanup(server.Close)
		p := b.Admitted(t, "김 서연")
		bundles[i], passes[i] = b, p.Pass
		status, h, set := keysOf(t, server.URL, "")
		if status != http.StatusOK || h.Get("Cache-Control") != "public, max-age=300" || h.Get("Content-Type") != "application/jwk-set+json" || len(h.Get("ETag")) < 10 {
			t.Fatal(status, h)
		}
		sets[i], etags[i] = set, h.Get("ETag")
		if status, h, body := keysOf(t, server.URL, etags[i]); status != http.StatusNotModified || len(body) != 0 || h.Get("ETag") != etags[i] {
			t.Fatal(status, string(body))
		}
		if status, _, _ := keysOf(t, server.URL, `"another"`); status != http.StatusOK {
			t.Fatal(status)
		}
		claims, genuine := outsider(t, set, p.Pass)
		if !genuine || claims["sub"] != "김 서연" || claims["product"] != "shoe" || claims["jti"] != string(p.OrderID(t)) {
			t.Fatal(genuine, claims)
		}
		if _, genuine := outsider(t, set, p.Pass[:len(p.Pass)-4]+"AAAA"); genuine {
			t.Fatal("a forged pass is taken")
		}
		private := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("l", 32)))
		if strings.Contains(string(set), private) || strings.Contains(string(set), `"d"`) {
			t.Fatal("a secret is published")
		}
	}
	// A set that was fetched one stage earlier or later knows the pass; only after two it need not.
	for i, text := range passes {
		for j, set := range sets {
			if _, genuine := outsider(t, set, text); !genuine && max(i-j, j-i) <= 1 {
				t.Errorf("the pass of stage %d is not known by the set of stage %d", i, j)
			}
		}
	}
	if _, genuine := outsider(t, sets[3], passes[0]); genuine {
		t.Error("the key that was taken out is still published")
	}
	if etags[1] != etags[2] || etags[0] == etags[1] || etags[0] == etags[3] {
		t.Error("the same keys have the same ETag, others another:", etags)
	}
	// The pass of before still buys, at a process that signs with the next key.
	b := bundles[2]
	p := b.Admitted(t, "b")
	text, err := last.Sign(p.Claims(t))
	if err != nil {
		t.Fatal(err)
	}
	p.Pass = text
	want(t, p.Order(t, 1, ""), http.StatusAccepted, nil)
}
