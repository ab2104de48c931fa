package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const notSet = "nothing"

// Fault notes a fault that only the service can see, such as a relation between two settings. The format says what is
// wrong and what would be right; it must not carry a secret. The setting's own variable is named in front.
func (s *Source) Fault(name, format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf("%s: %w", s.inForce(name), fmt.Errorf(format, args...)))
}

// Warn notes what is allowed and most likely not meant. The format says what follows from it; it must not carry a secret. The
// setting's own variable is named in front.
func (s *Source) Warn(name, format string, args ...any) {
	s.warnings = append(s.warnings, s.inForce(name)+": "+fmt.Sprintf(format, args...))
}

// Warnings returns every warning noted so far, each naming its variable. They are the caller's to tell.
func (s *Source) Warnings() []string { return slices.Clone(s.warnings) }

// inForce is the variable to name for a setting: the one that sets it, or its own.
func (s *Source) inForce(name string) string {
	for _, suffix := range []string{"", fileSuffix} {
		for _, variable := range []string{s.own(name), prefix + name} {
			if s.environ[variable+suffix] != "" {
				return variable + suffix
			}
		}
	}
	return s.own(name)
}

// Err returns every fault found so far, one a line, or nil. Ask it after the last setting was read: a variable
// with the service's prefix that nothing read is a fault too, since it is most likely a typing error. Each line names the
// variable, what was found (of a secret never the value) and what was expected.
func (s *Source) Err() error {
	return errors.Join(slices.Concat(s.faults, s.unknown())...)
}

func (s *Source) unknown() []error {
	known := make(map[string]bool, 2*len(s.settings))
	for _, setting := range s.settings {
		known[s.own(setting.Name)] = true
		if setting.Secret {
			known[s.own(setting.Name)+fileSuffix] = true
		}
	}
	names := slices.Clone(s.order)
	slices.Sort(names)
	var faults []error
	for _, name := range names {
		if strings.HasPrefix(name, s.own("")) && !known[name] {
			faults = append(faults, fmt.Errorf("%s: no such setting; -help lists those there are", name))
		}
	}
	return faults
}

func fault(variable, found, expected string) error {
	return fmt.Errorf("%s: found %s, expected %s", variable, found, expected)
}
