package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"hanjul/pkg/config"
)

// The settings by which brokers are reached.
const (
	nameTLS      = "KAFKA_TLS"
	nameCA       = "KAFKA_CA_FILE"
	nameCert     = "KAFKA_CERT_FILE"
	nameKey      = "KAFKA_KEY_FILE"
	nameSASL     = "KAFKA_SASL"
	nameUser     = "KAFKA_USER"
	namePassword = "KAFKA_PASSWORD"
)

// Settings reads how to reach the brokers, for every process alike. Files are
// read here, except that the certificate of ours is read again for each
// connection, so that it may be replaced while the process runs. Faults and
// warnings are the source's to tell.
func Settings(s *config.Source, clientID string) Config {
	cfg := Config{
		Brokers:  s.Addrs("KAFKA_BROKERS", "", "Kafka brokers to start from"),
		ClientID: clientID,
	}

	encrypt, sure := choose(s, nameTLS, "off", "whether connections to Kafka are encrypted", "on", "off")
	authority := s.String(nameCA, "", "a file with PEM certificates", "who signs the brokers' certificates; empty: whom the system trusts")
	certificate := s.String(nameCert, "", "a file with a PEM certificate", "our certificate, where brokers know us by one; read again for each connection")
	key := s.String(nameKey, "", "a file with a PEM key", "the private key of KAFKA_CERT_FILE")

	if encrypt == "on" {
		cfg.TLS = encryption(s, authority, certificate, key)
	} else if sure {
		for _, file := range [][2]string{{nameCA, authority}, {nameCert, certificate}, {nameKey, key}} {
			if file[1] != "" {
				s.Fault(file[0], "expected KAFKA_TLS=on beside it, found off")
			}
		}
	}

	cfg.Login = login(s, encrypt == "on")

	return cfg
}

func encryption(s *config.Source, authority, certificate, key string) *tls.Config {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}

	if authority != "" {
		text, err := os.ReadFile(authority)
		settings.RootCAs = x509.NewCertPool()

		switch {
		case err != nil:
			s.Fault(nameCA, "expected a readable file with PEM certificates: %w", err)
		case !settings.RootCAs.AppendCertsFromPEM(text):
			s.Fault(nameCA, "expected PEM certificates, found none in %s", authority)
		}
	}

	switch {
	case certificate == "" && key == "":
	case key == "":
		s.Fault(nameKey, "expected the key of KAFKA_CERT_FILE, found nothing")
	case certificate == "":
		s.Fault(nameCert, "expected the certificate of KAFKA_KEY_FILE, found nothing")
	default:
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			s.Fault(nameCert, "expected a certificate whose key is in KAFKA_KEY_FILE: %w", err)
		}

		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certificate, key)
			if err != nil { // Between the two writes of whoever replaces them, for example.
				return nil, fmt.Errorf("KAFKA_CERT_FILE: %w", err)
			}

			return &pair, nil
		}
	}

	return settings
}

func login(s *config.Source, encrypted bool) Login {
	mechanism, sure := choose(s, nameSASL, loginNone, "how to log in to Kafka", loginNone, loginPlain, loginSHA256, loginSHA512)
	l := Login{
		Mechanism: mechanism,
		User:      s.String(nameUser, "", "a user's name", "who logs in to Kafka, where KAFKA_SASL is not none"),
		Password:  s.OptionalSecret(namePassword, "a password", "the password of KAFKA_USER"),
	}

	secret := last(s) // Has told already where it cannot be read.

	if !sure {
		return l
	}

	if mechanism == loginNone {
		if l.User != "" {
			s.Fault(nameUser, "expected KAFKA_SASL to say how to log in, found none")
		}

		if !l.Password.IsZero() {
			s.Fault(namePassword, "expected KAFKA_SASL to say how to log in, found none")
		}

		return l
	}

	if l.User == "" {
		s.Fault(nameUser, "expected a user's name, since KAFKA_SASL is %s; found nothing", mechanism)
	}

	if secret.From == "" {
		s.Fault(namePassword, "expected a password, there or in the file named by KAFKA_PASSWORD_FILE, since KAFKA_SASL is %s", mechanism)
	}

	if _, err := l.mechanism(); err != nil && l.User != "" && !l.Password.IsZero() {
		s.Fault(namePassword, "expected a user and a password that %s allows: printable characters", mechanism)
	}

	if mechanism == loginPlain && !encrypted {
		s.Warn(nameSASL, "plain sends the password readably, since KAFKA_TLS is off")
	}

	return l
}

// choose is Choice, and says whether one of the options was found: a fault that
// was told must not lead to others.
func choose(s *config.Source, name, def, meaning string, options ...string) (string, bool) {
	value := s.Choice(name, def, meaning, options...)

	return value, last(s).Value == value
}

// last is the setting that was read last.
func last(s *config.Source) config.Setting {
	all := s.Settings()

	return all[len(all)-1]
}
