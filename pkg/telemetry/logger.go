// Package telemetry makes what a process tells about itself: its logger, its metrics registry, its build and the trace
// context that travels from hop to hop. It owns the form of these, so that three binaries look alike to whoever reads them;
// it keeps nothing global, starts no goroutine and knows no business word: each package counts and logs its own.
package telemetry

import (
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes JSON lines with the service and its version to w. It is safe for concurrent use.
func NewLogger(w io.Writer, level slog.Leveler, service, version string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})).With("service", service, "version", version)
}

// ParseLevel understands debug, info, warn and error, in any case.
func ParseLevel(text string) (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(text))
	return level, err
}
