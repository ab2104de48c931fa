package operator

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// tokenMin is the least length of a token: below it guessing is cheap.
const tokenMin = 16

// Tokens are the operators' bearer tokens by name. They are kept as digests, print nothing and compare in constant time.
type Tokens []token

type token struct {
	name   string
	digest [sha256.Size]byte
}

// ParseTokens reads "name:token,name:token". A name is 1–64 of [A-Za-z0-9._-] and stands in the audit trail; a token has
// at least 16 visible ASCII characters, no comma. One name may have several tokens, so that one can be changed; two names may not
// share one. The errors name the entry by its number and never repeat a token.
func ParseTokens(text string) (Tokens, error) {
	var tokens Tokens
	var faults []error
	fault := func(i int, expected string) {
		faults = append(faults, fmt.Errorf("entry %d: expected %s", i+1, expected))
	}
	for i, entry := range strings.Split(strings.TrimSpace(text), ",") {
		name, secret, found := strings.Cut(strings.TrimSpace(entry), ":")
		switch {
		case !found || !isName(name):
			fault(i, "name:token, the name of 1-64 letters, digits, . _ or -")
			continue
		case len(secret) < tokenMin || !isVisible(secret):
			fault(i, fmt.Sprintf("a token of at least %d visible ASCII characters", tokenMin))
			continue
		}
		t := token{name, sha256.Sum256([]byte(secret))}
		if slices.ContainsFunc(tokens, func(o token) bool { return o.digest == t.digest }) {
			fault(i, "a token that no other entry has")
			continue
		}
		tokens = append(tokens, t)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return tokens, nil
}

// Operator returns the name whose token the request carries as Authorization: Bearer, and whether there is one. It looks
// at every token whatever it finds.
func (t Tokens) Operator(r *http.Request) (string, bool) {
	scheme, secret, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	digest, name := sha256.Sum256([]byte(strings.TrimSpace(secret))), ""
	for _, known := range t {
		if subtle.ConstantTimeCompare(known.digest[:], digest[:]) == 1 {
			name = known.name
		}
	}
	return name, name != ""
}

// String hides everything but how many there are.
func (t Tokens) String() string { return fmt.Sprintf("%d tokens", len(t)) }

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
