package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// parsed is one file that is not a test.
type parsed struct {
	path string
	of   pkg
	file *ast.File
}

func source(t *testing.T) []parsed {
	t.Helper()
	var list []parsed
	set := token.NewFileSet()
	for _, p := range allPackages(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, parsed{path: path, of: p, file: file})
		}
	}
	return list
}

// TestOnePackageComment wants each package described in exactly one of its files.
func TestOnePackageComment(t *testing.T) {
	t.Parallel()
	described := make(map[string]int)
	for _, p := range allPackages(t) {
		if len(p.GoFiles) > 0 {
			described[p.ImportPath] = 0
		}
	}
	for _, f := range source(t) {
		if f.file.Doc.Text() != "" {
			described[f.of.ImportPath]++
		}
	}
	for path, n := range described {
		if n != 1 {
			t.Errorf("%s has %d package comments, want 1", path, n)
		}
	}
}

// TestOnlyMainTouchesTheProcess wants the environment and the signals in main.go alone: what reads them elsewhere
// cannot be run twice in one test. The local stack and the tests' own programs stand outside: they are not shipped.
func TestOnlyMainTouchesTheProcess(t *testing.T) {
	t.Parallel()
	forbidden := map[string][]string{
		"os":        {"Environ", "Getenv", "LookupEnv", "ExpandEnv", "Setenv", "Exit", "Args"},
		"os/signal": {"Notify", "NotifyContext", "Ignore", "Reset"},
	}
	for _, f := range source(t) {
		if filepath.Base(f.path) == "main.go" && f.of.Name == "main" || within(f.of.ImportPath, []string{"hanjul/deploy", "hanjul/e2e"}) {
			continue
		}
		ast.Inspect(f.file, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			base, ok := selector.X.(*ast.Ident)
			if ok && slices.Contains(forbidden[importPath(f.file, base.Name)], selector.Sel.Name) {
				t.Errorf("%s: %s.%s belongs into main.go", f.path, base.Name, selector.Sel.Name)
			}
			return true
		})
	}
}

// importPath is the path that a file imports under a name.
func importPath(file *ast.File, name string) string {
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && path[strings.LastIndex(path, "/")+1:] == name {
			return path
		}
	}
	return ""
}

// TestFilesAreShort wants fewer than 400 lines in a file: beyond that there is a second duty inside. Tests are left out.
func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, f := range source(t) {
		text, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines >= 400 {
			t.Errorf("%s has %d lines", f.path, lines)
		}
	}
}
