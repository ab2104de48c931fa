package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// desk is the operators' port of admission-scheduler.
type desk struct {
	url, token string
	client     *http.Client
}

// errNotTaken says that the desk answered and will not cancel the order, however often it is asked.
var errNotTaken = errors.New("the cancel is not taken")

// cancel asks for an order to be taken back. The Idempotency-Key is the order's, so that the same cancel, asked for by anybody of us any
// number of times, is one change. nil: it is on its way, or the order is cancelled already; the event says the rest.
func (d desk) cancel(ctx context.Context, of debt) error {
	address := d.url + "/v1/products/" + url.PathEscape(of.Product) + "/orders/" + url.PathEscape(of.Order) + "/cancel"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Idempotency-Key", "unpaid-"+of.Order)
	resp, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read as far as it matters
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return err
	}
	var problem struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(body, &problem) // what is no problem has no type
	kind := problem.Type[strings.LastIndexAny(problem.Type, "/:")+1:]
	switch {
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusAccepted:
		return nil
	case resp.StatusCode == http.StatusConflict && kind == "state-conflict": // somebody else took it back
		return nil
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(body))
	default:
		return fmt.Errorf("status %d: %s: %w", resp.StatusCode, bytes.TrimSpace(body), errNotTaken)
	}
}

// chase has unpaid orders cancelled until ctx ends. Any number of processes may do it at once.
func chase(ctx context.Context, b *books, d desk) {
	for ; ctx.Err() == nil; pause(ctx, time.Second) {
		if err := chaseOnce(ctx, b, d); err != nil && ctx.Err() == nil {
			b.log.Warn("unpaid orders are looked at again", slog.Any("err", err))
		}
	}
}

// chaseOnce returns the first error that may pass. What the desk refuses for good is told, and asked for again with the others of a while ago.
func chaseOnce(ctx context.Context, b *books, d desk) error {
	debts, err := b.overdue(ctx)
	if err != nil {
		return err
	}
	for _, of := range debts {
		err := d.cancel(ctx, of)
		switch {
		case errors.Is(err, errNotTaken):
			b.log.Error("an unpaid order is not cancelled; somebody must look", slog.String("order", of.Order), slog.Any("err", err))
		case err != nil:
			return fmt.Errorf("cancel %s: %w", of.Order, err)
		}
		if err := b.asked(ctx, of.Order); err != nil {
			return err
		}
	}
	return nil
}
