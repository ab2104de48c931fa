package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentsNameWhatExists follows every relative link, and looks up every path and make target in back quotes.
func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	var (
		link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
		quoted = regexp.MustCompile("`([^`\n]+)`")
		// What is built or made at run time is named, too, but is not in the tree.
		path = regexp.MustCompile(`^(services|pkg|lua|migrations|deploy|e2e|docs|\.ci)/[A-Za-z0-9._/-]*$`)
		// A package's member is named behind a dot.
		member = regexp.MustCompile(`\.[A-Z][A-Za-z0-9]*$`)
		make   = regexp.MustCompile(`^make ([a-z][a-z-]*)`)
	)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files(t, "*.md") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(found[1], "#")
			if target != "" && !strings.Contains(target, "://") && !strings.HasPrefix(target, "mailto:") {
				exists(t, name, filepath.Join(filepath.Dir(name), target))
			}
		}
		for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
			if path.MatchString(found[1]) {
				exists(t, name, member.ReplaceAllString(found[1], ""))
			}
			if target := make.FindStringSubmatch(found[1]); target != nil && !hasTarget(string(makefile), target[1]) {
				t.Errorf("%s: the Makefile has no target %s", name, target[1])
			}
		}
	}
}

func exists(t *testing.T, document, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s: there is no %s", document, path)
	}
}

func hasTarget(makefile, target string) bool {
	return slices.ContainsFunc(strings.Split(makefile, "\n"), func(line string) bool {
		return strings.HasPrefix(line, target+":")
	})
}
