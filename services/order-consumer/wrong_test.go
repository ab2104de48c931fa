package main

import (
	"strings"
	"testing"

	"hanjul/deploy/local"
	"hanjul/pkg/config"
	"hanjul/pkg/config/configtest"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
)

func TestEachSettingWrong(t *testing.T) {
	t.Parallel()
	keys, err := local.EnsureKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	configtest.EachWrong(t, configtest.Service{
		Word: service, Load: func(s *config.Source) { loadConfig(s) }, Good: []string{
			"HANJUL_REDIS_ADDRS=127.0.0.1:1", "HANJUL_KAFKA_BROKERS=127.0.0.1:1", "HANJUL_POSTGRES_URL=postgres://x@127.0.0.1:1/x",
			"HANJUL_KEY_USER_FILE=" + keys.User, "HANJUL_KEY_COMMAND_FILE=" + keys.Command, "HANJUL_PASS_JWKS_FILE=" + keys.PassJWKS,
		},
		Cases: map[string]string{
			// Said where nothing uses them: they are wrong beside the good environment.
			"REDIS_MASTER": "primary", "REDIS_SENTINEL_USER": "watcher", "REDIS_SENTINEL_PASSWORD": "hush-hush-hush", "KAFKA_USER": "kim", "KAFKA_PASSWORD": "hush-hush-hush",
			"REDIS_USER": configtest.Any, "REDIS_PASSWORD": configtest.Any, "TOPIC_ORDERS": configtest.Any, "TOPIC_EVENTS": configtest.Any, "TOPIC_DEAD_LETTERS": configtest.Any, "GROUP": configtest.Any,
		},
		Ruled: []string{"KAFKA_CA_FILE", "KAFKA_CERT_FILE", "KAFKA_KEY_FILE", "KAFKA_USER", "KAFKA_PASSWORD"},
		Validate: func(environ []string) (int, string) {
			code, stdout, stderr := call(t, environ, "-validate")
			return code, stdout + stderr
		},
	})
}

// TestOtherCommandKeys: a command that the last key signed is taken, and the new one signs.
func TestOtherCommandKeys(t *testing.T) {
	t.Parallel()
	last, next := "last:"+strings.Repeat("A", 43), "next:"+strings.Repeat("B", 42)+"A"
	keys, err := config.Only([]string{"HANJUL_KEY_COMMAND=" + next, "HANJUL_KEY_COMMAND_ALSO=" + last}, service, commandKeys)
	if err != nil || len(keys) != 2 || keys.Current().ID() != "next" {
		t.Fatal(err, keys)
	}
	signer, err := keyring.Parse(last)
	if err != nil {
		t.Fatal(err)
	}
	command, err := order.Command{Kind: order.KindAdjust, ID: "restock-1", Product: "shoe", Delta: 1}.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Verify(keys); err != nil {
		t.Fatal(err)
	}
	if command.Verify(keys[:1]) == nil {
		t.Fatal("a command of a key that is gone was taken")
	}
}
