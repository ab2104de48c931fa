package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// cluster is one version of Kubernetes, as far as its schemas go.
type cluster struct {
	kinds map[string]*jsonschema.Schema // by "apiVersion kind"
}

// clusters are the versions in schema, by name.
var clusters = sync.OnceValues(func() (map[string]cluster, error) {
	paths, err := filepath.Glob("schema/kubernetes-*.json")
	if err != nil {
		return nil, err
	}
	all := make(map[string]cluster)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var file struct {
			Kinds map[string]string
			Defs  map[string]any `json:"$defs"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, err
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("file:///cluster.json", map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": file.Defs}); err != nil {
			return nil, err
		}
		c := cluster{kinds: make(map[string]*jsonschema.Schema)}
		for kind, definition := range file.Kinds {
			if c.kinds[kind], err = compiler.Compile("file:///cluster.json#/$defs/" + definition); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, kind, err)
			}
		}
		all[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "kubernetes-"), ".json")] = c
	}
	return all, nil
})

func everyCluster(t *testing.T) map[string]cluster {
	t.Helper()
	all, err := clusters()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Fatalf("found schemas of %d versions, expected the oldest and the newest", len(all))
	}
	return all
}

// check holds an object against its kind: unknown fields, wrong types and missing ones are errors.
func (c cluster) check(o object) error {
	schema := c.kinds[get[string](o, "apiVersion")+" "+o.kind()]
	if schema == nil {
		return fmt.Errorf("there is no %s %s", get[string](o, "apiVersion"), o.kind())
	}
	return schema.Validate(map[string]any(o))
}

// TestManifestsAreValid holds everything that is rendered against the oldest Kubernetes that is promised and the newest.
func TestManifestsAreValid(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		for version, c := range everyCluster(t) {
			for _, o := range all {
				if err := c.check(o); err != nil {
					t.Errorf("Kubernetes %s, %s: %v", version, o, err)
				}
			}
		}
	}
}

// TestFaultsAreFound proves the check above: at every place of every object it puts a field that is not known, and a value of another type, and
// takes away what is required; each must be refused.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, all := range everyOverlay(t) {
		tried := 0
		for version, c := range everyCluster(t) {
			for _, o := range all {
				walk(o, "", func(path string, spoil func(func())) {
					spoil(func() {
						tried++
						if c.check(o) == nil {
							t.Errorf("Kubernetes %s, %s: %s passes", version, o, path)
						}
					})
				})
			}
			for _, missing := range []struct{ kind, path string }{
				{"Deployment", "spec"},
				{"Deployment", "spec.selector"},
				{"Deployment", "spec.template"},
				{"Deployment", "metadata"},
				{"Deployment", "spec.template.spec.containers"},
				{"Deployment", "spec.template.spec.containers.0.name"},
				{"Deployment", "spec.template.spec.containers.0.env.0.name"},
				{"Deployment", "spec.template.spec.containers.0.ports.0.containerPort"},
				{"Deployment", "spec.template.spec.containers.0.livenessProbe.httpGet.port"},
				{"Deployment", "spec.template.spec.containers.0.volumeMounts.0.mountPath"},
				{"Deployment", "spec.template.spec.volumes.0.name"},
				{"Deployment", "spec.template.spec.volumes.0.secret.items.0.path"},
				{"Deployment", "spec.template.spec.topologySpreadConstraints.0.topologyKey"},
				{"Deployment", "spec.template.spec.securityContext.seccompProfile.type"},
				{"Job", "spec.template"},
				{"Service", "spec.ports.0.port"},
				{"HorizontalPodAutoscaler", "spec.maxReplicas"},
				{"HorizontalPodAutoscaler", "spec.scaleTargetRef.name"},
				{"HorizontalPodAutoscaler", "spec.metrics.0.type"},
				{"PodDisruptionBudget", "apiVersion"},
				{"NetworkPolicy", "kind"},
				{"ScaledObject", "spec.scaleTargetRef"},
				{"ScaledObject", "spec.triggers"},
				{"ScaledObject", "spec.triggers.0.metadata"},
				{"PodMonitor", "spec.selector"},
			} {
				for _, o := range of(all, missing.kind) {
					without(o, missing.path, func() {
						tried++
						if c.check(o) == nil {
							t.Errorf("Kubernetes %s, %s without %s passes", version, o, missing.path)
						}
					})
				}
			}
		}
		if tried < 1000 {
			t.Errorf("%d faults were tried, expected far more", tried)
		}
	}
}

// free are the fields whose keys are the user's own.
func free(path string) bool {
	last := path[strings.LastIndexByte(path, '.')+1:]
	return slices.Contains([]string{"labels", "annotations", "data", "matchLabels", "requests", "limits"}, last) ||
		path == ".spec.selector" || strings.HasPrefix(path, ".spec.triggers") && last == "metadata"
}

// walk visits every value below a node with a way to spoil it: spoil makes the fault, calls back, and puts things right again.
func walk(node any, path string, visit func(path string, spoil func(func()))) {
	spoilField := func(in map[string]any, key string, value any) func(func()) {
		return func(check func()) {
			before, was := in[key]
			in[key] = value
			check()
			if in[key] = before; !was {
				delete(in, key)
			}
		}
	}
	switch node := node.(type) {
	case object:
		walk(map[string]any(node), path, visit)
	case map[string]any:
		if !free(path) {
			visit(path+" with the unknown field replcas", spoilField(node, "replcas", "1"))
		}
		for key, value := range node {
			switch value.(type) {
			case map[string]any, []any:
				visit(path+"."+key+" as a text", spoilField(node, key, "text"))
			default:
				visit(path+"."+key+" as an object", spoilField(node, key, map[string]any{"of": "another type"}))
				visit(path+"."+key+" as a list", spoilField(node, key, []any{value}))
			}
			walk(value, path+"."+key, visit)
		}
	case []any:
		for i, value := range node {
			visit(fmt.Sprintf("%s.%d as a bool", path, i), func(check func()) {
				node[i] = true
				check()
				node[i] = value
			})
			walk(value, fmt.Sprintf("%s.%d", path, i), visit)
		}
	}
}

// without calls back while a field is away; it does nothing where there is none.
func without(o object, path string, check func()) {
	parent, key := any(map[string]any(o)), path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, key = get[any](o, path[:i]), path[i+1:]
	}
	in, _ := parent.(map[string]any)
	value, was := in[key]
	if !was {
		return
	}
	delete(in, key)
	check()
	in[key] = value
}
