package telemetry_test

import (
	"errors"
	"strings"
	"testing"

	"hanjul/pkg/telemetry"
)

const sample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceparent(t *testing.T) {
	t.Parallel()

	t.Run("RoundTrip", func(t *testing.T) {
		t.Parallel()
		for _, header := range []string{sample, telemetry.NewTraceparent().String()} {
			trace, err := telemetry.ParseTraceparent(header)
			if err != nil || trace.String() != header {
				t.Fatal(header, trace, err)
			}
		}
	})

	t.Run("AChildKeepsTheTraceAndHasItsOwnSpan", func(t *testing.T) {
		t.Parallel()
		child := telemetry.ContinueTraceparent(sample).String()
		if child[:36] != sample[:36] || child[36:52] == sample[36:52] || child[53:] != sample[53:] {
			t.Fatal(child)
		}
	})

	t.Run("ALaterVersionIsReadAsOurs", func(t *testing.T) {
		t.Parallel()
		trace, err := telemetry.ParseTraceparent("cc" + sample[2:] + "-more")
		if err != nil || trace.String() != sample {
			t.Fatal(trace, err)
		}
	})

	t.Run("WhatIsNotOneIsIgnored", func(t *testing.T) {
		t.Parallel()
		for _, header := range []string{
			"", "00", strings.ToUpper(sample), "ff" + sample[2:], sample + "-more", "cc" + sample[2:] + "more", sample[:54] + "g",
			"00-" + strings.Repeat("0", 32) + sample[35:], sample[:36] + strings.Repeat("0", 16) + "-01",
			strings.ReplaceAll(sample, "-", "_"),
		} {
			if _, err := telemetry.ParseTraceparent(header); !errors.Is(err, telemetry.ErrTraceparent) {
				t.Fatalf("%q: %v", header, err)
			}
			if fresh := telemetry.ContinueTraceparent(header); fresh.IsZero() {
				t.Fatalf("%q: no trace", header)
			}
		}
	})

	t.Run("TheZeroValueIsNoTrace", func(t *testing.T) {
		t.Parallel()
		var none telemetry.Traceparent
		if none.String() != "" || none.TraceID() != "" || none.Child().IsZero() {
			t.Fatal(none)
		}
	})
}

func FuzzParseTraceparent(f *testing.F) {
	f.Add(sample)
	f.Fuzz(func(t *testing.T, header string) {
		trace, err := telemetry.ParseTraceparent(header)
		if err != nil {
			return
		}
		again, err := telemetry.ParseTraceparent(trace.String())
		if err != nil || again != trace {
			t.Fatal(header, trace, again, err)
		}
	})
}
