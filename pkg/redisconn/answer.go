package redisconn

import (
	"fmt"
	"strconv"
)

// Answer is the array that a script returned. Its readers remember the first fault; Err tells it, so that a decoder reads
// all fields and asks once. An Answer is used by one goroutine.
type Answer struct {
	name   string
	values []any
	fault  *error
}

// Len is the number of elements.
func (a Answer) Len() int { return len(a.values) }

// Err is the first fault of a reader; nil when every field read so far had its form.
func (a Answer) Err() error { return *a.fault }

// Text is element i as a string; a null is "".
func (a Answer) Text(i int) string {
	if i >= len(a.values) {
		a.fail(i, "an element")
		return ""
	}
	switch v := a.values[i].(type) {
	case nil:
		return ""
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		a.fail(i, "a string")
		return ""
	}
}

// Int is element i as a whole number; a null or "" is 0.
func (a Answer) Int(i int) int64 {
	text := a.Text(i)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		a.fail(i, "a whole number")
	}
	return n
}

// Float is element i as a number; scripts send floats as text. A null or "" is 0.
func (a Answer) Float(i int) float64 {
	text := a.Text(i)
	if text == "" {
		return 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		a.fail(i, "a number")
	}
	return f
}

// List is element i, an array within the answer; its faults are the answer's.
func (a Answer) List(i int) Answer {
	if i < len(a.values) {
		if values, ok := a.values[i].([]any); ok {
			return Answer{a.name, values, a.fault}
		}
	}
	a.fail(i, "an array")
	return Answer{a.name, nil, a.fault}
}

func (a Answer) fail(i int, expected string) {
	if *a.fault == nil {
		*a.fault = fmt.Errorf("answer of %s: element %d: expected %s", a.name, i, expected)
	}
}
