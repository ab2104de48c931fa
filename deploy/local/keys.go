package local

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Keys are the paths of the key files of one installation.
type Keys struct {
	// Order, User, Ticket and Command hold "kid:base64url(32 bytes)".
	Order, User, Ticket, Command string
	// Pass holds "kid:base64url(ed25519 seed)", PassJWKS its public half as a JWK set.
	Pass, PassJWKS string
	// OperatorTokens holds "name:token".
	OperatorTokens string
}

// OperatorName is the one operator that a local installation knows.
const OperatorName = "demo"

// EnsureKeys makes the key files that dir lacks, for our user's eyes only, and
// names them all. A file that is there is never written again: orders and
// tickets made with it must stay readable. Safe to repeat; not safe for two
// processes at once on one folder.
func EnsureKeys(dir string) (Keys, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Keys{}, fmt.Errorf("keys: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Keys{}, fmt.Errorf("keys: %w", err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	keys := Keys{
		Order: path("order.key"), User: path("user.key"), Ticket: path("ticket.key"), Command: path("command.key"),
		Pass: path("pass.key"), PassJWKS: path("pass.jwks.json"), OperatorTokens: path("operator.tokens"),
	}
	for _, file := range []string{keys.Order, keys.User, keys.Ticket, keys.Command} {
		if err := writeOnce(file, func() (string, error) { return keyLine(randomBytes(32)), nil }); err != nil {
			return Keys{}, err
		}
	}
	if err := writeOnce(keys.Pass, func() (string, error) { return keyLine(randomBytes(ed25519.SeedSize)), nil }); err != nil {
		return Keys{}, err
	}
	if err := writeOnce(keys.PassJWKS, func() (string, error) { return publicSet(keys.Pass) }); err != nil {
		return Keys{}, err
	}
	if err := writeOnce(keys.OperatorTokens, func() (string, error) {
		return OperatorName + ":" + base64.RawURLEncoding.EncodeToString(randomBytes(24)) + "\n", nil
	}); err != nil {
		return Keys{}, err
	}
	return keys, nil
}

// OperatorToken reads the token of OperatorName.
func (k Keys) OperatorToken() (string, error) {
	text, err := os.ReadFile(k.OperatorTokens)
	if err != nil {
		return "", fmt.Errorf("operator token: %w", err)
	}
	for _, pair := range list(strings.ReplaceAll(string(text), "\n", ",")) {
		if name, token, found := strings.Cut(pair, ":"); found && name == OperatorName {
			return token, nil
		}
	}
	return "", fmt.Errorf("operator token: %s has none for %s", k.OperatorTokens, OperatorName)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// keyLine gives a secret an id, by which it can be told from its successor.
func keyLine(secret []byte) string {
	return hex.EncodeToString(randomBytes(4)) + ":" + base64.RawURLEncoding.EncodeToString(secret) + "\n"
}

// jwk is one public Ed25519 key (RFC 8037).
type jwk struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	X   string `json:"x"`
}

// publicSet derives the JWK set of the pass key.
func publicSet(passKey string) (string, error) {
	text, err := os.ReadFile(passKey)
	if err != nil {
		return "", err
	}
	kid, encoded, _ := strings.Cut(strings.TrimSpace(string(text)), ":")
	seed, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(seed) != ed25519.SeedSize {
		return "", fmt.Errorf("%s holds no ed25519 seed", passKey)
	}
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	set, err := json.Marshal(map[string][]jwk{"keys": {{
		Kty: "OKP", Crv: "Ed25519", Use: "sig", Alg: "EdDSA", Kid: kid,
		X: base64.RawURLEncoding.EncodeToString(public),
	}}})
	if err != nil {
		return "", err
	}
	return string(set) + "\n", nil
}

// writeOnce writes a file that is not there, whole or not at all.
func writeOnce(path string, content func() (string, error)) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text, err := content()
	if err != nil {
		return fmt.Errorf("make %s: %w", filepath.Base(path), err)
	}
	making := path + ".new"
	if err := os.WriteFile(making, []byte(text), 0o600); err != nil {
		return fmt.Errorf("make %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(making, path); err != nil {
		return fmt.Errorf("make %s: %w", filepath.Base(path), err)
	}
	return nil
}
