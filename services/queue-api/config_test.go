package main

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"hanjul/pkg/config"
)

// environment is a whole one, of secrets that are no secrets.
func environment(changes ...string) []string {
	secret := ":" + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	return slices.Concat(changes, []string{
		"HANJUL_IDENTITY=local", "HANJUL_REDIS_ADDRS=127.0.0.1:1", "HANJUL_KAFKA_BROKERS=127.0.0.1:1",
		"HANJUL_KEY_ORDER=o" + secret, "HANJUL_KEY_USER=u" + secret, "HANJUL_KEY_TICKET=t" + secret, "HANJUL_KEY_PASS=p" + secret,
		"HANJUL_KEY_COMMAND=c" + secret,
	})
}

func TestLoadConfig(t *testing.T) {
	t.Parallel()
	faults := func(t *testing.T, changes ...string) string {
		t.Helper()
		source := config.NewSource(environment(changes...), service)
		loadConfig(source)
		if err := source.Err(); err != nil {
			return err.Error()
		}
		return ""
	}

	t.Run("AWholeEnvironmentIsFine", func(t *testing.T) {
		t.Parallel()
		if text := faults(t); text != "" {
			t.Fatal(text)
		}
	})

	t.Run("NoIdentityIsAFault", func(t *testing.T) {
		t.Parallel()
		without := slices.DeleteFunc(environment(), func(entry string) bool { return strings.HasPrefix(entry, "HANJUL_IDENTITY=") })
		var stdout, stderr bytes.Buffer
		if code := run(nil, without, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "HANJUL_API_IDENTITY") {
			t.Fatal(code, stderr.String())
		}
	})

	t.Run("EveryFaultIsToldAndNoSecret", func(t *testing.T) {
		t.Parallel()
		text := faults(t, "HANJUL_API_IDENTITY=token", "HANJUL_KEY_ORDER=hush", "HANJUL_API_KEY_PREFIX=a{b}", "HANJUL_API_DRAIN=1s", "HANJUL_API_LITSEN=:1",
			"HANJUL_KAFKA_REPLICATION=2", "HANJUL_KAFKA_MIN_INSYNC=3")
		for _, part := range []string{"HANJUL_KAFKA_MIN_INSYNC: expected at most KAFKA_REPLICATION (2)", "HANJUL_API_IDENTITY", "HANJUL_KEY_ORDER", "HANJUL_API_KEY_PREFIX", "HANJUL_API_DRAIN", "HANJUL_API_LITSEN"} {
			if !strings.Contains(text, part) {
				t.Errorf("nothing about %s in %s", part, text)
			}
		}
		if strings.Contains(text, "hush") {
			t.Error("a secret is shown", text)
		}
	})

	t.Run("OriginsAsBrowsersWriteThem", func(t *testing.T) {
		t.Parallel()
		if text := faults(t, "HANJUL_API_ORIGINS=https://shop.example,http://localhost:3000"); text != "" {
			t.Fatal(text)
		}
		for _, wrong := range []string{"shop.example", "https://shop.example/", "*"} {
			if text := faults(t, "HANJUL_API_ORIGINS=https://shop.example,"+wrong); !strings.Contains(text, "HANJUL_API_ORIGINS: ") || !strings.Contains(text, wrong) {
				t.Error(wrong, text)
			}
		}
	})

	t.Run("ValidateVersionHelpAndAWrongFlag", func(t *testing.T) {
		t.Parallel()
		for arg, want := range map[string]struct {
			code int
			text string
		}{
			"-validate": {0, "settings: ok"}, "-version": {0, "queue-api "}, "-help": {0, "HANJUL_API_LISTEN"},
			"healthcheck": {exitFailed, "queue-api: "}, "-no": {exitUsage, "no"}, "more": {exitUsage, "more"},
		} {
			var out bytes.Buffer
			if code := run([]string{arg}, environment("HANJUL_ADMIN_LISTEN=127.0.0.1:1"), &out, &out); code != want.code || !strings.Contains(out.String(), want.text) {
				t.Errorf("%s: %d %s", arg, code, out.String())
			}
		}
	})
}

// TestOtherKeys: the key that signs and those that are taken beside it.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	other := func(kid string) string {
		return kid + ":" + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32))
	}
	source := config.NewSource(environment("HANJUL_KEY_TICKET_ALSO="+other("t0")+","+other("t2"), "HANJUL_KEY_PASS_ALSO="+other("p0")), service)
	cfg := loadConfig(source)
	if err := source.Err(); err != nil || cfg.Tickets.ID() != "t" || len(cfg.TicketsAlso) != 2 || len(cfg.PassesAlso) != 1 || cfg.PassesAlso["p0"] == nil {
		t.Fatal(err, cfg.TicketsAlso, cfg.PassesAlso)
	}
	source = config.NewSource(environment("HANJUL_KEY_TICKET_ALSO="+other("t")), service)
	loadConfig(source)
	if err := source.Err(); err == nil || !strings.Contains(err.Error(), "HANJUL_KEY_TICKET_ALSO: expected other key ids than that of KEY_TICKET, found t") {
		t.Fatal(err)
	}
}
