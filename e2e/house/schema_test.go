package house

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hanjul/pkg/order"
)

// schemas compiles every file of docs/schema, by its name without the ending. The compiler reads no address: an $id is a name.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "schema", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	compiled := make(map[string]*jsonschema.Schema)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(file)
		if errClose := file.Close(); err != nil || errClose != nil {
			t.Fatalf("%s: %v, %v", path, err, errClose)
		}
		head, _ := document.(map[string]any)
		id := "urn:hanjul:schema:" + name
		if head["$id"] != id || head["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: expected the $id %s and draft 2020-12, got %v and %v", path, id, head["$id"], head["$schema"])
		}
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		if err := compiler.AddResource(id, document); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if compiled[name], err = compiler.Compile(id); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return compiled
}

// samples are those of pkg/order, by the name of their schema, which is theirs.
func samples(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "pkg", "order", "testdata", "*_v*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	found := make(map[string][]byte)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(path), ".json")] = text
	}
	return found
}

func members(t *testing.T, text []byte) map[string]any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		t.Fatalf("%s is no object", text)
	}
	return object
}

func without(object map[string]any, name string) map[string]any {
	less := maps.Clone(object)
	delete(less, name)
	return less
}

func with(object map[string]any, name string, value any) map[string]any {
	more := maps.Clone(object)
	more[name] = value
	return more
}

// TestSchemasFollowTheEvolutionRule holds docs/schema against the samples that are kept for ever, by the rule of docs/messages.md: a
// sample passes its own schema and no other; a field that a later build adds is let through; a field that is promised is missed; what
// is of another version is refused. Every field of a sample is described.
func TestSchemasFollowTheEvolutionRule(t *testing.T) {
	t.Parallel()
	compiled, kept := schemas(t), samples(t)
	for name := range compiled {
		if kept[name] == nil {
			t.Errorf("docs/schema/%s.json describes no sample of pkg/order/testdata", name)
		}
	}
	for name, text := range kept {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, sample := compiled[name], members(t, text)
			if own == nil {
				t.Fatalf("docs/schema has no %s.json", name)
			}
			if err := own.Validate(sample); err != nil {
				t.Errorf("the sample is refused: %v", err)
			}
			for other, schema := range compiled {
				if other != name && schema.Validate(sample) == nil {
					t.Errorf("%s takes the sample, too", other)
				}
			}
			if err := own.Validate(with(sample, "of_a_later_build", map[string]any{"a": 1})); err != nil {
				t.Errorf("a field that nobody knows yet is refused: %v", err)
			}
			for field := range sample {
				if own.Properties[field] == nil {
					t.Errorf("%s is not described", field)
				}
				// Of an event every field is there, be it null; elsewhere some may be left out.
				promised := strings.HasPrefix(name, "event_") || slices.Contains(own.Required, field)
				if missed := own.Validate(without(sample, field)) != nil; missed != promised {
					t.Errorf("without %s: refused %t, expected %t", field, missed, promised)
				}
				if own.Validate(with(sample, field, []any{})) == nil {
					t.Errorf("%s may be a list", field)
				}
			}
			if own.Validate(with(sample, "v", json.Number("9"))) == nil {
				t.Error("a later version is let through")
			}
		})
	}
}

// TestSchemasTakeEveryEvent holds the schemas against what the ledger can tell beyond the samples: each reason of the closed list under
// one of the two types, and orders of which only the id and its user's hash, or its user, are known.
func TestSchemasTakeEveryEvent(t *testing.T) {
	t.Parallel()
	compiled, kept := schemas(t), samples(t)
	rejected, cancelled := members(t, kept["event_rejected_v1"]), members(t, kept["event_cancelled_v1"])
	for _, reason := range order.Reasons() {
		of := "event_rejected_v1"
		if reason == order.ReasonOperator || reason == order.ReasonCancelledBefore {
			of = "event_cancelled_v1"
		}
		for name, sample := range map[string]map[string]any{"event_rejected_v1": rejected, "event_cancelled_v1": cancelled} {
			if err := compiled[name].Validate(with(sample, "reason", string(reason))); (err == nil) != (name == of) {
				t.Errorf("%s as the reason of %s: %v", reason, name, err)
			}
		}
	}
	voided := with(rejected, "command_id", order.VoidID("018bcfe5-6800-7a10-8b2c-0d3e5f708192"))
	for _, field := range []string{"user", "place", "quantity"} {
		voided[field] = nil
	}
	taken := with(with(cancelled, "place", json.Number("7")), "quantity", json.Number("2"))
	direct := with(members(t, kept["event_confirmed_v1"]), "place", nil)
	for name, event := range map[string]map[string]any{"event_rejected_v1": voided, "event_cancelled_v1": taken, "event_confirmed_v1": direct} {
		if err := compiled[name].Validate(event); err != nil {
			t.Error(err)
		}
	}
}

// TestMessagesLinkEverySchema wants each schema in docs/messages.md.
func TestMessagesLinkEverySchema(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "messages.md"))
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	for _, found := range regexp.MustCompile(`\]\(schema/(\w+)\.json\)`).FindAllStringSubmatch(string(page), -1) {
		linked = append(linked, found[1])
	}
	for name := range schemas(t) {
		if !slices.Contains(linked, name) {
			t.Errorf("docs/messages.md does not link schema/%s.json", name)
		}
	}
}
