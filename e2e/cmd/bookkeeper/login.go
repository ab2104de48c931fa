package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// login is how a Kafka is reached that does not let everybody in.
type login struct {
	encrypted      bool
	authority      string // file
	user, password string
}

// dialer is the reader's; nil stands for the library's own, which connects plainly.
func (l login) dialer() (*kafka.Dialer, error) {
	if !l.encrypted && (l.authority != "" || l.user != "") {
		return nil, errors.New("-tls: expected beside -ca and -user")
	}
	if (l.user == "") != (l.password == "") {
		return nil, errors.New("-user and BOOKKEEPER_KAFKA_PASSWORD: expected both or none")
	}
	if !l.encrypted {
		return nil, nil
	}
	dialer := &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	if l.authority != "" {
		text, err := os.ReadFile(l.authority)
		if err != nil {
			return nil, fmt.Errorf("-ca: %w", err)
		}
		dialer.TLS.RootCAs = x509.NewCertPool()
		if !dialer.TLS.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("-ca: expected PEM certificates in %s, found none", l.authority)
		}
	}
	if l.user != "" {
		mechanism, err := scram.Mechanism(scram.SHA512, l.user, l.password)
		if err != nil {
			return nil, errors.New("-user: expected a user and a password that SCRAM allows")
		}
		dialer.SASLMechanism = mechanism
	}
	return dialer, nil
}
