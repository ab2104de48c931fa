package httpapi

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestEncode: answers are, to the byte, what encoding/json would write, members that are added later included.
func TestEncode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var d standing
		fill(t, reflect.ValueOf(&d).Elem())
		j := joined{d, rapid.Bool().Draw(t, "already")}
		for _, answer := range []any{&d, &j} {
			want, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			if _, own := answer.(encoded); !own {
				t.Fatalf("%T is left to reflection", answer)
			}
			if got, err := encode(answer); err != nil || string(got) != string(want) {
				t.Fatalf("%v\n got %s\nwant %s", err, got, want)
			}
		}
	})
}

// fill gives every member a value.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()))
		return
	}
	switch v.Kind() { //nolint:exhaustive // the kinds that answers have
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "given") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9_./-]{0,40}`)).Draw(t, "text"))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	case reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(0.0), rapid.Float64()).Draw(t, "share"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	default:
		t.Fatalf("no value for a %s", v.Kind())
	}
}
