// Package keyring holds the symmetric keys that tickets, order ids, user hashes and command MACs are made with.
//
// A key is one line, "kid:base64url(secret)". The package parses such lines, picks a key by its id and computes
// HMAC-SHA256; it reads no file and no environment, and its values never print their secret.
package keyring

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strings"
	"sync"
)

// ErrUnknownKey says that no key of the ring carries the asked id: it was rotated out, or is another deployment's.
var ErrUnknownKey = errors.New("unknown key id")

// secretMin is the least number of bytes of a secret: the output size of the hash, as RFC 2104 advises.
const secretMin = 32

// Key is one secret with its public id. It prints as "kid:hidden". Safe for concurrent use.
type Key struct {
	id     string
	secret []byte
	macs   *sync.Pool // of hash.Hash, keyed; keying one anew costs more than a short message
}

// Parse reads one line "kid:base64url(secret)". The id is 1–32 of [A-Za-z0-9_-]; the secret has at least 32 bytes.
// The error never repeats the secret.
func Parse(line string) (Key, error) {
	id, encoded, found := strings.Cut(strings.TrimSpace(line), ":")
	if !found || !validID(id) {
		return Key{}, errors.New("key: expected one line kid:base64url(secret), kid of 1-32 letters, digits, - or _")
	}
	secret, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return Key{}, fmt.Errorf("key %s: expected base64url after the colon", id)
	}
	if len(secret) < secretMin {
		return Key{}, fmt.Errorf("key %s: expected at least %d bytes of secret, got %d", id, secretMin, len(secret))
	}
	return newKey(id, secret), nil
}

func newKey(id string, secret []byte) Key {
	return Key{id, secret, &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// validID is compiled per call site only once: a key line is read at start-up and nowhere else.
func validID(id string) bool {
	ok, err := regexp.MatchString(`^[A-Za-z0-9_-]{1,32}$`, id)
	return ok && err == nil
}

// ID is the key's public name, carried by whatever the key signed.
func (k Key) ID() string { return k.id }

// IsZero says that no key was set.
func (k Key) IsZero() bool { return len(k.secret) == 0 }

// Sum is HMAC-SHA256 over the message: 32 bytes.
func (k Key) Sum(message []byte) []byte {
	if k.macs == nil { // the zero key
		mac := hmac.New(sha256.New, k.secret)
		mac.Write(message)
		return mac.Sum(nil)
	}
	mac := k.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool makes nothing else
	defer k.macs.Put(mac)
	mac.Reset()
	mac.Write(message)
	return mac.Sum(make([]byte, 0, sha256.Size))
}

// Equal compares a received MAC with the message's own in constant time.
func (k Key) Equal(message, mac []byte) bool { return hmac.Equal(k.Sum(message), mac) }

// Derive makes a key of the same id for another purpose: what one of the two signed, the other does not verify.
func (k Key) Derive(purpose string) Key { return newKey(k.id, k.Sum([]byte(purpose))) }

// Secret is the key's raw material, for a signature scheme that needs it (the pass's Ed25519 seed).
func (k Key) Secret() []byte { return k.secret }

// String hides the secret.
func (k Key) String() string { return k.id + ":hidden" }

// GoString hides the secret from %#v.
func (k Key) GoString() string { return k.String() }

// Ring is a set of keys of one purpose. The first signs; all of them verify, so that a key can be rotated.
type Ring []Key

// ParseRing reads keys of one purpose, each a line as for Parse, separated by line ends, blanks or commas. The error never repeats a
// secret. Two keys of one id are an error: nobody could tell what either signed.
func ParseRing(text string) (Ring, error) {
	var ring Ring
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' || r == ' ' }) {
		key, err := Parse(line)
		if err != nil {
			return nil, err
		}
		if _, err := ring.Find(key.id); err == nil {
			return nil, fmt.Errorf("key %s: expected each key id once", key.id)
		}
		ring = append(ring, key)
	}
	if len(ring) == 0 {
		return nil, errors.New("keys: expected at least one line kid:base64url(secret)")
	}
	return ring, nil
}

// Current is the key that signs, or a zero key for an empty ring.
func (r Ring) Current() Key {
	if len(r) == 0 {
		return Key{}
	}
	return r[0]
}

// Find returns the key of that id, or ErrUnknownKey.
func (r Ring) Find(id string) (Key, error) {
	for _, k := range r {
		if k.id == id {
			return k, nil
		}
	}
	return Key{}, fmt.Errorf("key %q: %w", id, ErrUnknownKey)
}
