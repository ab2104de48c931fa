// Package kubernetes holds deploy/kubernetes to what a cluster would say of it, and to what the binaries say: it renders every overlay and
// every part that can be chosen, checks each object against the schemas in schema, strictly, and follows names, ports, settings,
// secrets and times to where they come from. It needs no cluster and no network. `make verify-kubernetes` runs it; without
// HANJUL_KUSTOMIZE it is skipped.
package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"hanjul/deploy/local/localtest"
)

const (
	root      = "../.."
	manifests = root + "/deploy/kubernetes"
)

// object is one rendered object, as JSON has it.
type object map[string]any

// kustomize names the program that renders.
func kustomize(t *testing.T) string {
	t.Helper()
	path := os.Getenv("HANJUL_KUSTOMIZE")
	if path == "" {
		localtest.Skip(t, "HANJUL_KUSTOMIZE names no kustomize; make verify-kubernetes builds the pinned one")
	}
	return path
}

// render renders a folder that holds a kustomization.
func render(t *testing.T, dir string) []object {
	t.Helper()
	text, err := build(kustomize(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, text)
}

func build(program, dir string) (string, error) {
	var text, errText bytes.Buffer
	command := exec.Command(program, "build", dir)
	command.Stdout, command.Stderr = &text, &errText
	err := command.Run()
	if err == nil && errText.Len() > 0 {
		err = errors.New("it warns") // of deprecated fields
	}
	if err != nil {
		return "", fmt.Errorf("kustomize build %s: %w\n%s", dir, err, errText.String())
	}
	return text.String(), nil
}

// read takes YAML apart the way kubectl does: a key twice is an error, and "on" is a bool.
func read(t *testing.T, text string) []object {
	t.Helper()
	var list []object
	for document := range strings.SplitSeq(text, "\n---\n") {
		asJSON, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		var o object
		if err := json.Unmarshal(asJSON, &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		list = append(list, o)
	}
	return list
}

// overlays are the folders of deploy/kubernetes/overlays that are applied, by name, with what they render to.
var overlays = sync.OnceValues(func() (map[string]string, error) {
	all := make(map[string]string)
	entries, err := os.ReadDir(filepath.Join(manifests, "overlays"))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(manifests, "overlays", e.Name())
		if text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml")); err != nil || !strings.Contains(string(text), "kind: Kustomization") {
			continue
		}
		if all[e.Name()], err = build(os.Getenv("HANJUL_KUSTOMIZE"), dir); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// everyOverlay are the objects of every overlay by its name, for the test alone.
func everyOverlay(t *testing.T) map[string][]object {
	t.Helper()
	kustomize(t)
	texts, err := overlays()
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 2 {
		t.Fatalf("found %d overlays, expected at least two", len(texts))
	}
	all := make(map[string][]object)
	for name, text := range texts {
		all[name] = read(t, text)
	}
	return all
}

// copied is a copy of deploy/kubernetes that a test may change; it returns the folder.
func copied(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(manifests)); err != nil {
		t.Fatal(err)
	}
	return to
}

// appendLines adds lines to a file.
func appendLines(t *testing.T, path, lines string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(lines)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// get follows a path of keys and indices ("spec.template.spec.containers.0") and returns the zero value where it ends early. A dot within a
// key is written "\.".
func get[T any](of any, path string) T {
	for _, key := range strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), ".") {
		key = strings.ReplaceAll(key, "\x00", ".")
		switch node := of.(type) {
		case object:
			of = node[key]
		case map[string]any:
			of = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(node) {
				of = nil
			} else {
				of = node[i]
			}
		default:
			of = nil
		}
	}
	value, _ := of.(T)
	return value
}

func (o object) kind() string { return get[string](o, "kind") }
func (o object) name() string { return get[string](o, "metadata.name") }
func (o object) String() string {
	return strings.TrimPrefix(get[string](o, "metadata.namespace")+": ", ": ") + o.kind() + " " + o.name()
}

// pod is an object's pod template; nil for what makes no pods.
func (o object) pod() object {
	if o.kind() != "Deployment" && o.kind() != "Job" {
		return nil
	}
	return get[map[string]any](o, "spec.template")
}

// container is the only container of an object's pods.
func (o object) container() object { return get[map[string]any](o.pod(), "spec.containers.0") }

// labels are those of an object's pods.
func (o object) labels() map[string]string {
	return texts(get[map[string]any](o.pod(), "metadata.labels"))
}

func texts(of map[string]any) map[string]string {
	all := make(map[string]string, len(of))
	for key, value := range of {
		all[key] = fmt.Sprint(value)
	}
	return all
}

// of are the objects of a kind.
func of(all []object, kinds ...string) []object {
	var list []object
	for _, o := range all {
		for _, kind := range kinds {
			if o.kind() == kind {
				list = append(list, o)
			}
		}
	}
	return list
}

// one is the object of that kind and name.
func one(t *testing.T, all []object, kind, name string) object {
	t.Helper()
	for _, o := range of(all, kind) {
		if o.name() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// selects says whether a label selector takes pods with these labels.
func selects(selector any, labels map[string]string) bool {
	for key, value := range texts(get[map[string]any](selector, "matchLabels")) {
		if labels[key] != value {
			return false
		}
	}
	for _, e := range get[[]any](selector, "matchExpressions") {
		if get[string](e, "operator") != "In" {
			panic("only In is understood here")
		}
		found := false
		for _, value := range get[[]any](e, "values") {
			found = found || labels[get[string](e, "key")] == value
		}
		if !found {
			return false
		}
	}
	return true
}

// TestEveryFileIsUsed wants no file that no kustomization names.
func TestEveryFileIsUsed(t *testing.T) {
	t.Parallel()
	var named strings.Builder
	var rest []string
	err := filepath.WalkDir(manifests, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if entry.Name() != "kustomization.yaml" {
			rest = append(rest, path)
			return nil
		}
		text, err := os.ReadFile(path)
		named.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range rest {
		if !strings.Contains(named.String(), filepath.Base(path)) {
			t.Errorf("no kustomization names %s", path)
		}
	}
}
