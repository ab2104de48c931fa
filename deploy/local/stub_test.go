package local_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// launcher is the name under which this test binary starts a persistent stack,
// so that a test can kill the launcher.
const launcher = "launcher"

// TestMain makes this test binary act as any of ours when it runs under their
// names: a stack can be tested without building one.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case local.QueueAPI, local.Scheduler, local.Consumer:
		os.Exit(stub(name))
	case launcher:
		os.Exit(launch())
	}
	localtest.Main(m)
}

// binaries gives a folder with all names of this test binary.
func binaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{local.QueueAPI, local.Scheduler, local.Consumer, launcher} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// stub writes what happens to it into a journal and serves /readyz and /env.
func stub(name string) int {
	journal := func(words ...string) {
		file, err := os.OpenFile(os.Getenv("HANJUL_STUB_JOURNAL"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, _ = file.WriteString(strings.Join(append([]string{name}, words...), " ") + "\n")
			_ = file.Close()
		}
	}
	if len(os.Args) > 1 {
		journal(os.Args[1:]...)
		if os.Args[1] == "fail" {
			fmt.Println("why it failed")
			return 7
		}
		return 0
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, strings.Join(os.Environ(), "\n"))
	})
	server := http.Server{Addr: os.Getenv("HANJUL_ADMIN_LISTEN"), Handler: mux, ReadHeaderTimeout: time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	journal("start")
	select {
	case <-ctx.Done():
		journal("stop")
		return 0
	case err := <-failed:
		fmt.Println(err)
		return 1
	}
}

// launch starts a persistent stack, prints the ids of its processes and stays.
func launch() int {
	stack, err := local.StartStack(context.Background(), local.StackOptions{
		DataDir: os.Args[1], Persist: true, Private: true, BinDir: filepath.Dir(os.Args[0]), PerService: 1, Log: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, name := range []string{local.QueueAPI, local.Scheduler, local.Consumer} {
		for _, p := range stack.Processes(name) {
			fmt.Println(p.Pid())
		}
	}
	fmt.Println("up")
	select {}
}

// eventually waits until what is so, or fails the test.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-limit:
			t.Fatalf("never so: %s", what)
		case <-tick.C:
		}
	}
}

// gone reports whether a process has ended, reaped or not.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
