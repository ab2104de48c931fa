// Package e2e tests hanjul from the outside: our binaries as processes, real servers, simulated buyers, and the auditor.
package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// binaries returns the folder of our binaries, which it builds once for all tests of this package where make has not.
func binaries(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var built = sync.OnceValues(func() (string, error) {
	if dir := local.Built(); dir != "" {
		return dir, nil
	}
	// Beside what make builds: a folder that this checkout alone uses, and that spares the next run the linking.
	dir, err := filepath.Abs(filepath.Join("..", "bin", "e2e"))
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", dir+string(filepath.Separator),
		"hanjul/services/queue-api", "hanjul/services/admission-scheduler", "hanjul/services/order-consumer",
		"hanjul/e2e/cmd/demo", "hanjul/e2e/cmd/bookkeeper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	return dir, build.Run()
})

// quick is a sale's cadence and consumer settings for tests: shorter than the demo's, so that a hundred buyers take seconds.
func quick() map[string]string {
	return map[string]string{
		"HANJUL_API_POLL_NEAR": "200ms", "HANJUL_API_POLL_MID": "400ms", "HANJUL_API_POLL_FAR": "400ms", "HANJUL_CONSUMER_VOID_GRACE": "5s",
	}
}

// settings are a product's in tests.
func settings() sale.Settings {
	return sale.Settings{Rate: 60, Burst: 6, Capacity: 20, PassLife: 4 * time.Second, OrderTTL: 20 * time.Second, VoidGrace: 5 * time.Second}
}

// start runs the binaries on servers of the test's own, since sales kill and empty them, and stops all of it with the test.
func start(t *testing.T, perService int) *local.Stack {
	t.Helper()
	return startIn(t, local.StackOptions{DataDir: t.TempDir(), PerService: perService})
}

// startIn is start with a folder, and perhaps with state that survives. What was logged is shown when the test failed.
func startIn(t *testing.T, options local.StackOptions) *local.Stack {
	t.Helper()
	options.Private, options.BinDir, options.Log = true, binaries(t), t.Output()
	if options.Env == nil {
		options.Env = quick()
	}
	stack, err := local.StartStack(t.Context(), options)
	localtest.Need(t, err)
	t.Cleanup(func() {
		stop(t, stack)
		if t.Failed() {
			showLogs(t, filepath.Join(options.DataDir, "logs"))
		}
	})
	return stack
}

// stop may be called before the test's own end.
func stop(t *testing.T, stack *local.Stack) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := stack.Stop(ctx); err != nil {
		t.Errorf("stop the stack: %v", err)
	}
}

// showLogs prints the end of each log.
func showLogs(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Logf("== %s\n%s", filepath.Base(file), text[max(0, len(text)-6000):])
	}
}

// in skips the test but where the suite runs as this target of the Makefile: what takes long, and has nothing to do with what a change usually
// touches, is run there once and not in every `make test`.
func in(t *testing.T, target string, so bool) {
	t.Helper()
	if !so {
		localtest.Skip(t, "takes long, and is run by make "+target)
	}
}

// inKafka and inCluster are in for the targets that take such tests.
func inKafka(t *testing.T) {
	t.Helper()
	given := local.GivenByEnvironment()
	in(t, "test-kafka", given.Jars || given.Docker)
}

func inCluster(t *testing.T) {
	t.Helper()
	in(t, "test-redis-primary", local.GivenByEnvironment().RedisKind == "cluster")
}
