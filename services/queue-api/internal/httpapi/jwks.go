package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"
)

// readKeys publishes the public halves of the keys that sign passes, of the next and of the last one, as a JWK set. Whoever verifies with it
// knows who was admitted to what, and until when; not whether the pass was used, given up or revoked since.
func (a *API) readKeys(w http.ResponseWriter, r *http.Request) error {
	keys, err := a.passes.verifier.JWKS()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(keys)
	public(w)
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(keys)) // it answers If-None-Match
	return nil
}
