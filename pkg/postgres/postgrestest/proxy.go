// Package postgrestest breaks connections to Postgres where tests need them broken. It owns a TCP proxy that knows one word of
// the wire protocol, the commit; it starts no server.
package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Cut says where a connection breaks.
type Cut string

// A commit that is cut Before never reaches the server; one that is cut After is done there, and its answer is lost. The client
// cannot tell them apart.
const (
	Before Cut = "before the commit arrives"
	After  Cut = "after the commit was done"
)

// Proxy stands between a pool and its server.
type Proxy struct {
	URL    string // of the server, through the proxy
	server string
	cut    Cut
	left   atomic.Int64
	made   atomic.Int64
}

// NewProxy starts a proxy to the URL's server that cuts the next times commits, and stops it when the test ends.
func NewProxy(t testing.TB, address string, cut Cut, times int) *Proxy {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: u.Host, cut: cut}
	p.left.Store(int64(times))
	u.Host = listener.Addr().String()
	p.URL = u.String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.accept(ctx, listener, &running) })
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
	return p
}

// Cuts is how many commits were cut so far.
func (p *Proxy) Cuts() int { return int(p.made.Load()) }

func (p *Proxy) accept(ctx context.Context, listener net.Listener, running *sync.WaitGroup) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		running.Go(func() { p.serve(ctx, client) })
	}
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer shut(client)
	server, err := new(net.Dialer).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return
	}
	defer shut(server)
	stop := context.AfterFunc(ctx, func() { shut(client); shut(server) })
	defer stop()
	var cutting atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() {
		defer shut(client)
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if n > 0 && cutting.Load() {
				return // the answer to the commit: the server has done it
			}
			if _, werr := client.Write(buffer[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	defer answers.Wait()
	defer shut(server)
	p.forward(client, server, &cutting, &answers)
}

// forward passes the client's bytes on until it meets a commit that is to be cut.
func (p *Proxy) forward(client io.Reader, server io.Writer, cutting *atomic.Bool, answers *sync.WaitGroup) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if bytes.Contains(buffer[:n], []byte("commit\x00")) && p.left.Add(-1) >= 0 {
			p.made.Add(1)
			if p.cut == After {
				cutting.Store(true)
				if _, err := server.Write(buffer[:n]); err == nil {
					answers.Wait()
				}
			}
			return
		}
		if _, werr := server.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

// shut ends a connection that may be broken already.
func shut(c net.Conn) { _ = c.Close() }

// String names the proxy in failures.
func (p *Proxy) String() string { return fmt.Sprintf("proxy that cuts %s", p.cut) }
