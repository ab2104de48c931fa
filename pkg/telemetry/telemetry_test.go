package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/telemetry"
)

// lines decodes what a JSON logger wrote, without the time.
func lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		delete(entry, "time")
		all = append(all, entry)
	}
	return all
}

func TestNewLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	level, err := telemetry.ParseLevel("Warn")
	if err != nil {
		t.Fatal(err)
	}
	logger := telemetry.NewLogger(&out, level, "queue-api", "1.2.3")
	logger.Info("not shown")
	logger.Warn("shown", "order_id", "o1")
	want := []map[string]any{{"level": "WARN", "msg": "shown", "service": "queue-api", "version": "1.2.3", "order_id": "o1"}}
	if diff := cmp.Diff(want, lines(t, out.String())); diff != "" {
		t.Fatal(diff)
	}
	if _, err := telemetry.ParseLevel("loud"); err == nil {
		t.Fatal("no error")
	}
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		repeats := telemetry.NewRepeats(slog.New(slog.NewJSONHandler(&out, nil)), time.Minute)
		ctx := context.Background()
		repeats.Over(ctx, "store away")
		for range 121 {
			repeats.Warn(ctx, "store away", slog.Int("partition", 1))
			time.Sleep(time.Second)
		}
		repeats.Error(ctx, "something else")
		repeats.Over(ctx, "store away")
		repeats.Over(ctx, "store away")
		repeats.Warn(ctx, "store away")
		want := []map[string]any{
			{"level": "WARN", "msg": "store away", "partition": 1.0},
			{"level": "WARN", "msg": "store away", "partition": 1.0, "left_out": 59.0},
			{"level": "WARN", "msg": "store away", "partition": 1.0, "left_out": 59.0},
			{"level": "ERROR", "msg": "something else"},
			{"level": "INFO", "msg": "over", "what": "store away", "left_out": 0.0},
			{"level": "WARN", "msg": "store away"},
		}
		if diff := cmp.Diff(want, lines(t, out.String())); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestNewRegistry(t *testing.T) {
	t.Parallel()
	build := telemetry.NewBuild("1.2.3", "abc")
	families, err := telemetry.NewRegistry("queue-api", build).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	for _, name := range []string{"hanjul_build_info", "go_goroutines", "process_start_time_seconds"} {
		if !slices.Contains(names, name) {
			t.Fatalf("no %s in %v", name, names)
		}
	}
	if got := build.String(); !strings.HasPrefix(got, "1.2.3 (abc, go1.") {
		t.Fatal(got)
	}
	if got := telemetry.NewBuild("", "").Version; got != "dev" {
		t.Fatal(got)
	}
	for _, buckets := range [][]float64{telemetry.DurationBuckets(), telemetry.SizeBuckets()} {
		if !slices.IsSorted(buckets) || len(slices.Compact(buckets)) != len(buckets) {
			t.Fatal(buckets)
		}
	}
}
