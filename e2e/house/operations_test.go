package house

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const operationsPage = "docs/operations.md"

// TestOperations compares the tables of settings and metrics in docs/operations.md with what the binaries and the
// source say; `make fix` (-update) writes them.
func TestOperations(t *testing.T) {
	path := filepath.Join(root, operationsPage)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	want := section(t, section(t, page, "settings", settingsTables(t)), "metrics", metricsTable(t))
	// A name in running text is one of the table's, too.
	for _, mentioned := range regexp.MustCompile("`(hanjul_[a-z_]+)`").FindAllStringSubmatch(want, -1) {
		if !strings.Contains(want, "| `"+mentioned[1]+"` |") {
			t.Errorf("%s mentions %s, which no source has", operationsPage, mentioned[1])
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("%s is behind the tree; `make fix` writes its tables:\n%s", operationsPage, diff)
	}
}

var update = flag.Bool("update", false, "write the generated tables of "+operationsPage)

// section replaces what stands between a section's two marks.
func section(t *testing.T, page, name, content string) string {
	t.Helper()
	begin, end := "<!-- begin "+name+" (make fix writes this) -->\n", "<!-- end "+name+" -->"
	before, rest, found := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no section %s", operationsPage, name)
	}
	return before + begin + content + end + after
}

// settingsTables asks each binary for -help.
func settingsTables(t *testing.T) string {
	t.Helper()
	entry := regexp.MustCompile(`(?m)^(HANJUL_[A-Z_]+)( \(or .*\))?\n    (.*)\n    (.*); (no default|default .*)$`)
	var tables strings.Builder
	for _, service := range services {
		binary := built(t, filepath.Base(service))
		help, err := combined(binary, "-help")
		if err != nil {
			t.Fatal(service, err, help)
		}
		fmt.Fprintf(&tables, "\n### %s\n\n| Setting | Meaning | Form | Default |\n|---|---|---|---|\n", filepath.Base(service))
		entries := entry.FindAllStringSubmatch(help, -1)
		if len(entries) == 0 {
			t.Errorf("%s -help lists no settings", service)
		}
		for _, e := range entries {
			name, form, def := e[1], strings.TrimSuffix(e[4], ", such as 250ms or 1m30s"), strings.TrimPrefix(e[5], "default ")
			if e[2] != "" {
				form += "; or a file's path in `…_FILE`"
			}
			if def == "no default" {
				def = ""
			} else {
				def = "`" + def + "`"
			}
			fmt.Fprintf(&tables, "| `%s` | %s | %s | %s |\n", name, e[3], form, def)
		}
	}
	return tables.String() + "\n"
}

// metricsTable reads names and help texts from the source. A metric's name stands whole in it, so that it can be
// searched for: as Name beside Help, or as the first of two texts of a call.
func metricsTable(t *testing.T) string {
	t.Helper()
	files := source(t)
	constants := stringConstants(files)
	rows := make(map[string]string)
	for _, f := range files {
		if !within(f.of.ImportPath, append([]string{"hanjul/pkg"}, services...)) {
			continue
		}
		value := func(e ast.Expr) string { return text(e, constants[f.of.ImportPath]) }
		add := func(name, help string) {
			if strings.HasPrefix(name, "hanjul_") && help != "" {
				rows[name] = fmt.Sprintf("| `%s` | %s | `%s` |\n", name, help, strings.TrimPrefix(f.of.ImportPath, "hanjul/"))
			}
		}
		ast.Inspect(f.file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.CompositeLit:
				add(value(field(n, "Name")), value(field(n, "Help")))
			case *ast.CallExpr:
				if len(n.Args) >= 2 {
					add(value(n.Args[0]), value(n.Args[1]))
				}
			}
			return true
		})
	}
	var table strings.Builder
	table.WriteString("\n| Metric | What it tells | Where |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		table.WriteString(rows[name])
	}
	// What is read no such way would be left out without a word.
	literal := regexp.MustCompile(`^hanjul_[a-z_]+$`)
	for _, f := range files {
		ast.Inspect(f.file, func(node ast.Node) bool {
			if l, ok := node.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if name := text(l, nil); literal.MatchString(name) && rows[name] == "" {
					t.Errorf("%s: %s is no metric that %s can tell about", f.path, name, operationsPage)
				}
			}
			return true
		})
	}
	return table.String() + "\n"
}

// stringConstants are the constants of each package that are plain texts.
func stringConstants(files []parsed) map[string]map[string]string {
	all := make(map[string]map[string]string)
	for _, f := range files {
		if all[f.of.ImportPath] == nil {
			all[f.of.ImportPath] = make(map[string]string)
		}
		ast.Inspect(f.file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					if content := text(spec.Values[i], nil); content != "" {
						all[f.of.ImportPath][name.Name] = content
					}
				}
			}
			return true
		})
	}
	return all
}

// text is the content of a string literal, a sum of such, or a constant; empty for anything else.
func text(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if content, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return content
		}
	case *ast.Ident:
		return constants[e.Name]
	case *ast.BinaryExpr:
		left, right := text(e.X, constants), text(e.Y, constants)
		if left != "" && right != "" {
			return left + right
		}
	}
	return ""
}

func field(literal *ast.CompositeLit, name string) ast.Expr {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return pair.Value
			}
		}
	}
	return nil
}
