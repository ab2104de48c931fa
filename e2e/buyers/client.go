package buyers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// connections is how many separate connections (at least) the buyers share; each has an own pool of two, so that one buyer can
// send two requests at once.
const connections = 256

// requestTimeout bounds one call; a client that gives up counts as an answer that never came.
const requestTimeout = 10 * time.Second

// answer is one HTTP answer as a buyer reads it. status 0: none came.
type answer struct {
	status     int
	body       body
	retryAfter time.Duration
	sent, read time.Time
	err        error
}

// body holds the fields of all storefront answers and problems that a buyer looks at.
type body struct {
	Status     string        `json:"status"` // of the line, or of the order, or the HTTP status of a problem
	Ticket     string        `json:"ticket"`
	Pass       string        `json:"pass"`
	Place      product.Place `json:"place"`
	OrderID    order.ID      `json:"order_id"`
	Reason     string        `json:"reason"`
	NextPollMS int           `json:"next_poll_ms"`
	Already    bool          `json:"already_in_line"`
	Type       string        `json:"type"`
}

// UnmarshalJSON reads a body whose status is a word, or a problem whose status is a number.
func (b *body) UnmarshalJSON(raw []byte) error {
	type plain body
	var loose struct {
		plain
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(raw, &loose); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	*b = body(loose.plain)
	b.Status = strings.Trim(string(loose.Status), `"`)
	return nil
}

// problem is the last part of a problem's type, empty for other answers.
func (a answer) problem() string {
	if a.status < 400 {
		return ""
	}
	return a.body.Type[strings.LastIndexAny(a.body.Type, "/:")+1:]
}

// client sends the calls of all buyers over many connections and several API processes.
type client struct {
	apis    []string
	pools   []*http.Client
	opened  atomic.Int64
	product product.ID
}

func newClient(apis []string, p product.ID) *client {
	c := &client{apis: apis, product: p}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	for range connections {
		c.pools = append(c.pools, &http.Client{
			Timeout: requestTimeout,
			Transport: &http.Transport{
				MaxConnsPerHost: 2, MaxIdleConnsPerHost: 2, IdleConnTimeout: 60 * time.Second,
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := dialer.DialContext(ctx, network, addr)
					if err == nil {
						c.opened.Add(1)
					}
					return conn, err
				},
			},
		})
	}
	return c
}

func (c *client) close() {
	for _, pool := range c.pools {
		pool.CloseIdleConnections()
	}
}

// request is one call to be sent.
type request struct {
	method, path string
	user         product.UserID
	ticket, pass string
	key          string
	body         string
}

func (c *client) url(path string, api int) string { return c.apis[api%len(c.apis)] + path }

func (c *client) build(ctx context.Context, r request, api int) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.url(r.path, api), bytes.NewReader([]byte(r.body)))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("Hanjul-User", url.PathEscape(string(r.user)))
	for name, value := range map[string]string{"Hanjul-Ticket": r.ticket, "Hanjul-Pass": r.pass, "Idempotency-Key": r.key} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// send makes one call over the buyer's own connection to one of the APIs.
func (c *client) send(ctx context.Context, r request, conn, api int) answer {
	a := answer{sent: time.Now()}
	req, err := c.build(ctx, r, api)
	if err == nil {
		var resp *http.Response
		if resp, err = c.pools[conn%len(c.pools)].Do(req); err == nil {
			var raw []byte
			raw, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			err = errors.Join(err, resp.Body.Close())
			if err == nil && len(raw) > 0 {
				err = json.Unmarshal(raw, &a.body)
			}
			if err == nil {
				a.status = resp.StatusCode
			}
			if seconds, errAfter := strconv.Atoi(resp.Header.Get("Retry-After")); errAfter == nil {
				a.retryAfter = time.Duration(seconds) * time.Second
			}
		}
	}
	a.read, a.err = time.Now(), err
	return a
}

// cut writes a call on a connection of its own and hangs up before reading a byte of the answer.
func (c *client) cut(ctx context.Context, r request, api int) answer {
	a := answer{sent: time.Now()}
	req, err := c.build(ctx, r, api)
	if err == nil {
		var conn net.Conn
		if conn, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", req.URL.Host); err == nil {
			c.opened.Add(1)
			err = errors.Join(req.Write(conn), conn.Close())
		}
	}
	a.read, a.err = time.Now(), err
	return a
}
