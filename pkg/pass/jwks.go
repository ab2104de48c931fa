package pass

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// JWKS gives the keys as a JWK set, in the order of their ids, as ParseJWKS reads it: the same keys give the same bytes. Nothing in it is secret.
func (v Verifier) JWKS() ([]byte, error) {
	set := jwkSet{Keys: []jwk{}}
	for _, id := range slices.Sorted(maps.Keys(v)) {
		set.Keys = append(set.Keys, jwk{"OKP", "Ed25519", "sig", "EdDSA", id, base64.RawURLEncoding.EncodeToString(v[id])})
	}
	b, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("write pass keys: %w", err)
	}
	return b, nil
}
