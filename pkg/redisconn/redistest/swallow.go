// Package redistest breaks connections to Redis where tests need them broken. It owns a proxy that stands in a client's dialer, so that
// no node of a cluster is reached beside it, and that knows of the wire protocol where an answer ends; it starts no server.
package redistest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Swallower loses answers: of all that come over its connections, whichever they belong to, every nth on average is not handed on, and its
// connection ends there. What was asked is done all the same, also what else of the same pipeline. Losses are no equal steps apart, or they
// might always meet the same question of a client's round. Safe for concurrent use.
type Swallower struct {
	every     int
	left      atomic.Int64 // answers until the next is lost
	swallowed atomic.Int64
}

// Swallow loses every nth answer on average; 0 loses none.
func Swallow(every int) *Swallower {
	s := &Swallower{every: every}
	s.left.Store(s.step())
	return s
}

// step is 1 to 2n−1.
func (s *Swallower) step() int64 {
	return 1 + rand.Int64N(int64(max(1, 2*s.every-1))) //nolint:gosec // it protects nothing
}

// loses says whether this answer is lost.
func (s *Swallower) loses() bool {
	if s.every == 0 || s.left.Add(-1) != 0 {
		return false
	}
	s.swallowed.Add(1)
	s.left.Store(s.step())
	return true
}

// Swallowed is how many answers were lost so far.
func (s *Swallower) Swallowed() int { return int(s.swallowed.Load()) }

// Dial is a client's Dialer.
func (s *Swallower) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &swallowing{Conn: conn, swallower: s, server: bufio.NewReader(conn)}, nil
}

// swallowing is one connection. As with any, one goroutine reads at a time.
type swallowing struct {
	net.Conn
	swallower *Swallower
	server    *bufio.Reader
	answer    bytes.Buffer // what is read and not yet handed on: the rest of one answer
	lost      bool
}

func (c *swallowing) Read(p []byte) (int, error) {
	if c.lost {
		return 0, io.EOF // what came behind the answer is lost with it
	}
	if c.answer.Len() == 0 {
		// An answer that arrives in part before a deadline is lost with it, as the client closes the connection then.
		if err := c.whole(); err != nil {
			return 0, err
		}
		if c.swallower.loses() {
			c.lost = true
			_ = c.Close()
			return 0, io.EOF
		}
	}
	return c.answer.Read(p)
}

// whole reads one answer with all that is in it.
func (c *swallowing) whole() error {
	c.answer.Reset()
	for left := 1; left > 0; left-- {
		line, err := c.server.ReadBytes('\n')
		if err != nil {
			return err
		}
		c.answer.Write(line)
		length := func() (int, error) { return strconv.Atoi(string(bytes.TrimSpace(line[1:]))) }
		switch line[0] {
		case '+', '-', ':', '_', '#', ',', '(': // one line
		case '$', '=', '!': // so many bytes, and the end of a line
			n, err := length()
			if err != nil {
				return fmt.Errorf("length of an answer %q: %w", line, err)
			}
			if n >= 0 {
				if _, err := io.CopyN(&c.answer, c.server, int64(n)+2); err != nil {
					return err
				}
			}
		case '*', '~', '>', '%', '|': // so many answers, or pairs of them
			n, err := length()
			if err != nil {
				return fmt.Errorf("length of an answer %q: %w", line, err)
			}
			if line[0] == '%' || line[0] == '|' {
				n *= 2
			}
			if line[0] == '|' {
				n++ // the answer that they are attributes of
			}
			left += max(n, 0)
		default:
			return fmt.Errorf("unknown kind of answer %q", line)
		}
	}
	return nil
}
