package httpapi

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/order"
)

// document reads the contract that the surface is held against.
func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// operations lists "METHOD path operationId" of the storefront's calls in the document; it relies on its indentation, two
// spaces a level, and on the tag that each operation has.
func operations(t *testing.T) []string {
	t.Helper()
	_, paths, _ := strings.Cut(document(t), "\npaths:\n")
	paths, _, _ = strings.Cut(paths, "\ncomponents:\n")
	var (
		list                   []string
		path, method, opID     string
		pathLine, methodLine   = regexp.MustCompile(`^  (/\S*):$`), regexp.MustCompile(`^    (get|put|post|delete|patch):$`)
		operationLine, tagLine = regexp.MustCompile(`^      operationId: (\w+)$`), regexp.MustCompile(`^      tags: \[(\w+)\]$`)
	)
	for line := range strings.Lines(paths) {
		line = strings.TrimSuffix(line, "\n")
		if m := pathLine.FindStringSubmatch(line); m != nil {
			path = m[1]
		}
		if m := methodLine.FindStringSubmatch(line); m != nil {
			method = strings.ToUpper(m[1])
		}
		if m := operationLine.FindStringSubmatch(line); m != nil {
			opID = m[1]
		}
		if m := tagLine.FindStringSubmatch(line); m != nil && m[1] != "operator" {
			list = append(list, method+" "+path+" "+opID)
		}
	}
	slices.Sort(list)
	return list
}

// enum lists the members of a schema that is an enumeration, written on one line or one a line.
func enum(t *testing.T, schema string) []string {
	t.Helper()
	_, text, found := strings.Cut(document(t), "\n    "+schema+":\n")
	if !found {
		t.Fatalf("no schema %s", schema)
	}
	if end := regexp.MustCompile(`(?m)^    \w`).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	_, text, _ = strings.Cut(text, "enum:")
	words := regexp.MustCompile(`[a-z][a-z_-]*`).FindAllString(text, -1)
	slices.Sort(words)
	return words
}

func TestSurfaceIsTheDocument(t *testing.T) {
	t.Parallel()
	var routes []string
	for _, r := range new(API).routes() {
		routes = append(routes, r.method+" "+r.pattern+" "+r.operation)
	}
	slices.Sort(routes)
	if diff := cmp.Diff(operations(t), routes); diff != "" {
		t.Fatalf("docs/openapi.yaml against routes.go:\n%s", diff)
	}
}

func TestProblemTypesAreTheDocuments(t *testing.T) {
	t.Parallel()
	titles := map[string]answer{}
	for _, a := range answers() {
		if other, seen := titles[a.typ]; seen && (other.title != a.title || other.status != a.status) {
			t.Errorf("%s has two titles or statuses", a.typ)
		}
		titles[a.typ] = a
		if later := a.status == 503 || a.status == 429; later != (a.retry > 0) {
			t.Errorf("%s: status %d, Retry-After %s", a.typ, a.status, a.retry)
		}
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(a.typ) {
			t.Errorf("%q is not hyphenated", a.typ)
		}
	}
	var types []string
	for typ := range titles {
		types = append(types, typ)
	}
	slices.Sort(types)
	if diff := cmp.Diff(enum(t, "ProblemType"), types); diff != "" {
		t.Fatalf("docs/openapi.yaml against errors.go:\n%s", diff)
	}
}

func TestWordsAreTheDocuments(t *testing.T) {
	t.Parallel()
	var reasons []string
	for _, reason := range order.Reasons() {
		reasons = append(reasons, string(reason))
	}
	for schema, words := range map[string][]string{
		"Status": {
			statusNotInLine, statusWaiting, statusAdmitted, statusOrdered, statusLeft, statusLapsed, statusEvicted, statusSoldOut,
			statusPaused, statusNotOpen, statusClosed, statusQueueOff,
		},
		"UnknownReason": {
			reasonNotMoving, reasonNotOffered, reasonNotWaiting, reasonNotLoaded, reasonNotKnown, reasonTooFar, reasonOff, reasonFull,
			statusPaused, statusNotOpen, statusClosed, statusSoldOut, statusQueueOff,
		},
		"OrderReason": reasons,
		"OrderStatus": {
			string(order.StatePending), string(order.StateAccepted), string(order.StateConfirmed), string(order.StateRejected),
			string(order.StateCancelled),
		},
	} {
		slices.Sort(words)
		if diff := cmp.Diff(enum(t, schema), words); diff != "" {
			t.Errorf("%s:\n%s", schema, diff)
		}
	}
}
