// Package httpserver serves an http.Handler with limits on time and size, drains it when asked to stop, and offers the
// admin port that every binary has. It owns the listener and the connections; routes, bodies and status codes are the
// handler's, and no business word appears here. It stands first in the flow of a process: what it feeds starts before
// it and stops after it.
package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"hanjul/pkg/lifecycle"
)

// Config says where to listen and how long things may take. Zero values take the defaults, so a server without
// a limit cannot be made by leaving one out.
type Config struct {
	// Addr is host:port; the host may be empty (every interface) and the port 0 (any free one).
	Addr string
	// Handler answers. Its requests' contexts do not end when the server is asked to stop: work in hand is finished.
	Handler http.Handler
	// ReadHeaderTimeout bounds the reading of a request's head; default 5 s.
	ReadHeaderTimeout time.Duration
	// ReadTimeout bounds the reading of a whole request; default 15 s, never shorter than ReadHeaderTimeout.
	ReadTimeout time.Duration
	// WriteTimeout bounds a request from the end of its head to the end of its answer; default 30 s. A handler that
	// streams extends it for itself with http.ResponseController.
	WriteTimeout time.Duration
	// IdleTimeout is how long a kept-alive connection may wait for its next request; default 2 min.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds a request's head; default 16 KiB.
	MaxHeaderBytes int
	// Drain is how long requests in hand may take once the server is asked to stop, before their connections are cut;
	// default 10 s. It must be longer than the longest request that is worth finishing.
	Drain time.Duration
}

func (c Config) withDefaults() Config {
	c.ReadHeaderTimeout = cmp.Or(c.ReadHeaderTimeout, 5*time.Second)
	c.ReadTimeout = max(cmp.Or(c.ReadTimeout, 15*time.Second), c.ReadHeaderTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 2*time.Minute)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, 16<<10)
	c.Drain = cmp.Or(c.Drain, 10*time.Second)
	return c
}

// ErrCut is returned by Run when requests were still in hand at the end of the drain and their connections were cut.
var ErrCut = errors.New("requests cut off")

// Server serves one Handler on one address, once.
type Server struct {
	config Config
	logger *slog.Logger
	ready  chan struct{}
	addr   net.Addr
}

// New prepares a server; nothing listens before Run.
func New(logger *slog.Logger, config Config) *Server {
	return &Server{config: config.withDefaults(), logger: logger, ready: make(chan struct{})}
}

// Component is the server as a part of a process, under a name for logs.
func (s *Server) Component(name string) lifecycle.Component {
	// The second covers what comes after the drain: cutting connections and returning.
	return lifecycle.Component{Name: name, Run: s.Run, Ready: s.Ready, StopWithin: s.config.Drain + time.Second}
}

// Ready blocks until the server listens, or ctx ends.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Addr is where the server listens, with the real port; it is nil until Ready has returned nil.
func (s *Server) Addr() net.Addr {
	select {
	case <-s.ready:
		return s.addr
	default:
		return nil
	}
}

// Run listens and serves until ctx ends, then takes no new connections, lets requests in hand finish for as long as
// Drain and returns nil, or ErrCut. It returns another error when it cannot listen or serve. Call it once.
func (s *Server) Run(ctx context.Context) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", s.config.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.config.Addr, err)
	}
	server := &http.Server{
		Handler:           s.config.Handler,
		ReadHeaderTimeout: s.config.ReadHeaderTimeout,
		ReadTimeout:       s.config.ReadTimeout,
		WriteTimeout:      s.config.WriteTimeout,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    s.config.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	s.addr = listener.Addr()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	close(s.ready)
	s.logger.Info("listening", "addr", s.addr.String())

	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", s.addr, err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Drain)
	defer cancel()
	err = server.Shutdown(drain)
	_ = <-served // http.ErrServerClosed at once: Shutdown closes the listener first
	if err == nil {
		return nil
	}
	_ = server.Close()
	return fmt.Errorf("drain %s for %s: %w", s.addr, s.config.Drain, ErrCut)
}
