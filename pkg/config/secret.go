package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

const (
	fileSuffix = "_FILE"
	hidden     = "[hidden]"
	// maxSecretBytes bounds a secret's file: keys and URLs are far shorter, and a wrong path (a device, a log) must not
	// fill the memory.
	maxSecretBytes = 64 << 10
)

// Secret is a value that does not show itself: fmt, slog and JSON all print "[hidden]", or nothing when it is empty.
type Secret struct{ value string }

// NewSecret wraps a value, for tests and for secrets made by the program.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value. Do not log it, and do not put it into an error.
func (s Secret) Reveal() string { return s.value }

// IsZero says whether there is no value.
func (s Secret) IsZero() bool { return s.value == "" }

// String returns the hidden form.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return hidden
}

// Format prints the hidden form for every verb: without it %d and %#v would look inside.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// LogValue gives slog the hidden form.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON gives the hidden form.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalText gives the hidden form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Secret reads a required secret: the variable X itself, or the file named by X_FILE without the line
// breaks at its end. Both at once is a fault, as is a file that is empty, unreadable or over 64 KiB.
func (s *Source) Secret(name, form, meaning string) Secret {
	secret, from, ok := s.secret(name, form, meaning)
	if ok && from == "" {
		s.faults = append(s.faults, fault(s.own(name), notSet, form+", there or in the file named by "+s.own(name)+fileSuffix))
	}
	return secret
}

// OptionalSecret is Secret, but may be missing.
func (s *Source) OptionalSecret(name, form, meaning string) Secret {
	secret, _, _ := s.secret(name, form, meaning)
	return secret
}

// secret returns the value, the variable it came from, and false when a fault was noted already.
func (s *Source) secret(name, form, meaning string) (Secret, string, bool) {
	setting := s.declare(name, "", form, meaning)
	setting.Secret = true
	for _, variable := range []string{s.own(name), prefix + name} {
		value, path := s.environ[variable], s.environ[variable+fileSuffix]
		switch {
		case value != "" && path != "":
			setting.From, setting.Value = variable, hidden
			s.faults = append(s.faults, fault(variable, "both it and "+variable+fileSuffix, "one of the two"))
			return Secret{}, variable, false
		case value != "":
			setting.From, setting.Value = variable, hidden
			return Secret{value}, variable, true
		case path != "":
			setting.From, setting.Value = variable+fileSuffix, hidden
			secret, err := readSecret(path)
			if err != nil {
				s.faults = append(s.faults, fault(variable+fileSuffix, err.Error(), "a readable file with "+form))
				return Secret{}, variable, false
			}
			return secret, variable, true
		}
	}
	return Secret{}, "", true
}

func readSecret(path string) (Secret, error) {
	file, err := os.Open(path)
	if err != nil {
		return Secret{}, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretBytes+1))
	switch value := strings.TrimRight(string(text), "\r\n"); {
	case err != nil:
		return Secret{}, err
	case len(text) > maxSecretBytes:
		return Secret{}, fmt.Errorf("%s with more than %d bytes", path, maxSecretBytes)
	case value == "":
		return Secret{}, fmt.Errorf("%s, which is empty", path)
	default:
		return Secret{value}, nil
	}
}
