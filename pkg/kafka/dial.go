package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// Conns dials connections and remembers them, so that whoever owns it can end
// them all, also those on which the library still waits for an answer. Each of
// them is encrypted and logged in as the configuration says before the library
// gets it: that happens here and nowhere else. It is safe for concurrent use.
type Conns struct {
	cfg       Config
	mechanism sasl.Mechanism // Nil where nobody logs in.

	mu     sync.Mutex
	open   map[*ownedConn]struct{}
	closed bool
}

// NewConns returns an empty set of connections.
func NewConns(cfg Config) (*Conns, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}

	mechanism, err := cfg.Login.mechanism()
	if err != nil {
		return nil, err
	}

	return &Conns{cfg: cfg.withDefaults(), mechanism: mechanism, open: make(map[*ownedConn]struct{})}, nil
}

// Dialer is for the parts of the library that make connections by one.
func (c *Conns) Dialer() *kafkago.Dialer {
	return &kafkago.Dialer{ClientID: c.cfg.ClientID, Timeout: c.cfg.Timeout, DialFunc: c.DialContext}
}

// DialContext opens a connection, host:port, and returns when it may be used.
// net.ErrClosed after Close; an ErrLogin when broker and we do not accept each
// other.
func (c *Conns) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()

	var dialer net.Dialer

	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}

	owned := &ownedConn{Conn: conn, raw: conn, owner: c, encrypted: c.cfg.TLS != nil}

	if err = c.keep(owned); err == nil { // Before we speak: Close ends a greeting too.
		err = c.greet(ctx, owned, address)
	}

	if err != nil {
		_ = owned.Close() // The reason for closing is what the caller must hear.

		// As any failure to dial: whoever wanted to send something may be sure that it was not sent.
		return nil, &net.OpError{Op: opDial, Net: network, Addr: kafkago.TCP(address), Err: err}
	}

	return owned, nil
}

func (c *Conns) keep(conn *ownedConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return net.ErrClosed
	}

	c.open[conn] = struct{}{}

	return nil
}

// greet encrypts the connection and logs in. Nothing else was sent when it fails.
func (c *Conns) greet(ctx context.Context, conn *ownedConn, address string) error {
	release := within(ctx, conn.raw)
	err := c.introduce(ctx, conn, address)

	if late := release(); late != nil {
		return errors.Join(late, err)
	}

	return err
}

func (c *Conns) introduce(ctx context.Context, conn *ownedConn, address string) error {
	if c.cfg.TLS != nil {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}

		settings := c.cfg.TLS.Clone()
		if settings.ServerName == "" {
			settings.ServerName = host
		}

		encrypted := tls.Client(conn.raw, settings)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return untrusted(err)
		}

		conn.Conn = encrypted
	}

	if c.mechanism == nil {
		return nil
	}

	return logIn(ctx, conn, c.cfg.ClientID, c.mechanism)
}

// untrusted names the setting behind a handshake that failed.
func untrusted(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		alert   tls.AlertError
		plain   tls.RecordHeaderError
	)

	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: nobody we trust signed the broker's certificate: check KAFKA_CA_FILE: %w", ErrLogin, err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: the broker's certificate is for another host: check KAFKA_BROKERS and the brokers' advertised.listeners: %w", ErrLogin, err)
	case errors.As(err, &invalid):
		return fmt.Errorf("%w: the broker's certificate is not valid: check it and the clocks: %w", ErrLogin, err)
	case errors.As(err, &alert):
		return fmt.Errorf("%w: the broker refuses our certificate, or that we have none: check KAFKA_CERT_FILE and KAFKA_KEY_FILE: %w", ErrLogin, err)
	case errors.As(err, &plain):
		return fmt.Errorf("%w: the broker does not speak TLS on this port: check KAFKA_TLS and the port in KAFKA_BROKERS: %w", ErrLogin, err)
	case errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		// The context's end and the connection's deadline come together; either may be seen first.
		return fmt.Errorf("the broker gave no answer to TLS: check KAFKA_TLS and the port in KAFKA_BROKERS: %w", err)
	default:
		return err
	}
}

// Close ends all connections, and those that are dialled later. It may be
// repeated.
func (c *Conns) Close() {
	c.mu.Lock()
	open := c.open
	c.open = make(map[*ownedConn]struct{})
	c.closed = true
	c.mu.Unlock()

	for conn := range open {
		_ = conn.raw.Close() // Nothing is left to do with a connection that fails to close.
	}
}

const (
	// opDial is the Op of an error of opening a connection.
	opDial = "dial"
	// tlsAlert begins what a TLS server answers to one who speaks plainly. As the first byte of an answer's length it would be too long.
	tlsAlert = 0x15
)

// errHungUp stands for the end of a connection that was never welcome. The
// library would replace one that is an io.EOF.
var errHungUp = errors.New("the broker hung up on a new connection: if it goes on, check KAFKA_TLS, KAFKA_SASL and the port in KAFKA_BROKERS")

// early is how many reads of a connection may fail before it is no longer taken
// for one that was never welcome.
const early = 3

// ownedConn is one connection.
type ownedConn struct {
	net.Conn
	raw       net.Conn // Under TLS; never changed.
	owner     *Conns
	encrypted bool
	reads     int // That brought something. One goroutine reads at a time.
}

// Read says what to look at when a broker turns out not to want us: there is no
// answer in the protocol for that, it just hangs up.
func (c *ownedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)

	switch {
	case c.reads == 0 && n > 0 && p[0] == tlsAlert && !c.encrypted:
		return 0, fmt.Errorf("%w: the broker speaks TLS on this port: check KAFKA_TLS and the port in KAFKA_BROKERS", ErrLogin)
	case n > 0:
		c.reads++
	case err == nil:
	case errors.As(err, new(tls.AlertError)):
		return 0, untrusted(err)
	case c.reads < early && errors.Is(err, io.EOF):
		return 0, errHungUp
	}

	return n, err
}

// Close ends it.
func (c *ownedConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()

	return c.Conn.Close()
}
