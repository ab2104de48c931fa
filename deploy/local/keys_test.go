package local_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hanjul/deploy/local"
)

func keyOf(t *testing.T, path string) (kid string, secret []byte) {
	t.Helper()
	kid, encoded, found := strings.Cut(lines(t, path)[0], ":")
	if !found {
		t.Fatalf("%s has no kid", path)
	}
	secret, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(secret) != 32 {
		t.Fatalf("%s: %d bytes, %v", path, len(secret), err)
	}
	return kid, secret
}

func TestKeysAreMadeOnceAndPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	keys, err := local.EnsureKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	content := func() map[string]string {
		all := make(map[string]string)
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			info, err := file.Info()
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", file.Name(), info.Mode())
			}
			all[file.Name()] = strings.Join(lines(t, filepath.Join(dir, file.Name())), "\n")
		}
		return all
	}
	first := content()
	if len(first) != 7 {
		t.Fatalf("%d files", len(first))
	}
	if _, err := local.EnsureKeys(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range content() {
		if text != first[name] {
			t.Errorf("%s was written again", name)
		}
	}
	for _, path := range []string{keys.Order, keys.User, keys.Ticket, keys.Command} {
		keyOf(t, path)
	}
	if token, err := keys.OperatorToken(); err != nil || len(token) < 32 {
		t.Fatalf("token of %d characters, %v", len(token), err)
	}
}

func TestPublicSetBelongsToThePassKey(t *testing.T) {
	t.Parallel()
	keys, err := local.EnsureKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kid, seed := keyOf(t, keys.Pass)
	var set struct {
		Keys []struct{ Kty, Crv, Use, Alg, Kid, X string }
	}
	if err := json.Unmarshal([]byte(lines(t, keys.PassJWKS)[0]), &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 1 {
		t.Fatalf("%d keys", len(set.Keys))
	}
	key := set.Keys[0]
	if key.Kty != "OKP" || key.Crv != "Ed25519" || key.Use != "sig" || key.Alg != "EdDSA" || key.Kid != kid {
		t.Fatalf("got %+v", key)
	}
	public, err := base64.RawURLEncoding.DecodeString(key.X)
	if err != nil {
		t.Fatal(err)
	}
	signed := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte("pass"))
	if !ed25519.Verify(public, []byte("pass"), signed) {
		t.Fatal("the public key does not verify what the seed signs")
	}
}
