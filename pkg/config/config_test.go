package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/config"
)

const value = "p4ssw0rd"

func TestSource(t *testing.T) {
	t.Parallel()

	t.Run("TheServicesOwnVariableComesBeforeTheDeployments", func(t *testing.T) {
		t.Parallel()
		s := config.NewSource([]string{"HANJUL_A=wide", "HANJUL_API_A=own", "HANJUL_B=wide", "HANJUL_API_B=", "HANJUL_SCHEDULER_C=other"}, "API")
		got := []string{s.String("A", "d", "text", ""), s.String("B", "d", "text", ""), s.String("C", "d", "text", "")}
		if diff := cmp.Diff([]string{"own", "wide", "d"}, got); diff != "" {
			t.Fatal(diff)
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("EveryKindReadsItsForm", func(t *testing.T) {
		t.Parallel()
		s := config.NewSource([]string{
			"HANJUL_API_INT=7", "HANJUL_API_FLOAT=0.5", "HANJUL_API_DURATION=1m30s", "HANJUL_API_BOOL=yes",
			"HANJUL_API_CHOICE=b", "HANJUL_API_ADDR=:0", "HANJUL_API_ADDRS=a:1, b:2", "HANJUL_API_LIST=x,y",
		}, "API")
		got := []any{
			s.Int("INT", 1, 0, 9, ""), s.Float("FLOAT", 1, 0, 1, ""), s.Duration("DURATION", time.Second, 0, time.Hour, ""),
			s.Bool("BOOL", false, ""), s.Choice("CHOICE", "", "", "a", "b"), s.Addr("ADDR", "", ""),
			s.Addrs("ADDRS", "", ""), s.List("LIST", "", "word", ""), s.List("NONE", "", "word", ""),
		}
		want := []any{7, 0.5, 90 * time.Second, true, "b", ":0", []string{"a:1", "b:2"}, []string{"x", "y"}, []string(nil)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("AllFaultsAreToldAtOnce", func(t *testing.T) {
		t.Parallel()
		s := config.NewSource([]string{
			"HANJUL_INT=10", "HANJUL_API_DURATION=5", "HANJUL_API_BOOL=maybe", "HANJUL_API_CHOICE=c",
			"HANJUL_API_ADDR=host", "HANJUL_API_ADDRS=a:1,,b:2", "HANJUL_API_LITSEN=:8080", "HANJUL_OTHERS=1",
			"HANJUL_API_INT_FILE=nofile",
		}, "API")
		defaults := []any{
			s.Int("INT", 1, 0, 9, ""), s.Duration("DURATION", time.Second, 0, time.Hour, ""), s.Bool("BOOL", true, ""),
			s.Choice("CHOICE", "a", "", "a", "b"), s.Addr("ADDR", ":1", ""), s.Addrs("ADDRS", ":1", ""),
		}
		if diff := cmp.Diff([]any{1, time.Second, true, "a", ":1", []string{":1"}}, defaults); diff != "" {
			t.Fatal(diff)
		}
		s.Required("NEEDED", "a word", "")
		s.Choice("IDENTITY", "", "", "local")
		s.Fault("DURATION", "%d is shorter than INT", 5)
		want := strings.Join([]string{
			`HANJUL_INT: found "10", expected a whole number from 0 to 9`,
			`HANJUL_API_DURATION: found "5", expected a duration from 0s to 1h0m0s, such as 250ms or 1m30s`,
			`HANJUL_API_BOOL: found "maybe", expected true or false`,
			`HANJUL_API_CHOICE: found "c", expected one of: a, b`,
			`HANJUL_API_ADDR: found "host", expected host:port`,
			`HANJUL_API_ADDRS: found "a:1,,b:2", expected host:port,host:port,...`,
			`HANJUL_API_NEEDED: found nothing, expected a word`,
			`HANJUL_API_IDENTITY: found nothing, expected one of: local`,
			`HANJUL_API_DURATION: 5 is shorter than INT`,
			`HANJUL_API_INT_FILE: no such setting; -help lists those there are`,
			`HANJUL_API_LITSEN: no such setting; -help lists those there are`,
		}, "\n")
		if diff := cmp.Diff(want, fmt.Sprint(s.Err())); diff != "" {
			t.Fatal(diff)
		}
	})

	t.Run("SettingsListWhatIsInForce", func(t *testing.T) {
		t.Parallel()
		s := config.NewSource([]string{"HANJUL_LISTEN=:1", "HANJUL_API_KEY=" + value}, "API")
		s.Addr("LISTEN", ":8080", "where to listen")
		s.Secret("KEY", "a key", "signs")
		s.Int("N", 3, 1, 5, "how many")
		want := []config.Setting{
			{Name: "LISTEN", Value: ":1", From: "HANJUL_LISTEN", Default: ":8080", Form: "host:port", Meaning: "where to listen"},
			{Name: "KEY", Value: "[hidden]", From: "HANJUL_API_KEY", Form: "a key", Meaning: "signs", Secret: true},
			{Name: "N", Value: "3", Default: "3", Form: "a whole number from 1 to 5", Meaning: "how many"},
		}
		if diff := cmp.Diff(want, s.Settings()); diff != "" {
			t.Fatal(diff)
		}
		var line bytes.Buffer
		slog.New(slog.NewJSONHandler(&line, nil)).Info("start", s.LogAttr())
		if got := line.String(); !strings.Contains(got, `"settings":{"LISTEN":":1","KEY":"[hidden]","N":"3"}`) {
			t.Fatal(got)
		}
		var help bytes.Buffer
		if err := s.WriteHelp(&help); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"HANJUL_API_KEY (or HANJUL_API_KEY_FILE)", "how many", "default :8080", "no default"} {
			if !strings.Contains(help.String(), part) {
				t.Fatalf("help lacks %q:\n%s", part, help.String())
			}
		}
	})

	t.Run("ASettingReadTwiceIsAFault", func(t *testing.T) {
		t.Parallel()
		s := config.NewSource(nil, "API")
		s.String("A", "", "text", "")
		s.String("A", "", "text", "")
		if s.Err() == nil {
			t.Fatal("no fault")
		}
	})
}

func TestSourceSecret(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, content string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	t.Run("FromAFile", func(t *testing.T) {
		t.Parallel()
		s := config.NewSource([]string{"HANJUL_KEY_FILE=" + write(t, value+"\r\n")}, "API")
		if got := s.Secret("KEY", "a key", ""); got.Reveal() != value || s.Err() != nil {
			t.Fatal(got.Reveal(), s.Err())
		}
	})

	t.Run("FaultsNeverShowTheValue", func(t *testing.T) {
		t.Parallel()
		s := config.NewSource([]string{
			"HANJUL_API_BOTH=" + value, "HANJUL_API_BOTH_FILE=" + write(t, value),
			"HANJUL_API_EMPTY_FILE=" + write(t, "\n"), "HANJUL_API_GONE_FILE=" + filepath.Join(t.TempDir(), "none"),
			"HANJUL_API_LONG_FILE=" + write(t, strings.Repeat(value, 20000)),
		}, "API")
		for _, name := range []string{"BOTH", "EMPTY", "GONE", "LONG", "MISSING"} {
			if got := s.Secret(name, "a key", ""); !got.IsZero() {
				t.Fatal(name)
			}
		}
		s.OptionalSecret("OPTIONAL", "a key", "")
		text := fmt.Sprint(s.Err())
		if n := strings.Count(text, "\n") + 1; n != 5 || strings.Contains(text, value) {
			t.Fatalf("%d faults:\n%s", n, text)
		}
	})
}

func TestSecretHidesItself(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret(value)
	wrapped := struct{ Key config.Secret }{secret}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+" ", secret)
		fmt.Fprintf(&out, verb+" ", wrapped)
		fmt.Fprintf(&out, verb+" ", &wrapped)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("a", "secret", secret, "wrapped", wrapped)
	slog.New(slog.NewTextHandler(&out, nil)).Info("a", "secret", secret, "wrapped", wrapped)
	if err := json.NewEncoder(&out).Encode(map[string]any{"a": secret, "b": wrapped}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
		t.Fatal(text)
	}
}
