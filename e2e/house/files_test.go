package house

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// largest is the size in bytes that no file of the tree reaches; text that people read is far below it.
const largest = 512 << 10

// TestFilesAreText wants nothing in the tree that was built: a binary that a stray `go build` left behind is easily added with the rest.
func TestFilesAreText(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Logf("no checkout, so nothing says what belongs to the tree: %v", err)
		return
	}
	listed, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(listed), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) { // removed, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(content) >= largest {
			t.Errorf("%s has %d bytes, expected fewer than %d", name, len(content), largest)
		}
		if bytes.IndexByte(content, 0) >= 0 {
			t.Errorf("%s is no text", name)
		}
	}
}
