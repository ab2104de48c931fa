package config

import "strings"

// Only reads what load reads and takes no offence at other settings, for a subcommand that needs a few of a service's: a job
// that only migrates need not be given keys, and may be given them. The error is Source.Err's.
func Only[T any](environ []string, service string, load func(*Source) T) (T, error) {
	probe := NewSource(nil, service)
	load(probe)
	wanted := make(map[string]bool, 4*len(probe.settings))
	for _, setting := range probe.settings {
		for _, name := range []string{probe.own(setting.Name), prefix + setting.Name} {
			wanted[name], wanted[name+fileSuffix] = true, true
		}
	}
	var some []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); wanted[name] {
			some = append(some, entry)
		}
	}
	source := NewSource(some, service)
	value := load(source)
	return value, source.Err()
}
