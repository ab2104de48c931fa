package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/e2e/sale"
)

// TestReadmeLines runs the README's lines as a newcomer would type them: join, poll until the pass is there, order, and ask until
// the verdict is there.
func TestReadmeLines(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		localtest.Need(t, err)
	}
	stack := start(t, 1)
	target, err := sale.Of(stack, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := sale.Open(t.Context(), target, "demo", 5, settings()); err != nil {
		t.Fatal(err)
	}
	lines := readmeLines(t)
	if len(lines) != 5 {
		t.Fatalf("the README has %d lines to run, expected settings, join, poll, order, verdict", len(lines))
	}
	lines[0] = strings.ReplaceAll(lines[0], "http://127.0.0.1:8080", stack.APIs()[0])
	// A person repeats the poll and the question; the script does it for them, at most 200 times.
	script := strings.Join([]string{
		"set -eu", lines[0], lines[1],
		"pass=; n=0; while [ -z \"$pass\" ] && [ $n -lt 200 ]; do n=$((n+1)); " + lines[2] + "; read -rt 0.1 <> <(:) || :; done",
		lines[3],
		"n=0; while [ $n -lt 200 ]; do n=$((n+1)); answer=$(" + lines[4] + "); case $answer in *confirmed*) break;; esac; read -rt 0.1 <> <(:) || :; done",
		`printf '%s\n' "$answer"`,
	}, "\n")
	var out, problems bytes.Buffer
	command := exec.CommandContext(t.Context(), "bash", "-c", script)
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, problems.String())
	}
	if !strings.Contains(out.String(), `"status":"confirmed"`) {
		t.Fatalf("the last line answered %s, expected a confirmed order", out.String())
	}
}

// readmeLines are the lines of the block that the README marks.
func readmeLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "<!-- a test runs these lines -->\n```sh\n")
	if !found {
		t.Fatal("the README has no block that is marked for this test")
	}
	block, _, _ := strings.Cut(after, "\n```")
	return strings.Split(block, "\n")
}
