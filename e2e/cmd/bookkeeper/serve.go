package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"time"
)

var errWrongCall = errors.New("wrong call")

// payments answers PUT /orders/{order}/payments/{payment}, which stands for what the shop's payment provider calls: safe to repeat, and
// repeated until it is answered with 200. {"state": "taken"}, "early" or "refund" says what became of it.
func payments(b *books) http.Handler {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	name := regexp.MustCompile(`^[!-~]{1,128}$`)
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /orders/{order}/payments/{payment}", func(w http.ResponseWriter, r *http.Request) {
		order, payment := r.PathValue("order"), r.PathValue("payment")
		var state string
		var err error
		switch {
		case !uuid.MatchString(order):
			err = fmt.Errorf("order: expected a lower-case UUID: %w", errWrongCall)
		case !name.MatchString(payment):
			err = fmt.Errorf("payment: expected 1-128 printable ASCII characters: %w", errWrongCall)
		default:
			state, err = b.pay(r.Context(), order, payment)
		}
		status, answer := http.StatusOK, map[string]string{"payment": payment, "state": state}
		switch {
		case errors.Is(err, errWrongCall):
			status, answer = http.StatusBadRequest, map[string]string{"error": err.Error()}
		case errors.Is(err, errOtherOrder):
			status, answer = http.StatusConflict, map[string]string{"error": err.Error()}
		case err != nil:
			b.log.Warn("a payment is not noted", slog.Any("err", err))
			status, answer = http.StatusServiceUnavailable, map[string]string{"error": "not noted; say it again"}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // who has gone says it again
	})
	return mux
}

// serve answers until ctx ends, then lets what is in hand finish.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := server.Shutdown(stopping)
	_ = <-ended // that it is shut down
	return err
}
