package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/pkg/config"
)

// source gives the settings, named without their prefix.
func source(settings map[string]string) *config.Source {
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		environ = append(environ, "HANJUL_"+name+"="+settings[name])
	}

	return config.NewSource(environ, "API")
}

// reach is the configuration that the settings make.
func reach(t testing.TB, settings map[string]string) Config {
	t.Helper()

	s := source(settings)
	cfg := Settings(s, "test")

	if err := s.Err(); err != nil {
		t.Fatal(err)
	}

	return cfg
}

func file(t testing.TB, text string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

func authority(t testing.TB) (*local.Authority, local.Certificate) {
	t.Helper()

	a, err := local.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	c, err := a.Issue("client")
	if err != nil {
		t.Fatal(err)
	}

	return a, c
}

func TestSettings(t *testing.T) {
	t.Parallel()

	a, ours := authority(t)
	_, theirs := authority(t)

	t.Run("Plain", func(t *testing.T) {
		t.Parallel()

		cfg := reach(t, map[string]string{"KAFKA_BROKERS": "a:1,b:2"})
		if cfg.TLS != nil || cfg.Login.Mechanism != loginNone || cfg.ClientID != "test" || len(cfg.Brokers) != 2 {
			t.Errorf("%+v", cfg)
		}
	})

	t.Run("Everything", func(t *testing.T) {
		t.Parallel()

		cfg := reach(t, map[string]string{
			"KAFKA_BROKERS": "a:1", "KAFKA_TLS": "on", "KAFKA_CA_FILE": a.File(), "KAFKA_CERT_FILE": ours.CertFile, "KAFKA_KEY_FILE": ours.KeyFile,
			"KAFKA_SASL": "scram-sha-256", "KAFKA_USER": "shop", "KAFKA_PASSWORD_FILE": file(t, "hush-word\n"),
		})
		if cfg.TLS == nil || cfg.TLS.RootCAs == nil || cfg.Login.User != "shop" || cfg.Login.Password.Reveal() != "hush-word" {
			t.Errorf("%+v", cfg)
		}

		if text := fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg); strings.Contains(text, "hush-word") {
			t.Errorf("the password shows: %s", text)
		}

		pair, err := cfg.TLS.GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil || string(pair.Certificate[0]) != string(ours.Pair.Certificate[0]) {
			t.Errorf("our certificate is %v, %v", pair, err)
		}
	})

	for name, row := range map[string]struct {
		settings map[string]string
		faults   []string // Each wants a line of its own, and there are no others.
		warning  string
	}{
		"NoBrokers":       {map[string]string{"KAFKA_BROKERS": ""}, []string{"HANJUL_API_KAFKA_BROKERS: found nothing, expected host:port"}, ""},
		"NoPort":          {map[string]string{"KAFKA_BROKERS": "broker"}, []string{`HANJUL_KAFKA_BROKERS: found "broker", expected host:port`}, ""},
		"TLS":             {map[string]string{"KAFKA_TLS": "yes", "KAFKA_CA_FILE": a.File()}, []string{`HANJUL_KAFKA_TLS: found "yes", expected one of: on, off`}, ""},
		"AuthorityAlone":  {map[string]string{"KAFKA_CA_FILE": a.File()}, []string{"HANJUL_KAFKA_CA_FILE: expected KAFKA_TLS=on beside it"}, ""},
		"NoSuchAuthority": {map[string]string{"KAFKA_TLS": "on", "KAFKA_CA_FILE": "/no/such/file"}, []string{"HANJUL_KAFKA_CA_FILE: expected a readable file with PEM certificates"}, ""},
		"NoAuthority":     {map[string]string{"KAFKA_TLS": "on", "KAFKA_CA_FILE": ours.KeyFile}, []string{"HANJUL_KAFKA_CA_FILE: expected PEM certificates, found none"}, ""},
		"CertificateAlone": {
			map[string]string{"KAFKA_TLS": "on", "KAFKA_CERT_FILE": ours.CertFile},
			[]string{"HANJUL_API_KAFKA_KEY_FILE: expected the key of KAFKA_CERT_FILE"},
			"",
		},
		"KeyAlone": {
			map[string]string{"KAFKA_TLS": "on", "KAFKA_KEY_FILE": ours.KeyFile},
			[]string{"HANJUL_API_KAFKA_CERT_FILE: expected the certificate of KAFKA_KEY_FILE"},
			"",
		},
		"AnothersKey": {
			map[string]string{"KAFKA_TLS": "on", "KAFKA_CERT_FILE": ours.CertFile, "KAFKA_KEY_FILE": theirs.KeyFile},
			[]string{"HANJUL_KAFKA_CERT_FILE: expected a certificate whose key is in KAFKA_KEY_FILE"},
			"",
		},
		"CertificateWithoutTLS": {
			map[string]string{"KAFKA_CERT_FILE": ours.CertFile, "KAFKA_KEY_FILE": ours.KeyFile},
			[]string{"HANJUL_KAFKA_CERT_FILE: expected KAFKA_TLS=on", "HANJUL_KAFKA_KEY_FILE: expected KAFKA_TLS=on"},
			"",
		},
		"SASL": {
			map[string]string{"KAFKA_SASL": "gssapi", "KAFKA_USER": "shop", "KAFKA_PASSWORD": "x"},
			[]string{`HANJUL_KAFKA_SASL: found "gssapi", expected one of: none, plain, scram-sha-256, scram-sha-512`},
			"",
		},
		"Nobody": {
			map[string]string{"KAFKA_SASL": "scram-sha-512"},
			[]string{"HANJUL_API_KAFKA_USER: expected a user's name, since KAFKA_SASL is scram-sha-512", "HANJUL_API_KAFKA_PASSWORD: expected a password"},
			"",
		},
		"UserAlone": {
			map[string]string{"KAFKA_USER": "shop"},
			[]string{"HANJUL_KAFKA_USER: expected KAFKA_SASL to say how to log in, found none"},
			"",
		},
		"PasswordAlone": {
			map[string]string{"KAFKA_PASSWORD": "hush-word"},
			[]string{"HANJUL_KAFKA_PASSWORD: expected KAFKA_SASL to say how to log in, found none"},
			"",
		},
		"PasswordTwice": {
			map[string]string{"KAFKA_SASL": "scram-sha-512", "KAFKA_USER": "shop", "KAFKA_PASSWORD": "hush-word", "KAFKA_PASSWORD_FILE": a.File()},
			[]string{"HANJUL_KAFKA_PASSWORD: found both it and HANJUL_KAFKA_PASSWORD_FILE, expected one of the two"},
			"",
		},
		"PasswordUnreadable": {
			map[string]string{"KAFKA_SASL": "scram-sha-512", "KAFKA_USER": "shop", "KAFKA_PASSWORD_FILE": "/no/such/file"},
			[]string{"HANJUL_KAFKA_PASSWORD_FILE: found open /no/such/file"},
			"",
		},
		"PasswordUnprintable": {
			map[string]string{"KAFKA_SASL": "scram-sha-512", "KAFKA_USER": "shop", "KAFKA_PASSWORD": "hush-word\a"},
			[]string{"HANJUL_KAFKA_PASSWORD: expected a user and a password that scram-sha-512 allows"},
			"",
		},
		"PasswordReadable": {
			map[string]string{"KAFKA_SASL": "plain", "KAFKA_USER": "shop", "KAFKA_PASSWORD": "hush-word"},
			nil, "HANJUL_KAFKA_SASL: plain sends the password readably, since KAFKA_TLS is off",
		},
		"AllAtOnce": {
			map[string]string{"KAFKA_BROKERS": "broker", "KAFKA_CA_FILE": a.File(), "KAFKA_SASL": "plain"},
			[]string{"KAFKA_BROKERS: found", "KAFKA_CA_FILE: expected", "KAFKA_USER: expected", "KAFKA_PASSWORD: expected"},
			"HANJUL_KAFKA_SASL: plain sends the password readably",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			settings := map[string]string{"KAFKA_BROKERS": "a:1"}
			maps.Copy(settings, row.settings)

			s := source(settings)
			Settings(s, "test")

			err := s.Err()
			wantParts(t, err, row.faults...)

			if lines := strings.Count(fmt.Sprint(err), "\n") + 1; err != nil && (lines != len(row.faults) || strings.Contains(err.Error(), "hush-word")) {
				t.Errorf("%d faults, want %d: %v", lines, len(row.faults), err)
			} else if err == nil && len(row.faults) > 0 {
				t.Error("no fault")
			}

			if got := strings.Join(s.Warnings(), "\n"); row.warning == "" && got != "" || !strings.HasPrefix(got, row.warning) {
				t.Errorf("warnings %q, want %q", got, row.warning)
			}
		})
	}
}

// However the end of a wait for TLS shows, it names the setting to look at.
func TestNoAnswerToTLS(t *testing.T) {
	t.Parallel()

	for name, err := range map[string]error{
		"HungUp":   io.EOF,
		"Context":  context.DeadlineExceeded,
		"Deadline": &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := untrusted(err)
			wantErr(t, got, err)
			wantParts(t, got, "check KAFKA_TLS")
		})
	}
}

// TestLogin tries what is wrong between a broker and its client, once each.
func TestLogin(t *testing.T) {
	t.Parallel()

	broker := localtest.SecureKafkaCluster(t)
	stranger, ours := authority(t)

	t.Run("TLSToAPlainPort", func(t *testing.T) {
		t.Parallel()

		cfg := reach(t, broker.Settings)
		cfg.Timeout = time.Second // This broker waits for the rest of what it takes for a very long request.

		conns, err := NewConns(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conns.Close()

		_, err = conns.DialContext(patient(t), "tcp", localtest.KafkaCluster(t).ListenAddrs()[0])
		wantParts(t, err, "check KAFKA_TLS")

		if judge(err) != clean {
			t.Errorf("something may have been sent: %v", err)
		}
	})

	// As Apache Kafka says it; the broker above only hangs up.
	for name, row := range map[string]struct {
		key    kmsg.Key
		answer kmsg.Response
		says   []string
	}{
		"KafkaRefusesThePassword": {
			kmsg.SASLAuthenticate,
			&kmsg.SASLAuthenticateResponse{ErrorCode: kerr.SaslAuthenticationFailed.Code, ErrorMessage: kmsg.StringPtr("invalid credentials")},
			[]string{"invalid credentials", "check KAFKA_USER, KAFKA_PASSWORD and KAFKA_SASL"},
		},
		"KafkaKnowsAnotherMechanism": {
			kmsg.SASLHandshake,
			&kmsg.SASLHandshakeResponse{ErrorCode: kerr.UnsupportedSaslMechanism.Code, SupportedMechanisms: []string{"GSSAPI", "PLAIN"}},
			[]string{"does not know SCRAM-SHA-512, but GSSAPI, PLAIN", "check KAFKA_SASL"},
		},
		"KafkaTakesNoLogin": {
			kmsg.SASLHandshake,
			&kmsg.SASLHandshakeResponse{ErrorCode: kerr.IllegalSaslState.Code},
			[]string{"takes no login on this port", "check KAFKA_SASL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			strict := localtest.SecureKafkaCluster(t)
			strict.Cluster.ControlKey(int16(row.key), func(r kmsg.Request) (kmsg.Response, error, bool) {
				strict.Cluster.KeepControl()
				row.answer.SetVersion(r.GetVersion())

				return row.answer, nil, true
			})

			_, err := CheckTopics(patient(t), reach(t, strict.Settings), []TopicSpec{{Name: topic, Partitions: 1}})
			wantErr(t, err, ErrLogin)
			wantParts(t, err, row.says...)

			if Transient(err) || judge(err) != clean {
				t.Errorf("%v is waited for at the start, or in doubt", err)
			}
		})
	}

	for name, row := range map[string]struct {
		change map[string]string
		says   []string
	}{
		"SCRAM512":        {nil, nil},
		"SCRAM256":        {map[string]string{"KAFKA_SASL": "scram-sha-256"}, nil},
		"PLAIN":           {map[string]string{"KAFKA_SASL": "plain"}, nil},
		"Password":        {map[string]string{"KAFKA_PASSWORD": "wrong"}, []string{"check KAFKA_USER, KAFKA_PASSWORD"}},
		"Plain":           {map[string]string{"KAFKA_PASSWORD": "wrong", "KAFKA_SASL": "plain"}, []string{"check KAFKA_USER, KAFKA_PASSWORD"}},
		"User":            {map[string]string{"KAFKA_USER": "wrong"}, []string{"check KAFKA_USER, KAFKA_PASSWORD"}},
		"Authority":       {map[string]string{"KAFKA_CA_FILE": stranger.File()}, []string{"check KAFKA_CA_FILE", "unknown authority"}},
		"System":          {map[string]string{"KAFKA_CA_FILE": ""}, []string{"check KAFKA_CA_FILE"}},
		"PlainToATLSPort": {map[string]string{"KAFKA_TLS": "off", "KAFKA_CA_FILE": ""}, []string{"check KAFKA_TLS"}},
		"NobodyToATLSPort": {
			map[string]string{"KAFKA_TLS": "off", "KAFKA_CA_FILE": "", "KAFKA_SASL": "", "KAFKA_USER": "", "KAFKA_PASSWORD": ""},
			[]string{"check KAFKA_TLS"},
		},
		"Nobody": {map[string]string{"KAFKA_SASL": "", "KAFKA_USER": "", "KAFKA_PASSWORD": ""}, []string{"KAFKA_SASL"}},
		"UnwantedCertificate": {
			map[string]string{"KAFKA_CERT_FILE": ours.CertFile, "KAFKA_KEY_FILE": ours.KeyFile}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			settings := maps.Clone(broker.Settings)
			maps.Copy(settings, row.change)

			cfg := reach(t, settings)
			cfg.Timeout, cfg.MetadataTTL = patience, patience

			client := newClient(t, cfg)
			_, err := client.Partitions(patient(t), "nothing")
			if row.says == nil {
				wantErr(t, err, ErrNoTopic)
			} else {
				wantParts(t, err, row.says...)
			}

			if err != nil && strings.Contains(err.Error(), broker.Settings["KAFKA_PASSWORD"]) {
				t.Errorf("the password shows: %v", err)
			}
		})
	}
}
