package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
)

// demo prepares the demo's command on servers of its own, marked so that its children are found by their environment.
func demo(t *testing.T, env ...string) (command *exec.Cmd, mark string) {
	t.Helper()
	data := localtest.Dir(t)
	mark = "HANJUL_TEST_MARK=" + data
	command = exec.Command(filepath.Join(binaries(t), "demo")) // ended by the signals that the tests send
	for _, line := range os.Environ() {
		// The suite's shared servers are not the demo's to sell on.
		if name, _, _ := strings.Cut(line, "="); name != "HANJUL_REDIS_ADDRS" && name != "HANJUL_POSTGRES_URL" && name != "HANJUL_KAFKA_BROKERS" {
			command.Env = append(command.Env, line)
		}
	}
	command.Env = append(command.Env, append([]string{mark, "DATA=" + data}, env...)...)
	return command, mark
}

// TestDemoEndsWithItsVerdict is the newcomer's first command on a small sale: exit code 0, and the last line.
func TestDemoEndsWithItsVerdict(t *testing.T) {
	t.Parallel()
	command, mark := demo(t, "BUYERS=120", "STOCK=40", "SEED=7")
	out, err := command.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\naudit: ok\n") {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, word := range []string{"rate 50/s", "pass life 5s", "order_ttl 20s", "void_grace 5s", "every buyer accounted for", "free slot to next grant", "I10 ok"} {
		if !strings.Contains(string(out), word) {
			t.Errorf("the output lacks %q:\n%s", word, out)
		}
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Fatalf("processes are left: %v", left)
	}
}

// TestDemoInterrupted presses Ctrl-C at three points: while servers start, when the sale is announced, and in its middle. Nothing is
// left, and the last line says that nothing was proved.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"starting the servers", "product demo-", "joined "} {
		t.Run("after "+after, func(t *testing.T) {
			command, mark := demo(t, "BUYERS=2000", "STOCK=200")
			pipe, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var problems bytes.Buffer
			command.Stderr = &problems
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			last, interrupted := "", false
			for lines := bufio.NewScanner(pipe); lines.Scan(); {
				last = lines.Text()
				if !interrupted && strings.HasPrefix(last, after) {
					interrupted = true
					if err := command.Process.Signal(syscall.SIGINT); err != nil {
						t.Fatal(err)
					}
				}
			}
			err = command.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || last != "audit: FAILED" {
				t.Fatalf("ended with %v and the last line %q; expected exit code 1 and audit: FAILED\n%s", err, last, problems.String())
			}
			limit := time.Now().Add(30 * time.Second)
			for len(marked(t, mark)) > 0 {
				if time.Now().After(limit) {
					t.Fatalf("processes are left: %v", marked(t, mark))
				}
			}
		})
	}
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
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(mark+"\x00")) {
			found = append(found, path)
		}
	}
	return found
}
