package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hazardPage is docs/hazards.md, by number.
func hazardPage(t *testing.T) (text string, rows map[string][]string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, "docs", "hazards.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string][]string{}
	for _, line := range regexp.MustCompile(`(?m)^\| ([KORP]\d+) \|(.*)\|$`).FindAllStringSubmatch(string(source), -1) {
		cells := strings.Split(line[2], " | ")
		if len(cells) != 3 {
			t.Errorf("docs/hazards.md: %s has %d columns behind its number, want 3", line[1], len(cells))
			continue
		}
		if rows[line[1]] != nil {
			t.Errorf("docs/hazards.md: %s has two rows", line[1])
		}
		rows[line[1]] = cells
	}
	return string(source), rows
}

// TestHazardsHaveTestsOrReasons wants a row for every number, none left out, in which a test is named or a reason is given why there is none.
func TestHazardsHaveTestsOrReasons(t *testing.T) {
	t.Parallel()
	_, rows := hazardPage(t)
	n := 0
	for letter, last := range map[string]int{"K": 33, "O": 13, "R": 19, "P": 9} { // grows, and never shrinks
		for i := range last {
			number := fmt.Sprint(letter, i+1)
			cells := rows[number]
			if cells == nil {
				t.Errorf("docs/hazards.md has no row for %s", number)
				continue
			}
			n++
			for i, cell := range cells {
				if strings.TrimSpace(cell) == "" {
					t.Errorf("docs/hazards.md: %s: column %d is empty", number, i+2)
				}
			}
			if held := cells[2]; !testName().MatchString(held) && !regexp.MustCompile(`no test.{20,}`).MatchString(held) {
				t.Errorf("docs/hazards.md: %s names no test, and no reason behind \"no test\"", number)
			}
		}
	}
	if n != len(rows) {
		t.Errorf("docs/hazards.md has %d rows, the test knows of %d", len(rows), n)
	}
}

func testName() *regexp.Regexp { return regexp.MustCompile(`\b(Test[A-Z]\w+)(?:/(\w+))?`) }

// TestHazardsNameRealTests wants every test on the page to be there, and to be the only one of its name, unless a part of it is named; then the
// part is in its file.
func TestHazardsNameRealTests(t *testing.T) {
	t.Parallel()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	files := testFiles(t)
	places := map[string][]string{} // of a test, its files' texts
	for _, text := range files {
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			places[match[1]] = append(places[match[1]], text)
		}
	}
	page, _ := hazardPage(t)
	for _, match := range testName().FindAllStringSubmatch(page, -1) {
		name, part := match[1], match[2]
		switch {
		case name == "TestX": // the page's example
		case part != "":
			if !slices.ContainsFunc(places[name], func(text string) bool { return strings.Contains(text, `"`+part+`"`) }) {
				t.Errorf("docs/hazards.md names %s, and there is no such part of a test", match[0])
			}
		case len(places[name]) != 1:
			t.Errorf("docs/hazards.md names %s, of which there are %d", name, len(places[name]))
		}
	}
}

func testFiles(t *testing.T) (texts []string) {
	t.Helper()
	for _, name := range files(t, "*_test.go") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// TestHazardsInCommentsAreOnThePage wants each number in a comment of Go, Lua or SQL to be on the page, and O and R, which docs/joint.md
// uses for its transitions and rules, behind the word hazard wherever joint.md has no such number.
func TestHazardsInCommentsAreOnThePage(t *testing.T) {
	t.Parallel()
	_, rows := hazardPage(t)
	var (
		alone  = regexp.MustCompile(`\b[KP][1-9]\d?\b`)
		behind = regexp.MustCompile(`\bhazards? ([KORP]\d+)((?:,? (?:and )?[KORP]\d+)*)`)
		number = regexp.MustCompile(`\b[KORP]\d+\b`)
		other  = regexp.MustCompile(`\b([OR])([1-9]\d?)\b`)
		joint  = map[string]int{"O": 8, "R": 5}
	)
	for _, name := range files(t, "*.go", "*.lua", "*.sql") {
		comments := commentsOf(t, name)
		numbers := alone.FindAllString(comments, -1)
		for _, match := range behind.FindAllString(comments, -1) {
			numbers = append(numbers, number.FindAllString(match, -1)...)
		}
		for _, n := range numbers {
			if rows[n] == nil {
				t.Errorf("%s: docs/hazards.md has no %s", name, n)
			}
		}
		for _, match := range other.FindAllStringSubmatch(behind.ReplaceAllString(comments, ""), -1) {
			if n, _ := strconv.Atoi(match[2]); n > joint[match[1]] {
				t.Errorf("%s: docs/joint.md has no %s; if it is the hazard, say \"hazard %s\"", name, match[0], match[0])
			}
		}
	}
}

// commentsOf gives a file's comments.
func commentsOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(name) != ".go" {
		return strings.Join(regexp.MustCompile(`(?m)--.*$`).FindAllString(string(text), -1), "\n")
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var comments strings.Builder
	for _, group := range file.Comments {
		comments.WriteString(strings.ReplaceAll(group.Text(), "\n", " ") + "\n")
	}
	return comments.String()
}

// TestHazardsNotUsedAreNotUsed wants what the page calls not used to be absent from what ships: kafka-go's Reader and Writer, and
// Postgres' NOTIFY.
func TestHazardsNotUsedAreNotUsed(t *testing.T) {
	t.Parallel()
	notify := regexp.MustCompile(`(?i)\bpg_notify\b|\bNOTIFY\s+\w`)
	for _, f := range source(t) {
		if !within(f.of.ImportPath, []string{"hanjul/pkg", "hanjul/services"}) {
			continue
		}
		ast.Inspect(f.file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.SelectorExpr:
				base, ok := node.X.(*ast.Ident)
				if ok && base.Name == kafkaGo(f.file) && slices.Contains([]string{"Reader", "NewReader", "ReaderConfig", "Writer", "NewWriter", "WriterConfig"}, node.Sel.Name) {
					t.Errorf("%s uses kafka-go's %s", f.path, node.Sel.Name)
				}
			case *ast.BasicLit:
				if node.Kind == token.STRING && notify.MatchString(node.Value) {
					t.Errorf("%s: NOTIFY in %s", f.path, node.Value)
				}
			}
			return true
		})
	}
	for _, name := range files(t, "migrations/*.sql") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if notify.Match(text) {
			t.Errorf("%s: NOTIFY", name)
		}
	}
}

// kafkaGo is the name under which a file knows the library, or "".
func kafkaGo(file *ast.File) string {
	for _, spec := range file.Imports {
		if spec.Path.Value != `"github.com/segmentio/kafka-go"` {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return "kafka" // which the path does not say
	}
	return ""
}

// TestHazardsPinnedKafka wants a kafka-go that joins groups of every Kafka 4 (K2).
func TestHazardsPinnedKafka(t *testing.T) {
	t.Parallel()
	found := 0
	for _, name := range files(t, "*go.mod") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		version := regexp.MustCompile(`(?m)^\s*(?:require )?github\.com/segmentio/kafka-go v0\.(\d+)\.(\d+)\b`).FindStringSubmatch(string(text))
		if version == nil {
			continue
		}
		found++
		minor, _ := strconv.Atoi(version[1])
		patch, _ := strconv.Atoi(version[2])
		if minor < 4 || minor == 4 && patch < 48 {
			t.Errorf("%s: kafka-go v0.%d.%d cannot join a group of Kafka 4.0.0", name, minor, patch)
		}
	}
	if found == 0 {
		t.Error("no go.mod names kafka-go")
	}
}
