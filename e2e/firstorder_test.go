package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"hanjul/deploy/local"
	"hanjul/deploy/local/localtest"
)

// TestFirstOrder walks through the section "First order" of docs/deploy.md as a person would who has stores: one shell runs every marked
// block, in a new folder and with no settings around it. Only the lines that say where things are give way to the test's own.
func TestFirstOrder(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "openssl", "basenc"} {
		if _, err := exec.LookPath(tool); err != nil {
			localtest.Need(t, fmt.Errorf("%s: %w", tool, local.ErrMissing))
		}
	}
	here := map[string]string{
		// One name for all that the servers, which are not ours alone, are to keep apart.
		"name":       strings.ReplaceAll(localtest.Topic(t, "first"), "-", "_"),
		"redis":      localtest.RedisWith(t, local.RedisOptions{Standalone: true}).Addr(),
		"redis_mode": "standalone",
		"kafka":      strings.Join(localtest.Kafka(t), ","),
		"partitions": "12", "replicas": "1",
		"postgres": localtest.Postgres(t),
	}
	// No other test listens on this one of the machine's own addresses, so the ports stay free until the services take them.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	for _, name := range []string{"api", "api_admin", "desk", "desk_admin", "consumer_admin"} {
		here[name] = freeAt(t, host)
	}
	blocks := firstOrderBlocks(t, here)
	dir := t.TempDir()

	out, err := asTyped(t, dir, blocks)
	if err != nil {
		showLogs(t, filepath.Join(dir, "logs"))
		t.Fatalf("%v\n%s", err, out)
	}
	for _, said := range []string{"stops within", `"status":"confirmed"`, "audit: ok"} {
		if !strings.Contains(out, said) {
			t.Errorf("the lines never said %q:\n%s", said, out)
		}
	}
	// Nobody else is to read what was made.
	for _, name := range []string{"key-order", "key-pass", "operator-tokens", "postgres-url"} {
		info, err := os.Stat(filepath.Join(dir, "keys", name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, expected one for its owner alone", name, info.Mode())
		}
	}
}

// firstOrderBlocks are the marked blocks of the section in their order, the first with the values of here in place of the document's.
func firstOrderBlocks(t *testing.T, here map[string]string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## First order\n")
	if !found {
		t.Fatal(`docs/deploy.md has no section "First order"`)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	marked := regexp.MustCompile("(?s)<!-- (a test puts its own values here|a test runs these lines) -->\n```sh\n(.*?\n)```\n").FindAllStringSubmatch(section, -1)
	if len(marked) < 2 || marked[0][1] != "a test puts its own values here" {
		t.Fatalf("docs/deploy.md: %d marked blocks, expected first the one with the addresses", len(marked))
	}
	if marks := strings.Count(section, "```sh\n"); marks != len(marked) {
		t.Fatalf("docs/deploy.md: %d of %d blocks of the section are marked, expected all", len(marked), marks)
	}
	var script strings.Builder
	asked := regexp.MustCompile(`(?:^|\s)(\w+)=`)
	for line := range strings.Lines(marked[0][2]) {
		line, _, _ = strings.Cut(line, " #")
		for _, variable := range asked.FindAllStringSubmatch(line, -1) {
			value, known := here[variable[1]]
			if !known {
				t.Fatalf("docs/deploy.md asks for %s, for which this test has no value", variable[1])
			}
			delete(here, variable[1])
			fmt.Fprintf(&script, "%s='%s'\n", variable[1], value)
		}
	}
	if len(here) != 0 {
		t.Fatalf("docs/deploy.md does not ask for %v", here)
	}
	for _, block := range marked[1:] {
		if block[1] != "a test runs these lines" {
			t.Fatal("docs/deploy.md: two blocks with addresses, expected one")
		}
		script.WriteString(block[2])
	}
	return script.String()
}

// asTyped has one shell run the script, ends at its first fault, and leaves none of its processes behind.
func asTyped(t *testing.T, dir, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const tidy = "trap 'kill $(jobs -p) 2> /dev/null || :; wait' EXIT\ntrap 'exit 1' TERM\n"
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", tidy+script)
	command.Dir = dir
	command.Env = []string{"PATH=" + binaries(t) + string(filepath.ListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8"}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	// The shell ends its children when it is asked to end, which the kernel does when this thread is gone.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	err := command.Run()
	return out.String(), err
}

// freeAt gives host with a port that is free there, of those that the kernel gives to no outgoing connection.
func freeAt(t *testing.T, host string) string {
	t.Helper()
	for {
		addr := fmt.Sprintf("%s:%d", host, 15000+rand.IntN(17000))
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
		if err != nil {
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return addr
	}
}
