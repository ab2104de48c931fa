package lua_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hanjul/lua"
)

// script is one file, taken apart by its contract header.
type script struct {
	file, owner, verb string
	readOnly          bool
	keys, args        []string // names, in order
	openEnded         bool     // the last argument repeats
	header, body      string
}

var (
	fileForm = regexp.MustCompile(`^([a-z]+)_([a-z_]+)\.lua$`)
	keyForm  = regexp.MustCompile(`^-- KEYS\[(\d+)\] +([a-z]\w*) +(hash|zset|string|set|stream) +\S.*$`)
	argForm  = regexp.MustCompile(`^-- ARGV\[(\d+)(\.\.)?\] +([a-z]\w*) +(string|number|bytes|triple) +\S.*$`)
	callForm = regexp.MustCompile(`redis\.(p?call)\(\s*('?)([A-Za-z_]+)('?)\s*(?:,\s*([^\s,)]+))?`)
)

// owners says whose keys a script of each owner may name without saying so in its header.
func owners() map[string][]string {
	return map[string][]string{"stock": {"stock"}, "orderstatus": {"status", "wanted"}}
}

func ownerOf(key string) string {
	for owner, keys := range owners() {
		if slices.Contains(keys, key) {
			return owner
		}
	}
	return "waitingroom"
}

func read(t *testing.T) []script {
	t.Helper()
	names, err := fs.Glob(lua.FS, "*.lua")
	if err != nil || len(names) == 0 {
		t.Fatalf("scripts: %v, %d found", err, len(names))
	}
	var scripts []script
	for _, name := range names {
		source, err := fs.ReadFile(lua.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, parse(t, name, string(source)))
	}
	return scripts
}

func parse(t *testing.T, name, source string) script {
	t.Helper()
	parts := fileForm.FindStringSubmatch(name)
	if parts == nil {
		t.Fatalf("%s: expected a name owner_verb.lua", name)
	}
	s := script{file: name, owner: parts[1], verb: parts[2]}
	s.header, s.body, _ = strings.Cut(source, "\n\n")
	lines := strings.Split(s.header, "\n")
	switch lines[0] {
	case "#!lua":
	case "#!lua flags=no-writes":
		s.readOnly = true
	default:
		t.Fatalf("%s: expected #!lua in the first line, got %q", name, lines[0])
	}
	if len(lines) < 2 || !strings.HasPrefix(lines[1], "-- ") || !strings.HasSuffix(lines[1], ".") {
		t.Errorf("%s: expected one sentence in the second line", name)
	}
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, "--") {
			t.Errorf("%s: expected a comment in the header, got %q", name, line)
		}
		if m := keyForm.FindStringSubmatch(line); m != nil {
			s.keys = append(s.keys, m[2])
			if m[1] != strconv.Itoa(len(s.keys)) {
				t.Errorf("%s: KEYS[%s] is out of order", name, m[1])
			}
		} else if strings.HasPrefix(line, "-- KEYS") {
			t.Errorf("%s: expected KEYS[n] name type content, got %q", name, line)
		}
		if m := argForm.FindStringSubmatch(line); m != nil {
			s.args = append(s.args, m[3])
			s.openEnded = m[2] != ""
			if m[1] != strconv.Itoa(len(s.args)) {
				t.Errorf("%s: ARGV[%s] is out of order", name, m[1])
			}
		} else if strings.HasPrefix(line, "-- ARGV") {
			t.Errorf("%s: expected ARGV[n] name type meaning, got %q", name, line)
		}
	}
	return s
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, s := range read(t) {
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(s.header, "\n-- Returns ") {
				t.Error("expected a line for each return")
			}
			if strings.Count(s.header, "\n-- Retry: harmless") != 1 {
				t.Error("expected one line that says why a retry is harmless")
			}
			var foreign []string
			for _, key := range s.keys {
				if ownerOf(key) != s.owner {
					foreign = append(foreign, key)
				}
			}
			_, said, found := strings.Cut(s.header, "\n-- Foreign: ")
			if found != (len(foreign) > 0) {
				t.Errorf("keys of another owner: %v, line Foreign: %v", foreign, found)
			}
			said, _, _ = strings.Cut(said, "\n-- Retry")
			for _, key := range foreign {
				if !strings.Contains(said, key) {
					t.Errorf("the line Foreign does not name %s", key)
				}
			}
		})
	}
}

// Keys in the header, keys taken into locals and keys in calls are the same, and nothing else is ever called.
func TestKeysDeclaredAreKeysUsed(t *testing.T) {
	t.Parallel()
	for _, s := range read(t) {
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			locals := taken(s.body)
			for i, key := range s.keys {
				place := "KEYS[" + strconv.Itoa(i+1) + "]"
				if strings.Count(s.body, place) != 1 || locals[place] != key {
					t.Errorf("%s: expected once, as local %s; taken as %q", place, key, locals[place])
				}
			}
			if n := len(regexp.MustCompile(`\bKEYS\b`).FindAllString(s.body, -1)); n != len(s.keys) {
				t.Errorf("KEYS is used %d times, %d are declared", n, len(s.keys))
			}
			for i := range s.args {
				place := "ARGV[" + strconv.Itoa(i+1) + "]"
				if !strings.Contains(s.body, place) && !(s.openEnded && i == len(s.args)-1) {
					t.Errorf("%s is declared and not used", place)
				}
			}
			for _, m := range regexp.MustCompile(`ARGV\[(\d+)\]`).FindAllStringSubmatch(s.body, -1) {
				if n, _ := strconv.Atoi(m[1]); n > len(s.args) {
					t.Errorf("%s is used and not declared", m[0])
				}
			}
			used := map[string]bool{}
			for _, m := range callForm.FindAllStringSubmatch(s.body, -1) {
				if m[1] != "call" || m[2] != "'" || m[4] != "'" {
					t.Errorf("%s: expected redis.call with a command in quotes", m[0])
				}
				if m[3] == "TIME" || m[3] == "INFO" {
					continue
				}
				if m[3] == "PUBLISH" { // a channel is no key and has no slot; it comes as an argument
					if !slices.Contains(s.args, m[5]) {
						t.Errorf("%s: expected a declared channel, by its name", m[0])
					}
					continue
				}
				if !slices.Contains(s.keys, m[5]) {
					t.Errorf("%s: expected a declared key, by its name", m[0])
				}
				used[m[5]] = true
			}
			for _, key := range s.keys {
				if !used[key] {
					t.Errorf("%s is declared and never used", key)
				}
			}
			if calls := strings.Count(s.body, "redis.call") + strings.Count(s.body, "redis.pcall"); calls != len(callForm.FindAllString(s.body, -1)) {
				t.Error("a call is not of the form redis.call('COMMAND', key, …)")
			}
		})
	}
}

// Scripts cannot share code, so what must be the same in all of them is compared: the running time by which passes lapse.
func TestRunningTimeIsTheSame(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`(?s)\n-- Running time, .*?\nend\n`)
	var want string
	users := 0
	for _, s := range read(t) {
		lines := form.FindString(s.body)
		if lines == "" {
			if strings.Contains(s.body, "run_ms") || strings.Contains(s.body, "'ZCOUNT', active") {
				t.Errorf("%s: looks at leases without the lines of the running time", s.file)
			}
			continue
		}
		users++
		if want == "" {
			want = lines
		}
		if lines != want {
			t.Errorf("%s: the lines of the running time differ from those of the first script", s.file)
		}
	}
	if users < 10 {
		t.Errorf("%d scripts have them", users)
	}
}

// taken reads "local a, b = KEYS[1], KEYS[2]" and returns the name of each KEYS and ARGV element.
func taken(body string) map[string]string {
	locals := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^local ([\w, ]+) = ((?:KEYS|ARGV)\[.*)$`).FindAllStringSubmatch(body, -1) {
		names, values := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
		if len(names) != len(values) {
			continue
		}
		for i := range names {
			locals[values[i]] = names[i]
		}
	}
	return locals
}

// Every script is loaded once, by its owner, and called with the header's keys in the header's order by the file of its verb.
func TestEveryScriptHasOneCaller(t *testing.T) {
	t.Parallel()
	for _, s := range read(t) {
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join("..", "pkg", s.owner)
			if n := mentions(t, `"`+s.file+`"`); n != 1 {
				t.Errorf("it is named %d times in Go, expected once", n)
			}
			calls := keyLists(t, filepath.Join(folder, s.verb+".go"))
			if len(calls) != 1 || !slices.Equal(calls[0], s.keys) {
				t.Errorf("%s/%s.go passes %v, the header declares %v", folder, s.verb, calls, s.keys)
			}
		})
	}
}

func mentions(t *testing.T, text string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join("..", "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		n += strings.Count(string(source), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// keyLists finds the literals []string{k.Settings, …} of a file and returns their fields' names in lower case.
func keyLists(t *testing.T, path string) [][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lists [][]string
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if array, ok := literal.Type.(*ast.ArrayType); !ok || array.Len != nil {
			return true
		}
		var names []string
		for _, element := range literal.Elts {
			if call, ok := element.(*ast.CallExpr); ok {
				element = call.Fun
			}
			if selector, ok := element.(*ast.SelectorExpr); ok {
				names = append(names, strings.ToLower(selector.Sel.Name))
			}
		}
		if element, ok := literal.Type.(*ast.ArrayType).Elt.(*ast.Ident); ok && element.Name == "string" && len(names) == len(literal.Elts) {
			lists = append(lists, names)
		}
		return true
	})
	return lists
}

// A script holds up everybody else for as long as it runs, so none reads a key whole that grows with the line or the sale (hazard R8).
// What is read whole is bounded by something else, said here.
func TestScriptsReadSlices(t *testing.T) {
	t.Parallel()
	whole := map[string]string{
		"waitingroom_admit.lua HKEYS admits":   "the last 120 seconds",
		"waitingroom_audit.lua HGETALL admits": "the last 120 seconds",
		"waitingroom_audit.lua HKEYS intents":  "at most inflight_max orders, and only for the auditor",
	}
	used := map[string]bool{}
	for _, s := range read(t) {
		for _, m := range regexp.MustCompile(`redis\.call\('(\w+)', *(\w+),? ?(.*)`).FindAllStringSubmatch(s.body, -1) {
			command, key, rest := m[1], m[2], m[3]
			name := s.file + " " + command + " " + key
			switch command {
			case "KEYS", "SCAN", "SORT", "SMEMBERS", "HGETALL", "HKEYS", "HVALS", "LRANGE", "SUNION", "SINTER", "ZUNION", "ZINTER":
				used[name] = true
				if whole[name] == "" {
					t.Errorf("%s: reads all of it", name)
				}
			case "ZRANGEBYSCORE", "ZREVRANGEBYSCORE":
				if !strings.Contains(rest, "'LIMIT', 0, ") {
					t.Errorf("%s: expected a LIMIT", name)
				}
			case "XRANGE", "XREVRANGE":
				if !strings.Contains(rest, "'COUNT', ") {
					t.Errorf("%s: expected a COUNT", name)
				}
			case "ZRANGE", "ZREVRANGE":
				if bounds := strings.Split(rest, ", "); len(bounds) < 2 || strings.HasPrefix(bounds[1], "-") {
					t.Errorf("%s: expected an end that does not count from the end", name)
				}
			}
		}
	}
	for name := range whole {
		if !used[name] {
			t.Errorf("%s: allowed and not there", name)
		}
	}
}
