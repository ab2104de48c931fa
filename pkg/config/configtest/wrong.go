// Package configtest sets each setting of a service wrong once. It owns the values that are wrong for a form that many settings share;
// what is wrong for a form of its own is the service's test to say, so that a new setting without a case fails that test. It is never
// linked into anything shipped.
package configtest

import (
	"slices"
	"strings"
	"testing"

	"hanjul/pkg/config"
)

// Any is the case of a setting that every text satisfies.
const Any = ""

// Service is what is tested.
type Service struct {
	// Word is the service's in the names of its settings, such as API.
	Word string
	// Load reads every setting.
	Load func(s *config.Source)
	// Good is an environment without a fault.
	Good []string
	// Cases are wrong values by setting, for those whose form is not one that many share; Any where nothing is wrong.
	Cases map[string]string
	// Ruled are settings that another one decides about: of them nothing is told while that one is wrong itself.
	Ruled []string
	// Validate runs the binary's main with -validate and returns its exit code and all that it printed.
	Validate func(environ []string) (code int, printed string)
}

// EachWrong sets every setting wrong, alone and all of them together. Each time the exit code must be 2, and a line must begin with the
// setting's variable and say what was expected; the value of a secret is never shown.
func EachWrong(t *testing.T, s Service) {
	t.Helper()
	source := config.NewSource(s.Good, s.Word)
	s.Load(source)
	if err := source.Err(); err != nil {
		t.Fatalf("the good environment is not good: %v", err)
	}
	var all, names []string
	for _, setting := range source.Settings() {
		value, found := s.Cases[setting.Name]
		if !found {
			value = wrongFor(setting.Form)
		}
		if value == Any {
			if !found {
				t.Errorf("%s (%s) is never set wrong: give it a case", setting.Name, setting.Form)
			}
			continue
		}
		variable := "HANJUL_" + s.Word + "_" + setting.Name
		entry := variable + "=" + value
		all = append(all, entry)
		if !slices.Contains(s.Ruled, setting.Name) {
			names = append(names, variable)
		}
		code, printed := s.Validate(append([]string{entry}, s.Good...))
		if code != 2 || !told(printed, variable) {
			t.Errorf("%s: exit code %d, expected 2 and a line that names it and what was expected:\n%s", entry, code, printed)
		}
		if setting.Secret && strings.Contains(printed, value) {
			t.Errorf("%s: the secret is shown:\n%s", variable, printed)
		}
	}
	code, printed := s.Validate(slices.Concat(all, s.Good))
	for _, variable := range names {
		if code != 2 || !told(printed, variable) {
			t.Errorf("with all wrong at once %s is not told (exit code %d):\n%s", variable, code, printed)
		}
	}
}

// told says whether a line begins with the variable and says what would be right.
func told(printed, variable string) bool {
	for line := range strings.SplitSeq(printed, "\n") {
		if strings.HasPrefix(line, variable+": ") && (strings.Contains(line, "expected") || strings.Contains(line, "no such file")) {
			return true
		}
	}
	return false
}

// wrongFor is a value that has not the form, or "" for a form that only one setting has.
func wrongFor(form string) string {
	for start, value := range map[string]string{
		"a whole number ": "several", "a number ": "several", "a duration ": "soon", "true or false": "perhaps",
		"host:port": "nowhere", "a comma list, each host:port": "nowhere", "one of: ": "none-of-these",
		"kid:base64url(32 bytes)": "nokey-here", "a postgres:// URL": "http://nowhere-at-all:x",
		"redis://": "http://nowhere-at-all", "a file with ": "/none/there", "a text without blanks": "a{b}", "a lower-case letter": "9th",
		"a comma list, each a topic's name": "a,,b", "name:token,name:token": "anna:brief",
	} {
		if strings.HasPrefix(form, start) {
			return value
		}
	}
	return ""
}
