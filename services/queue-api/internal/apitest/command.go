package apitest

import (
	"encoding/base64"
	"strings"
	"testing"

	"hanjul/pkg/keyring"
)

// Command is the key that signs orders without a pass; the same in every bundle.
func Command(t testing.TB) keyring.Key {
	t.Helper()
	k, err := keyring.Parse("command:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("c", 32))))
	check(t, err)
	return k
}
