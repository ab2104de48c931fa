package config

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Setting is one entry of the list of settings, as -help, the start-up line and the documentation show it.
type Setting struct {
	// Name is the setting without its prefix, such as LISTEN.
	Name string
	// Value is what is in force; hidden when it is secret.
	Value string
	// From is the variable it was taken from; empty when the default is in force.
	From string
	// Default is what is in force when nothing is set; empty when there is none.
	Default string
	// Form says in words what the value must look like.
	Form string
	// Meaning says what the setting does.
	Meaning string
	// Secret says that the value is hidden and that NAME_FILE may be given instead.
	Secret bool
}

// Settings returns every setting read so far, in the order of reading.
func (s *Source) Settings() []Setting { return slices.Clone(s.settings) }

// LogAttr is the group "settings" for the start-up line: each name with what is in force, secrets hidden.
func (s *Source) LogAttr() slog.Attr {
	attrs := make([]any, 0, len(s.settings))
	for _, setting := range s.settings {
		attrs = append(attrs, slog.String(setting.Name, setting.Value))
	}
	return slog.Group("settings", attrs...)
}

// WriteHelp prints every setting read so far for a person: its variable, form, default and meaning. Read the settings
// from an empty environment for it, and ignore Err.
func (s *Source) WriteHelp(w io.Writer) error {
	for _, setting := range s.settings {
		name, def := s.own(setting.Name), "no default"
		if setting.Secret {
			name += " (or " + name + fileSuffix + ")"
		}
		if setting.Default != "" {
			def = "default " + setting.Default
		}
		if _, err := fmt.Fprintf(w, "%s\n    %s\n    %s; %s\n", name, setting.Meaning, setting.Form, def); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\nInstead of %s, %s sets the same for every service.\n", s.own("X"), prefix+"X")
	return err
}
