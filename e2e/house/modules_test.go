package house

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is what `go mod edit -json` tells about a go.mod.
type module struct {
	Module  struct{ Path string }
	Go      string
	Require []struct {
		Path     string
		Indirect bool
	}
	Replace []struct {
		Old struct{ Path string }
		New struct{ Path string }
	}
}

// TestModulesAgree wants one go line everywhere and the same whole block of replace lines in every module: a
// dependency's replace lines do not count, and the tests of a dependency count too.
func TestModulesAgree(t *testing.T) {
	t.Parallel()
	var work struct {
		Go  string
		Use []struct{ DiskPath string }
	}
	decode(t, &work, "go", "work", "edit", "-json")

	modules, dirs := make(map[string]module), make(map[string]string)
	for _, use := range work.Use {
		var m module
		decode(t, &m, "go", "mod", "edit", "-json", filepath.Join(use.DiskPath, "go.mod"))
		modules[m.Module.Path], dirs[m.Module.Path] = m, filepath.Clean(use.DiskPath)
		if m.Go != work.Go {
			t.Errorf("%s says go %s, go.work says %s", m.Module.Path, m.Go, work.Go)
		}
	}
	for path, m := range modules {
		got := make(map[string]string)
		for _, replace := range m.Replace {
			got[replace.Old.Path] = filepath.Join(dirs[path], replace.New.Path)
		}
		if diff := cmp.Diff(dirs, got); diff != "" {
			t.Errorf("the replace lines of %s do not lead to the modules of go.work:\n%s", path, diff)
		}
	}
	for _, name := range files(t, "*go.mod") {
		var m module
		decode(t, &m, "go", "mod", "edit", "-json", name)
		if _, ok := modules[m.Module.Path]; !ok {
			t.Errorf("%s is not in go.work", name)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
		t.Error("a go.mod at the root: ./... would cover half of the tree and say nothing")
	}
}

func decode(t *testing.T, into any, name string, args ...string) {
	t.Helper()
	text, err := output(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// TestDependenciesAreExplained wants a line in docs/dependencies.md for every module that one of ours requires directly.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files(t, "*go.mod") {
		var m module
		decode(t, &m, "go", "mod", "edit", "-json", name)
		for _, require := range m.Require {
			ours := within(require.Path, []string{"hanjul"})
			if !ours && !require.Indirect && !strings.Contains(string(page), "| `"+require.Path+"` |") {
				t.Errorf("%s requires %s, which docs/dependencies.md does not explain", name, require.Path)
			}
		}
	}
}
