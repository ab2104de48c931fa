package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRedisRights holds the document to the rules that are tested: it shows each of them whole.
func TestRedisRights(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	document, err := os.ReadFile(filepath.Join(root, "docs", "deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy", "redis", "*.acl"))
	if err != nil || len(files) != 3 {
		t.Fatalf("rules: %v, %v, expected one file for each service", files, err)
	}
	for _, file := range files {
		rules, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(document), "\n    "+strings.TrimSpace(string(rules))+"\n") {
			t.Errorf("docs/deploy.md does not show the rules of %s", filepath.Base(file))
		}
	}
}
