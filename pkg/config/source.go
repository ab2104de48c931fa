// Package config reads settings from an environment that is handed to it and collects every fault, so that an operator
// mends a deployment in one go. It owns the naming rule (HANJUL_<SERVICE>_X before HANJUL_X, and X_FILE beside each
// secret), the hiding of secrets and the list behind -help and the start-up line. It never reads the process's own
// environment, which only main.go does, and it never knows what a setting is for: names, defaults, limits and the
// relations between settings stand in each service's config.go.
package config

import (
	"fmt"
	"strings"
)

const prefix = "HANJUL_"

// Source reads the settings of one service. Read every setting first, then ask Err once. Not safe for concurrent use:
// it lives in start-up.
type Source struct {
	environ  map[string]string
	order    []string
	service  string
	settings []Setting
	known    map[string]bool
	faults   []error
	warnings []string
}

// NewSource takes the environment in the form of os.Environ and the service's word, such as "API": the setting X is then
// HANJUL_API_X where that is set, else HANJUL_X, which a deployment shares between services. A variable set to
// the empty string counts as not set. Of a repeated variable the first counts, as in the os package.
func NewSource(environ []string, service string) *Source {
	s := &Source{
		environ: make(map[string]string),
		service: service,
		known:   make(map[string]bool),
	}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !strings.HasPrefix(name, prefix) {
			continue
		}
		if _, seen := s.environ[name]; seen {
			continue
		}
		s.environ[name] = value
		s.order = append(s.order, name)
	}
	return s
}

// own is the service's own variable of a setting.
func (s *Source) own(name string) string { return prefix + s.service + "_" + name }

// lookup finds the variable that sets name: the service's own before the deployment's. variable is empty when neither
// is set.
func (s *Source) lookup(name string) (variable, value string) {
	for _, variable := range []string{s.own(name), prefix + name} {
		if value := s.environ[variable]; value != "" {
			return variable, value
		}
	}
	return "", ""
}

// declare notes that the program knows a setting. It returns the entry to fill in.
func (s *Source) declare(name, def, form, meaning string) *Setting {
	if s.known[name] {
		s.faults = append(s.faults, fmt.Errorf("%s: read twice by the program", s.own(name)))
	}
	s.known[name] = true
	s.settings = append(s.settings, Setting{Name: name, Default: def, Form: form, Meaning: meaning, Value: def})
	return &s.settings[len(s.settings)-1]
}
