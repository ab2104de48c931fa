// Command schemas writes the JSON schemas that the manifests of deploy/kubernetes are held against: of two versions of Kubernetes the
// kinds that are used there, and of the operators' kinds the same. What it reads are the projects' own published descriptions, out of their
// modules from the Go module proxy. It runs when a version here is raised (make schemas), never in a check.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// source is a file of a module.
type source struct{ module, version, file string }

// versions are the oldest Kubernetes that the manifests promise to fit, and the newest they were held against.
func versions() map[string]source {
	const module, file = "k8s.io/kubernetes", "api/openapi-spec/swagger.json"
	return map[string]source{"1.31": {module, "v1.31.0", file}, "1.37": {module, "v1.37.2", file}}
}

// kinds are those of Kubernetes itself that the manifests use, by the name of their definition.
func kinds() []string {
	return []string{
		"io.k8s.api.apps.v1.Deployment",
		"io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
		"io.k8s.api.batch.v1.Job",
		"io.k8s.api.core.v1.ConfigMap",
		"io.k8s.api.core.v1.Namespace",
		"io.k8s.api.core.v1.Service",
		"io.k8s.api.core.v1.ServiceAccount",
		"io.k8s.api.networking.v1.NetworkPolicy",
		"io.k8s.api.policy.v1.PodDisruptionBudget",
	}
}

// custom are the kinds that others add.
func custom() []source {
	const keda = "github.com/kedacore/keda/v2"
	return []source{
		{keda, "v2.21.0", "config/crd/bases/keda.sh_scaledobjects.yaml"},
		{keda, "v2.21.0", "config/crd/bases/keda.sh_triggerauthentications.yaml"},
		{"github.com/prometheus-operator/prometheus-operator", "v0.92.1", "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"},
	}
}

const (
	objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	quantity   = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$`
)

type schema = map[string]any

func main() {
	if len(os.Args) != 2 {
		_, _ = fmt.Fprintln(os.Stderr, "schemas: expected the folder to write to, for example: schemas e2e/kubernetes/schema")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) error {
	for short, from := range versions() {
		defs, found, err := kubernetes(ctx, from)
		if err != nil {
			return err
		}
		for _, from := range custom() {
			if err := add(ctx, from, defs, found); err != nil {
				return err
			}
		}
		file := schema{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": defs, "kinds": found}
		text, err := json.MarshalIndent(file, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "kubernetes-"+short+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read has the go command fetch the module and reads the file.
func (s source) read(ctx context.Context) ([]byte, error) {
	var out, errText bytes.Buffer
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.module+"@"+s.version)
	command.Dir, command.Stdout, command.Stderr = os.TempDir(), &out, &errText
	if err := command.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("fetch %s@%s: %w", s.module, s.version, err), errors.New(out.String()+errText.String()))
	}
	var told struct{ Dir string }
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(told.Dir, s.file))
}

// kubernetes reads the definitions that the kinds need, and which definition stands for which "apiVersion kind".
func kubernetes(ctx context.Context, from source) (defs schema, found map[string]string, err error) {
	text, err := from.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	var swagger struct{ Definitions map[string]schema }
	if err := json.Unmarshal(text, &swagger); err != nil {
		return nil, nil, err
	}
	defs, found = schema{}, map[string]string{}
	queue := append([]string{objectMeta}, kinds()...)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if defs[name] != nil {
			continue
		}
		definition := swagger.Definitions[name]
		if definition == nil {
			return nil, nil, fmt.Errorf("kubernetes %s has no %s", from.version, name)
		}
		gvk := groupVersionKind(definition)
		closed, references := tighten(definition)
		switch {
		case strings.HasSuffix(name, ".IntOrString"):
			closed = schema{"type": []string{"integer", "string"}}
		case strings.HasSuffix(name, ".Quantity"):
			closed = schema{"type": []string{"string", "number"}, "pattern": quantity}
		case gvk != nil:
			found[asObject(closed, gvk[0], gvk[1])] = name
		}
		defs[name] = closed
		queue = append(queue, references...)
	}
	return defs, found, nil
}

// groupVersionKind is a definition's "group/version" and kind, where it is one of an object.
func groupVersionKind(definition schema) []string {
	list, _ := definition["x-kubernetes-group-version-kind"].([]any)
	if len(list) != 1 {
		return nil
	}
	first, _ := list[0].(schema)
	version, _ := first["version"].(string)
	if group, _ := first["group"].(string); group != "" {
		version = group + "/" + version
	}
	kind, _ := first["kind"].(string)
	return []string{version, kind}
}

// asObject has a definition ask for its own apiVersion and kind, and returns both as one key.
func asObject(definition schema, apiVersion, kind string) string {
	properties, _ := definition["properties"].(schema)
	properties["apiVersion"], properties["kind"] = schema{"const": apiVersion}, schema{"const": kind}
	properties["metadata"] = schema{"$ref": "#/$defs/" + objectMeta}
	required, _ := definition["required"].([]any)
	required = append(required, "apiVersion", "kind", "metadata")
	if properties["spec"] != nil && kind != "Namespace" && !slices.Contains(required, any("spec")) {
		required = append(required, "spec")
	}
	definition["required"] = required
	return apiVersion + " " + kind
}

// add takes a custom kind's newest served version into the definitions.
func add(ctx context.Context, from source, defs schema, found map[string]string) error {
	text, err := from.read(ctx)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return fmt.Errorf("%s: %w", from.file, err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			name := crd.Spec.Group + "." + v.Name + "." + crd.Spec.Names.Kind
			closed, _ := tighten(v.Schema.OpenAPIV3Schema)
			found[asObject(closed, crd.Spec.Group+"/"+v.Name, crd.Spec.Names.Kind)] = name
			defs[name] = closed
		}
	}
	return nil
}

// tighten copies a schema without prose and without marks for the server, closes every object whose fields are listed, as the server
// does when it is strict, and names the definitions that it refers to.
func tighten(from schema) (closed schema, references []string) {
	closed = schema{}
	for key, value := range from {
		switch value := value.(type) {
		case string:
			switch key {
			case "$ref":
				name := strings.TrimPrefix(value, "#/definitions/")
				references, closed[key] = append(references, name), "#/$defs/"+name
			case "type", "pattern":
				closed[key] = value
			}
		case schema:
			switch key {
			case "properties":
				fields := schema{}
				for name, field := range value {
					var more []string
					fields[name], more = tighten(field.(schema))
					references = append(references, more...)
				}
				closed[key] = fields
			case "items", "additionalProperties":
				inner, more := tighten(value)
				closed[key], references = inner, append(references, more...)
			}
		default:
			switch key {
			case "required", "enum", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "anyOf", "oneOf":
				closed[key] = value
			}
		}
	}
	_, open := from["x-kubernetes-preserve-unknown-fields"]
	if closed["properties"] != nil && closed["additionalProperties"] == nil && !open {
		closed["additionalProperties"] = false
	}
	return closed, references
}
