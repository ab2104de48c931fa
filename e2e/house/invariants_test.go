package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInvariantsNameRealTests holds docs/invariants.md against the tree: all twelve promises are there, each with tests, and every
// test that is named exists.
func TestInvariantsNameRealTests(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "invariants.md"))
	if err != nil {
		t.Fatal(err)
	}
	existing := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(source, -1) {
			existing[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w+`)
	for _, name := range named.FindAllString(string(text), -1) {
		if !existing[name] {
			t.Errorf("docs/invariants.md names %s, which is no test", name)
		}
	}
	for n := 1; n <= 12; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| I%d \|.*$`, n)).FindString(string(text))
		if named.FindString(row) == "" {
			t.Errorf("docs/invariants.md has no row with a test for I%d", n)
		}
	}
}
