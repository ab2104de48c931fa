package ticket

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"hanjul/pkg/product"
)

// TestClaimsAreReadAsJSON: what is read without reflection is what JSON says, and the form that Sign writes is read so.
func TestClaimsAreReadAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := claims{
			KeyID: rapid.StringMatching(`[A-Za-z0-9_-]{0,32}`).Draw(t, "key"), Product: product.ID(rapid.String().Draw(t, "product")),
			User: product.UserHash(rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "user")), Place: product.Place(rapid.Int64().Draw(t, "place")),
			Issued: rapid.Int64().Draw(t, "issued"), Start: rapid.Int64().Draw(t, "start"), Promise: rapid.Int64Range(-1, 1).Draw(t, "promise"),
		}
		if rapid.Bool().Draw(t, "proper") {
			want.Product = product.ID(rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "id"))
		}
		body, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		text := string(body)
		if got, ok := readOwn(text); ok && got != want {
			t.Fatalf("%s: read as %+v", text, got)
		} else if _, err := product.ParseID(string(want.Product)); err == nil && !ok {
			t.Fatalf("%s is not read as our own", text)
		}
		// Whatever else stands there is read as JSON, or refused as it.
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		cut := rapid.IntRange(at, min(len(text), at+3)).Draw(t, "to")
		text = text[:at] + rapid.SampledFrom([]string{"", " ", "0", "-", `"`, `\`, "}", "1e3", `,"x":1`}).Draw(t, "by") + text[cut:]
		var plain claims
		plainErr := json.Unmarshal([]byte(text), &plain)
		if got, err := readClaims(text); (err == nil) != (plainErr == nil) || err == nil && got != plain {
			t.Fatalf("%s: %+v, %v; JSON says %+v, %v", text, got, err, plain, plainErr)
		}
	})
}
