package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"hanjul/pkg/config"
)

// Ways to log in, as settings name them.
const (
	loginNone   = "none"
	loginPlain  = "plain"
	loginSHA256 = "scram-sha-256"
	loginSHA512 = "scram-sha-512"
)

// Login is who we are to the brokers, by SASL.
type Login struct {
	// Mechanism is plain, scram-sha-256, scram-sha-512, or none, which empty
	// means too.
	Mechanism string
	User      string
	Password  config.Secret
}

// mechanism returns nil where nobody logs in. User and password may have
// characters that SCRAM does not allow.
func (l Login) mechanism() (sasl.Mechanism, error) {
	algorithm := scram.SHA256

	switch l.Mechanism {
	case "", loginNone:
		return nil, nil
	case loginPlain:
		return plain.Mechanism{Username: l.User, Password: l.Password.Reveal()}, nil
	case loginSHA256:
	case loginSHA512:
		algorithm = scram.SHA512
	default:
		return nil, fmt.Errorf("kafka: no way to log in is called %q", l.Mechanism)
	}

	mechanism, err := scram.Mechanism(algorithm, l.User, l.Password.Reveal())
	if err != nil { // Its text might hold a part of the password.
		return nil, errors.New("kafka: user or password has characters that SCRAM does not allow")
	}

	return mechanism, nil
}

// logIn says who we are on a connection that nothing was said on yet, and
// returns when the broker has let us in. The library would do the same, but on
// most of its connections without a deadline, and without the broker's reason.
func logIn(ctx context.Context, conn net.Conn, clientID string, mechanism sasl.Mechanism) error {
	talk := protocol.NewConn(conn, clientID)
	// With version 0 of the handshake a broker that refuses us hangs up and
	// gives no reason. Every broker since 1.0 has these.
	talk.SetVersions(map[protocol.ApiKey]int16{protocol.SaslHandshake: 1, protocol.SaslAuthenticate: 0})

	answer, err := talk.RoundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return cutShort(err, "KAFKA_TLS, KAFKA_SASL and the port in KAFKA_BROKERS")
	}

	shaken, ok := answer.(*saslhandshake.Response)
	if !ok {
		return fmt.Errorf("%w: the broker answered something else: check that KAFKA_BROKERS are brokers", ErrLogin)
	}

	switch code := kafkago.Error(shaken.ErrorCode); {
	case shaken.ErrorCode == 0:
	case code == kafkago.UnsupportedSASLMechanism:
		return fmt.Errorf("%w: the broker does not know %s, but %s: check KAFKA_SASL: %w",
			ErrLogin, mechanism.Name(), strings.Join(shaken.Mechanisms, ", "), code)
	case code == kafkago.IllegalSASLState:
		return fmt.Errorf("%w: the broker takes no login on this port: check KAFKA_SASL and the port in KAFKA_BROKERS: %w", ErrLogin, code)
	default:
		return fmt.Errorf("handshake for %s: %w", mechanism.Name(), code)
	}

	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())

	session, state, err := mechanism.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host}))
	if err != nil {
		return fmt.Errorf("begin %s: %w", mechanism.Name(), err)
	}

	for done := false; !done; {
		answer, err := talk.RoundTrip(&saslauthenticate.Request{AuthBytes: state})
		if err != nil {
			return cutShort(err, "KAFKA_USER, KAFKA_PASSWORD and KAFKA_SASL")
		}

		said, ok := answer.(*saslauthenticate.Response)

		switch {
		case !ok:
			return fmt.Errorf("%w: the broker answered something else: check that KAFKA_BROKERS are brokers", ErrLogin)
		case said.ErrorCode != 0:
			return fmt.Errorf("%w: %s: check KAFKA_USER, KAFKA_PASSWORD and KAFKA_SASL: %w", ErrLogin, said.ErrorMessage, kafkago.Error(said.ErrorCode))
		}

		if done, state, err = session.Next(ctx, said.AuthBytes); err != nil {
			return fmt.Errorf("%w: the broker does not know our password either: check KAFKA_USER and KAFKA_PASSWORD: %w", ErrLogin, err)
		}
	}

	return nil
}

// cutShort adds what to look at when a broker hangs up during the login, as
// some do instead of saying why.
func cutShort(err error, settings string) error {
	if errors.Is(err, errHungUp) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the broker hung up during the login: check %s: %w", settings, io.ErrUnexpectedEOF)
	}

	return err
}

// within gives the connection the deadline of ctx until the function returned
// is called; that returns an error when ctx ended meanwhile.
func within(ctx context.Context, conn net.Conn) func() error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // A dead connection is found out anyway.

	return func() error {
		if !stop() {
			return context.Cause(ctx)
		}

		return nil
	}
}
