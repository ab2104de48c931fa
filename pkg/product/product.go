// Package product holds the words that everything else is said in: product ids, user ids and their hashes, places,
// a product's settings, and the names of its Redis keys. It imports the standard library and the keyring only, does no I/O, and
// decides nothing; every other package may import it.
package product

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"hanjul/pkg/keyring"
)

// ID names a product: 1–64 of [A-Za-z0-9._-]. It is never used again once its product was made.
type ID string

// ErrInvalid is wrapped by every parse error of this package; the text names the field and what was expected.
var ErrInvalid = errors.New("invalid")

// ParseID checks a product id that came from outside.
func ParseID(s string) (ID, error) {
	if len(s) < 1 || len(s) > 64 {
		return "", fmt.Errorf("product: expected 1-64 characters, got %d: %w", len(s), ErrInvalid)
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return "", fmt.Errorf("product: expected only letters, digits and . _ - : %w", ErrInvalid)
		}
	}
	return ID(s), nil
}

// UserID is the identity that the shop knows a person by: 1–256 bytes of UTF-8 without control characters. It is
// personal data: it travels in the pass and the command and is kept by the ledger, and never reaches Redis or a log.
type UserID string

// ParseUserID checks a user id that came from outside.
func ParseUserID(s string) (UserID, error) {
	if len(s) < 1 || len(s) > 256 {
		return "", fmt.Errorf("user: expected 1-256 bytes, got %d: %w", len(s), ErrInvalid)
	}
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("user: expected UTF-8: %w", ErrInvalid)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return "", fmt.Errorf("user: expected no control characters: %w", ErrInvalid)
		}
	}
	return UserID(s), nil
}

// UserHash is what Redis and the order id know of a person: a 16-byte keyed hash in lower-case hex (32 characters).
// Its key is not rotated while a product lives.
type UserHash string

// HashUser derives the hash: the first 16 bytes of HMAC-SHA256(K_user, id).
func HashUser(key keyring.Key, id UserID) UserHash {
	return UserHash(hex.EncodeToString(key.Sum([]byte(id))[:16]))
}

// ParseUserHash checks a hash that came from a ticket or from Redis.
func ParseUserHash(s string) (UserHash, error) {
	if b, err := hex.DecodeString(s); err != nil || len(b) != 16 || hex.EncodeToString(b) != s {
		return "", fmt.Errorf("user hash: expected 32 lower-case hex digits: %w", ErrInvalid)
	}
	return UserHash(s), nil
}

// Place is a person's number in the line: unique, increasing, permanent. It is inc·2^43 + low, where low counts at
// least the microseconds since the opening, and stays below 2^53, so that a Redis score holds it exactly.
type Place int64

const (
	lowBits  = 43
	lowMask  = 1<<lowBits - 1
	placeMax = 1<<53 - 1
	// IncMax is the highest incarnation a line can reach before its places end.
	IncMax = 1023
)

// MakePlace joins an incarnation (1–IncMax) and a low part.
func MakePlace(inc int, low int64) Place { return Place(int64(inc)<<lowBits + low) }

// ParsePlace checks a place in decimal, as Redis and tickets carry it.
func ParsePlace(s string) (Place, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > placeMax {
		return 0, fmt.Errorf("place: expected a whole number from 1 to 2^53-1: %w", ErrInvalid)
	}
	return Place(n), nil
}

// Inc is the incarnation of the line that gave the place out.
func (p Place) Inc() int { return int(int64(p) >> lowBits) }

// Low is the place within its incarnation, at least the microseconds between the opening and the join.
func (p Place) Low() int64 { return int64(p) & lowMask }

// String is the decimal form that goes to Redis, tickets and formulas.
func (p Place) String() string { return strconv.FormatInt(int64(p), 10) }
