package sale

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"hanjul/pkg/product"
)

// desk calls the operator API as an operator would.
type desk struct {
	urls  []string // of every scheduler; another one is tried after a failure
	token string
}

// do sends one operator call and repeats it with the same Idempotency-Key while the desk is away, which is safe: a request id
// is carried out once.
func (d desk) do(ctx context.Context, method, path string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	id := rand.Text()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for attempt := 0; ; attempt++ {
		status, answer, err := d.once(ctx, client, method, d.urls[attempt%len(d.urls)]+path, id, raw)
		switch {
		case err == nil && status < 300:
			return nil
		case err == nil && status != http.StatusServiceUnavailable:
			return fmt.Errorf("operator call %s %s: status %d: %s", method, path, status, answer)
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return fmt.Errorf("operator call %s %s: status %d: %w", method, path, status, ctx.Err())
		}
	}
}

func (d desk) once(ctx context.Context, client *http.Client, method, url, id string, raw []byte) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(raw))
	if err != nil {
		return 0, "", fmt.Errorf("operator call %s: %w", url, err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Idempotency-Key", id)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("operator call %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }() // a body that was read to its end has nothing left to tell
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return 0, "", fmt.Errorf("operator call %s: %w", url, err)
	}
	return resp.StatusCode, string(answer), nil
}

// Operate sends one operator call, and repeats it until the desk answers.
func Operate(ctx context.Context, stack Stack, method, path string, body any) error {
	return desk{stack.OperatorURLs, stack.OperatorToken}.do(ctx, method, path, body)
}

// put creates the product with its stock, or with 0 gives one that is there other settings.
func put(ctx context.Context, stack Stack, p product.ID, stock int, s Settings) error {
	body := map[string]any{
		"rate": s.Rate, "burst": s.Burst, "capacity": s.Capacity, "pass_ms": s.PassLife.Milliseconds(),
		"order_ttl_ms": s.OrderTTL.Milliseconds(),
	}
	if stock > 0 {
		body["stock"] = stock
	}
	return Operate(ctx, stack, http.MethodPut, "/v1/products/"+string(p), body)
}

// Open creates the product with its stock, opens it, and waits until the storefront says so.
func Open(ctx context.Context, stack Stack, p product.ID, stock int, s Settings) error {
	api := stack.APIs[0]
	if err := put(ctx, stack, p, stock, s); err != nil {
		return err
	}
	if err := Operate(ctx, stack, http.MethodPost, "/v1/products/"+string(p)+"/open", struct{}{}); err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for {
		state, left, err := look(ctx, client, api, p)
		// Stock travels through the log: the line is ready when units are known, and more than none where there are some.
		if err == nil && state == "open" && left != nil && (*left || stock == 0) {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return fmt.Errorf("product %s did not open: state %q: %w", p, state, ctx.Err())
		}
	}
}

func look(ctx context.Context, client *http.Client, api string, p product.ID) (state string, left *bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/v1/products/"+string(p), nil)
	if err != nil {
		return "", nil, fmt.Errorf("read product %s: %w", p, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", nil, fmt.Errorf("read product %s: %w", p, err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	var view struct {
		State string `json:"state"`
		Left  *bool  `json:"units_left"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&view); err != nil {
		return "", nil, fmt.Errorf("read product %s: %w", p, err)
	}
	return view.State, view.Left, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
