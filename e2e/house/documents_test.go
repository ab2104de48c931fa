package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentsNameWhatExists follows every relative link, to its heading where it names one, and looks up every path and make target in back quotes.
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
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			page := name
			if target != "" {
				page = filepath.Join(filepath.Dir(name), target)
				exists(t, name, page)
			}
			if anchor != "" && !slices.Contains(anchors(t, page, "#+"), anchor) {
				t.Errorf("%s: %s has no heading for #%s", name, page, anchor)
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

// TestDeployPageListsItsSections wants the list at the top of the page to be its sections, in their order.
func TestDeployPageListsItsSections(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, deployPage))
	if err != nil {
		t.Fatal(err)
	}
	top, _, _ := strings.Cut(string(text), "\n## ")
	var listed []string
	for _, entry := range regexp.MustCompile(`(?m)^- \[.*\]\(#(.*)\): `).FindAllStringSubmatch(top, -1) {
		listed = append(listed, entry[1])
	}
	if sections := anchors(t, deployPage, "##"); !slices.Equal(listed, sections) {
		t.Errorf("%s lists %q, expected %q", deployPage, listed, sections)
	}
}

// anchors are those of a page's headings of a level, such as "##", in their order.
func anchors(t *testing.T, page, level string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Error(err)
	}
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^`+level+` (.+)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
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
