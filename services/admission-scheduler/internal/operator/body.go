package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"hanjul/pkg/problem"
	"hanjul/pkg/product"
)

// bodyMax bounds a request's body; the largest, a full set of settings, is below 1 KiB.
const bodyMax = 16 << 10

// faults are what is wrong with a request that could be read, each naming its field.
type faults []problem.Field

func (f faults) Error() string {
	texts := make([]string, len(f))
	for i, field := range f {
		texts[i] = field.Name + ": " + field.Detail
	}
	return strings.Join(texts, "; ")
}

func (f *faults) add(name, format string, args ...any) {
	*f = append(*f, problem.Field{Name: name, Detail: fmt.Sprintf(format, args...)})
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// readBody reads one JSON object. An empty body reads as an empty object where that is allowed.
func readBody(r *http.Request, mayBeEmpty bool) (map[string]json.RawMessage, error) {
	body, err := io.ReadAll(r.Body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, errTooLarge
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if len(bytes.TrimSpace(body)) == 0 && mayBeEmpty {
		return nil, nil
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, errMediaType
	}
	return object(body)
}

// object reads the members of one JSON object; a member given twice is malformed, since two readers would see two values.
func object(body []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, fmt.Errorf("%w: expected one JSON object", errMalformed)
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errMalformed, err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w: %w", errMalformed, err)
		}
		key, _ := name.(string)
		if _, twice := members[key]; twice {
			return nil, fmt.Errorf("%w: %q is given twice", errMalformed, key)
		}
		members[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: expected nothing behind the object", errMalformed)
	}
	return members, nil
}

// take reads one member into value and removes it; a member that is not there leaves value alone. A wrong kind is a fault that
// names the member.
func take(members map[string]json.RawMessage, f *faults, name string, value any) bool {
	raw, found := members[name]
	if !found {
		return false
	}
	delete(members, name)
	if err := json.Unmarshal(raw, value); err != nil || string(raw) == "null" {
		f.add(name, "expected %s", kind(reflect.TypeOf(value).Elem()))
		return false
	}
	return true
}

// kind says in words what JSON a Go type takes.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list of texts"
	default:
		return "a text"
	}
}

// takeSettings reads the members of product.Settings over what is in force; their names are those of the contract.
func takeSettings(members map[string]json.RawMessage, f *faults, over product.Settings) product.Settings {
	fields := reflect.TypeFor[product.Settings]()
	value := reflect.ValueOf(&over).Elem()
	for i := range fields.NumField() {
		take(members, f, fields.Field(i).Tag.Get("json"), value.Field(i).Addr().Interface())
	}
	return over
}

// refuseUnknown makes every member that nothing took a fault, in the order of their names.
func refuseUnknown(members map[string]json.RawMessage, f *faults) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f.add(name, "no such field")
	}
}

// splitFaults turns the joined faults of a contract's Validate, each "field: expected …", into fields.
func splitFaults(err error, f *faults) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			splitFaults(each, f)
		}
		return
	}
	text := strings.TrimSuffix(err.Error(), ": "+product.ErrInvalid.Error())
	name, detail, _ := strings.Cut(text, ": ")
	f.add(name, "%s", detail)
}
