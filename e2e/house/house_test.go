// Package house holds the tree to its own rules: who may import whom, that the modules agree with each other, that
// every package says what it is for, and that documents name what is there. It looks at the source only and starts nothing.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hanjul/deploy/local"
)

// root is the folder of go.work; a test runs in its package's folder.
const root = "../.."

// pkg is what `go list` tells about one package.
type pkg struct {
	ImportPath string
	Dir        string
	Name       string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// packages lists every package of the workspace, tests left out, once for all tests.
var packages = sync.OnceValues(func() ([]pkg, error) {
	text, err := output("go", "list", "-json=ImportPath,Dir,Name,GoFiles,Imports,Deps", "work")
	if err != nil {
		return nil, err
	}
	var list []pkg
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var p pkg
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		}
		list = append(list, p)
	}
})

func allPackages(t *testing.T) []pkg {
	t.Helper()
	list, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// output runs a command at the root and returns what it prints.
func output(name string, args ...string) ([]byte, error) {
	command := exec.Command(name, args...)
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // as the Makefile builds, so that builds share a cache
	var errText bytes.Buffer
	command.Stderr = &errText
	text, err := command.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(errText.String()))
	}
	return text, nil
}

// built gives the binary of a service: the one that make has built, else one for this test.
func built(t *testing.T, service string) string {
	t.Helper()
	if dir := local.Built(); dir != "" {
		return filepath.Join(dir, service)
	}
	binary := filepath.Join(t.TempDir(), service)
	if _, err := output("go", "build", "-trimpath", "-o", binary, "hanjul/services/"+service); err != nil {
		t.Fatal(err)
	}
	return binary
}

// combined runs a program and returns all that it prints.
func combined(name string, args ...string) (string, error) {
	text, err := exec.Command(name, args...).CombinedOutput()
	return string(text), err
}

// files lists what git tracks, from the root.
func files(t *testing.T, patterns ...string) []string {
	t.Helper()
	text, err := output("git", append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--"}, patterns...)...)
	if err != nil {
		t.Fatal(err)
	}
	var present []string
	for name := range strings.FieldsSeq(string(text)) {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			present = append(present, name)
		}
	}
	return present
}
