package main

import (
	"strings"
	"testing"
)

func TestParseGiven(t *testing.T) {
	t.Parallel()
	whole := map[string]string{
		"API": "http://127.0.0.1:8080,http://127.0.0.1:8090", "DESK": "http://127.0.0.1:8081", "TOKENS": "operator.tokens", "HANJUL_POSTGRES_URL": "postgres://x@y/z",
	}
	for name, c := range map[string]struct {
		set   map[string]string
		wants []string // in the error; none: no error
		empty bool
	}{
		"NothingGiven":   {set: map[string]string{"API": "", "DESK": "", "TOKENS": ""}, empty: true},
		"Whole":          {},
		"NoDesk":         {set: map[string]string{"DESK": ""}, wants: []string{"DESK: expected base URLs"}},
		"NoURL":          {set: map[string]string{"API": "127.0.0.1:8080"}, wants: []string{`API: expected base URLs such as http://127.0.0.1:8080, got "127.0.0.1:8080"`}},
		"OnlyAdminPorts": {set: map[string]string{"API": "", "DESK": "", "TOKENS": "", "ADMINS": "127.0.0.1:9080"}, wants: []string{"API: ", "DESK: ", "TOKENS: "}},
		"NoLedger":       {set: map[string]string{"HANJUL_POSTGRES_URL": ""}, wants: []string{"HANJUL_POSTGRES_URL: expected the ledger's address"}},
		"Chaos":          {set: map[string]string{"CHAOS": "1"}, wants: []string{"CHAOS: expected nothing"}},
		"EveryFault":     {set: map[string]string{"DESK": "", "TOKENS": ""}, wants: []string{"DESK: ", "TOKENS: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseGiven(func(name string) string {
				if value, found := c.set[name]; found {
					return value
				}
				return whole[name]
			})
			if (err != nil) != (len(c.wants) > 0) || got.empty() != c.empty && len(c.wants) == 0 {
				t.Fatalf("got %+v, %v", got, err)
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}
