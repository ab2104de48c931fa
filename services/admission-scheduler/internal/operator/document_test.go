package operator_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The document's operator calls are those that the desk has, and its list of problem types is what the desk answers with.
func TestDeskIsTheDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document := string(raw)
	source, err := os.ReadFile("desk.go")
	if err != nil {
		t.Fatal(err)
	}
	paths, _, _ := strings.Cut(document, "\ncomponents:\n")
	var told []string
	var path, method string
	for line := range strings.Lines(paths) {
		if m := regexp.MustCompile(`^  (/\S*):\n$`).FindStringSubmatch(line); m != nil {
			path = m[1]
		}
		if m := regexp.MustCompile(`^    (get|put|post|delete):\n$`).FindStringSubmatch(line); m != nil {
			method = strings.ToUpper(m[1])
		}
		if line == "      tags: [operator]\n" {
			told = append(told, method+" "+path)
		}
	}
	// The desk's GET shares its path with the storefront's and is told in the text of PUT.
	told = append(told, "GET /v1/products/{product}")
	var served []string
	for _, m := range regexp.MustCompile(`mux\.HandleFunc\("([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		served = append(served, m[1])
	}
	slices.Sort(told)
	slices.Sort(served)
	if diff := cmp.Diff(told, served); diff != "" {
		t.Fatal(diff)
	}

	answers, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, m := range regexp.MustCompile(`p\.Title(?:, p\.Fields)? = [\w.]+, "([a-z-]+)"`).FindAllStringSubmatch(string(answers), -1) {
		types = append(types, m[1])
	}
	_, list, _ := strings.Cut(document, "\n    OperatorProblemType:\n")
	list, _, _ = strings.Cut(list, "\n    OperatorSettings:\n")
	_, list, _ = strings.Cut(list, "enum:")
	listed := regexp.MustCompile(`[a-z][a-z-]*`).FindAllString(list, -1)
	slices.Sort(types)
	slices.Sort(listed)
	if diff := cmp.Diff(listed, slices.Compact(types)); diff != "" {
		t.Fatal(diff)
	}
}
