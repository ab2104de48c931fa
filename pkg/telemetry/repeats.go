package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Repeats logs what a loop runs into, such as a store that is away, without a line per round: a message is logged at
// once when it is new, then at most once per interval with the number of times it was left out. It is safe for concurrent use.
type Repeats struct {
	logger *slog.Logger
	every  time.Duration

	mu   sync.Mutex
	seen map[string]*repeat
}

type repeat struct {
	logged  time.Time
	skipped int
}

// NewRepeats returns a Repeats that logs each message at most once per interval. Messages must be constants, as
// everywhere: each one seen is remembered.
func NewRepeats(logger *slog.Logger, every time.Duration) *Repeats {
	return &Repeats{logger: logger, every: every, seen: make(map[string]*repeat)}
}

// Warn logs at warn level what was tried again.
func (r *Repeats) Warn(ctx context.Context, message string, attrs ...slog.Attr) {
	r.log(ctx, slog.LevelWarn, message, attrs)
}

// Error logs at error level what somebody must act upon.
func (r *Repeats) Error(ctx context.Context, message string, attrs ...slog.Attr) {
	r.log(ctx, slog.LevelError, message, attrs)
}

// Over says that what message complained about is over: if it was logged, one line tells so, and the next complaint is
// logged at once. Call it on every good round; it costs a look into a map.
func (r *Repeats) Over(ctx context.Context, message string) {
	r.mu.Lock()
	entry := r.seen[message]
	delete(r.seen, message)
	r.mu.Unlock()
	if entry != nil {
		r.logger.LogAttrs(ctx, slog.LevelInfo, "over", slog.String("what", message), slog.Int("left_out", entry.skipped))
	}
}

func (r *Repeats) log(ctx context.Context, level slog.Level, message string, attrs []slog.Attr) {
	r.mu.Lock()
	entry, now := r.seen[message], time.Now()
	if entry != nil && now.Sub(entry.logged) < r.every {
		entry.skipped++
		r.mu.Unlock()
		return
	}
	skipped := 0
	if entry != nil {
		skipped = entry.skipped
	}
	r.seen[message] = &repeat{logged: now}
	r.mu.Unlock()
	if skipped > 0 {
		attrs = append(attrs[:len(attrs):len(attrs)], slog.Int("left_out", skipped))
	}
	r.logger.LogAttrs(ctx, level, message, attrs...) //nolint:sloglint // constant at every caller, which is what the rule is for
}
