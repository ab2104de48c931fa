// Package bench measures hanjul against a ceiling that is measured in the same run on the same machine. Every benchmark ends in a
// line "bench NAME: N ops/s, ceiling M ops/s, ratio R".
package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hanjul/deploy/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// report prints the line of a benchmark, and gives the ratio to the benchmark's own metrics.
func report(b *testing.B, name string, ops, ceiling float64) {
	b.Helper()
	b.ReportMetric(ops/ceiling, "ratio")
	fmt.Printf("bench %s: %.0f ops/s, ceiling %.0f ops/s, ratio %.2f\n", name, ops, ceiling, ops/ceiling)
}

// build makes the services' binaries in a folder of the benchmark's own.
func build(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	command := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", dir+string(filepath.Separator),
		"hanjul/services/queue-api", "hanjul/services/admission-scheduler", "hanjul/services/order-consumer")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		b.Fatal(err)
	}
	return dir
}
