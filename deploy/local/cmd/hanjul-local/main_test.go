package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// program is the name under which this test binary is the command itself.
const program = "hanjul-local"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		main()
	}
	localtest.Main(m)
}

// command gives the command as a process of its own which starts every server
// itself, and installs nothing.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	localtest.Need(t, local.Check(t.Context()))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), program)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "INSTALL=0", "HANJUL_REDIS_ADDRS=", "HANJUL_POSTGRES_URL=", "HANJUL_KAFKA_BROKERS=", "HANJUL_KAFKA=", "HANJUL_REDIS=")
	return cmd
}

func TestWithServersGivesTheCodeAndTheSkips(t *testing.T) {
	t.Parallel()
	cmd := command(t, "with-servers", "--", "sh", "-c", `echo "TestB: no moon" >>"$HANJUL_SKIP_LOG"; echo "TestB: no moon" >>"$HANJUL_SKIP_LOG"; exit 3`)
	printed, err := cmd.CombinedOutput()
	exit, found := errors.AsType[*exec.ExitError](err)
	if !found || exit.ExitCode() != 3 {
		t.Fatalf("got %v: %s", err, printed)
	}
	for _, want := range []string{"redis ", "postgres ", "kafka ", "skipped: 1\n  TestB: no moon\n"} {
		if !strings.Contains(string(printed), want) {
			t.Errorf("%q is not in: %s", want, printed)
		}
	}
}

func TestWithServersSaysWhenNothingWasSkipped(t *testing.T) {
	t.Parallel()
	printed, err := command(t, "with-servers", "--", "true").CombinedOutput()
	if err != nil || !strings.HasSuffix(string(printed), "skipped: none\n") {
		t.Fatalf("got %v: %s", err, printed)
	}
}

// TestNothingIsLeft ends the command in three ways while its servers, its child
// and a grandchild run, and finds every port closed and every process gone.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"Interrupted": syscall.SIGINT, "Terminated": syscall.SIGTERM, "Killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, "with-servers", "--", "sh", "-c",
				`sleep 1000 & echo "$HANJUL_REDIS_ADDRS"; echo "$HANJUL_POSTGRES_URL" | sed 's|.*@\([^/]*\)/.*|\1|'; echo "$HANJUL_KAFKA_BROKERS"; echo up; wait`)
			mark := "HANJUL_TEST_MARK=" + t.TempDir()
			cmd.Env = append(cmd.Env, mark)
			printed, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var last []string
			for scanner := bufio.NewScanner(printed); scanner.Scan() && scanner.Text() != "up"; {
				last = append(last, scanner.Text())
			}
			if len(last) < 3 {
				t.Fatalf("printed %q", last)
			}
			eventually(t, "the command, redis, the shell and its child carry the mark", func() bool { return len(marked(t, mark)) >= 4 })
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // its code is another test's matter
			for _, addr := range last[len(last)-3:] {
				eventually(t, addr+" is closed", func() bool { return refused(t, addr) })
			}
			eventually(t, "no process is left", func() bool { return len(marked(t, mark)) == 0 })
		})
	}
}

// TestTheNextStartEndsWhatAKilledOneLeft kills the command where nothing stands
// by to end its containers: the next one finds and removes them.
func TestTheNextStartEndsWhatAKilledOneLeft(t *testing.T) {
	for name, value := range map[string]string{"HANJUL_SERVERS": "docker", "HANJUL_REDIS_ADDRS": "", "HANJUL_POSTGRES_URL": ""} {
		t.Setenv(name, value)
	}
	localtest.NeedEngine(t, local.Check(t.Context()))
	tools := t.TempDir() // has no docker and no curl for the guard
	for _, tool := range []string{"sh", "sed", "sleep"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(tools, tool)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := command(t, "with-servers", "--", "sh", "-c", `echo "$HANJUL_REDIS_ADDRS"; echo up; sleep 1000`)
	cmd.Env = append(cmd.Env, "PATH="+tools, "TESTCONTAINERS_RYUK_DISABLED=true")
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr, line string
	for scanner := bufio.NewScanner(printed); line != "up" && scanner.Scan(); {
		addr, line = line, scanner.Text()
	}
	if line != "up" {
		t.Fatalf("it never came up; last line: %q", line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as asked
	if refused(t, addr) {
		t.Fatal("the container is gone already, so this proves nothing")
	}
	if out, err := command(t, "with-servers", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("the next start: %v: %s", err, out)
	}
	eventually(t, addr+" is closed", func() bool { return refused(t, addr) })
}

func refused(t *testing.T, addr string) bool {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", addr)
	if err == nil {
		_ = conn.Close() // only its existence matters
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// marked lists the processes whose environment holds a line.
func marked(t *testing.T, mark string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), mark+"\x00") {
			found = append(found, path)
		}
	}
	return found
}

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

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"fly"},
		{"with-servers"},
		{"with-servers", "--"},
		{"kafka", "tea"},
		{"keys"},
		{"keys", "a", "b"},
		{"keys", "-help"},
		{"shop"},
		{"shop", "--api", "http://127.0.0.1:1"},
		{"shop", "--till"},
		{"shop", "now"},
	} {
		if code, _ := dispatch(t.Context(), io.Discard, args); code != 2 {
			t.Errorf("%q: code %d", args, code)
		}
	}
}
