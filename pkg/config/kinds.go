package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// String reads a setting that any text satisfies. form says in words what to put there ("a path", "a topic's
// name"), meaning what it does; both are shown by -help. With an empty default the setting may stay empty.
func (s *Source) String(name, def, form, meaning string) string {
	setting := s.declare(name, def, form, meaning)
	if variable, value := s.lookup(name); variable != "" {
		setting.From, setting.Value = variable, value
	}
	return setting.Value
}

// Required is String without a default: not set is a fault.
func (s *Source) Required(name, form, meaning string) string {
	return read(s, name, "", form, meaning, func(text string) (string, bool) { return text, true })
}

// Int reads a whole number from min to max, both allowed.
func (s *Source) Int(name string, def, min, max int, meaning string) int {
	form := fmt.Sprintf("a whole number from %d to %d", min, max)
	return read(s, name, strconv.Itoa(def), form, meaning, func(text string) (int, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= min && n <= max
	})
}

// Float reads a number from min to max, both allowed.
func (s *Source) Float(name string, def, min, max float64, meaning string) float64 {
	form := fmt.Sprintf("a number from %g to %g", min, max)
	return read(s, name, strconv.FormatFloat(def, 'g', -1, 64), form, meaning, func(text string) (float64, bool) {
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil && f >= min && f <= max
	})
}

// Duration reads a span of time from min to max, both allowed, in Go's notation ("250ms", "1m30s").
func (s *Source) Duration(name string, def, min, max time.Duration, meaning string) time.Duration {
	form := fmt.Sprintf("a duration from %s to %s, such as 250ms or 1m30s", min, max)
	return read(s, name, def.String(), form, meaning, func(text string) (time.Duration, bool) {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= min && d <= max
	})
}

// Bool reads true or false; 1, 0, yes and no are understood too.
func (s *Source) Bool(name string, def bool, meaning string) bool {
	return read(s, name, strconv.FormatBool(def), "true or false", meaning, func(text string) (bool, bool) {
		switch strings.ToLower(text) {
		case "true", "1", "yes":
			return true, true
		case "false", "0", "no":
			return false, true
		}
		return false, false
	})
}

// Choice reads one of the options, written exactly so. With an empty default a choice must be made.
func (s *Source) Choice(name, def, meaning string, options ...string) string {
	form := "one of: " + strings.Join(options, ", ")
	return read(s, name, def, form, meaning, func(text string) (string, bool) {
		for _, option := range options {
			if text == option {
				return text, true
			}
		}
		return "", false
	})
}

// Addr reads host:port; the host may be empty (every interface) and the port 0 (any free one). With an empty default it
// is required.
func (s *Source) Addr(name, def, meaning string) string {
	return read(s, name, def, "host:port", meaning, func(text string) (string, bool) {
		return text, isAddr(text)
	})
}

// Addrs reads a comma list of host:port. With an empty default it is required.
func (s *Source) Addrs(name, def, meaning string) []string {
	return read(s, name, def, "host:port,host:port,...", meaning, func(text string) ([]string, bool) {
		addrs, ok := split(text)
		for _, addr := range addrs {
			ok = ok && isAddr(addr)
		}
		return addrs, ok
	})
}

// List reads a comma list; blanks around an entry are dropped, an empty entry is a fault. form names one entry ("a
// topic's name"). With an empty default the list may be empty, and nil is returned.
func (s *Source) List(name, def, form, meaning string) []string {
	form = "a comma list, each " + form
	if variable, _ := s.lookup(name); variable == "" && def == "" {
		s.declare(name, def, form, meaning)
		return nil
	}
	return read(s, name, def, form, meaning, split)
}

// read is the path of every setting that has a form: what is not set takes the default, what has not the form is a
// fault and gives the default's value, so that the caller can go on and find the rest.
func read[T any](s *Source, name, def, form, meaning string, parse func(string) (T, bool)) T {
	setting := s.declare(name, def, form, meaning)
	variable, text := s.lookup(name)
	if variable != "" {
		setting.From, setting.Value = variable, text
		if value, ok := parse(text); ok {
			return value
		}
		s.faults = append(s.faults, fault(variable, strconv.Quote(text), form))
	} else if def == "" {
		s.faults = append(s.faults, fault(s.own(name), notSet, form))
	}
	value, _ := parse(def)
	return value
}

func isAddr(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

func split(text string) ([]string, bool) {
	entries := strings.Split(text, ",")
	for i, entry := range entries {
		entries[i] = strings.TrimSpace(entry)
		if entries[i] == "" {
			return nil, false
		}
	}
	return entries, true
}
