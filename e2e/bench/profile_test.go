package bench

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hanjul/deploy/local"
)

// profile keeps what a process tells about itself while a benchmark runs, in the folder that HANJUL_BENCH_PROFILE names: a CPU
// profile of its first seconds, and its metrics at the end. Without the variable it does nothing. Call what it returns at the end.
func profile(b *testing.B, name string, process *local.Process) (end func()) {
	b.Helper()
	dir := os.Getenv("HANJUL_BENCH_PROFILE")
	if dir == "" {
		return func() {}
	}
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		save(b, "http://"+process.AdminAddr()+"/debug/pprof/profile?seconds=3", filepath.Join(dir, name+".pprof"))
	}()
	return func() {
		<-taken
		save(b, "http://"+process.AdminAddr()+"/metrics", filepath.Join(dir, name+".metrics"))
	}
}

func save(b *testing.B, url, file string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		b.Error(err)
		return
	}
	response, err := http.DefaultClient.Do(request)
	for err != nil && ctx.Err() == nil { // it has only just been started
		response, err = http.DefaultClient.Do(request)
	}
	if err != nil {
		b.Error(err)
		return
	}
	defer response.Body.Close() //nolint:errcheck // nothing is left to read
	body, err := io.ReadAll(response.Body)
	if err == nil {
		err = os.WriteFile(file, body, 0o600)
	}
	if err != nil {
		b.Error(err)
	}
}
