package audit

import (
	"fmt"
	"io"
	"strings"
)

// Verdict is what the auditor says of one promise.
type Verdict string

// The verdicts. NotChecked: there was nothing to look at; it is never taken for OK.
const (
	OK         Verdict = "ok"
	Failed     Verdict = "FAILED"
	NotChecked Verdict = "not checked"
)

// faultsShown bounds how many faults of one promise are kept in words; the rest are counted.
const faultsShown = 10

// Finding is the auditor's word on one promise.
type Finding struct {
	Promise string   `json:"promise"`
	Verdict Verdict  `json:"verdict"`
	Looked  string   `json:"looked_at"`
	Faults  []string `json:"faults,omitempty"`
	More    int      `json:"more_faults,omitempty"`
}

// Report is the auditor's whole answer.
type Report struct {
	Product  string    `json:"product"`
	Findings []Finding `json:"findings"`
	Notes    []string  `json:"notes,omitempty"`
}

// OK says that no promise was broken. A promise that could not be checked does not make it false.
func (r Report) OK() bool {
	for _, f := range r.Findings {
		if f.Verdict == Failed {
			return false
		}
	}
	return true
}

// Unchecked lists the promises that there was nothing to look at for.
func (r Report) Unchecked() []string {
	var names []string
	for _, f := range r.Findings {
		if f.Verdict == NotChecked {
			names = append(names, f.Promise)
		}
	}
	return names
}

// Print writes a line per promise, its faults below it, the notes, and as the last line "audit: ok" or "audit: FAILED".
func (r Report) Print(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Promise, f.Verdict, f.Looked)
		for _, fault := range f.Faults {
			fmt.Fprintf(&b, "    %s\n", fault)
		}
		if f.More > 0 {
			fmt.Fprintf(&b, "    and %d more\n", f.More)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if r.OK() {
		b.WriteString("audit: ok\n")
	} else {
		b.WriteString("audit: FAILED\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// finding collects what one check looked at and found.
type finding struct {
	promise string
	looked  []string
	counted int
	faults  []string
	more    int
}

func look(promise string) *finding { return &finding{promise: promise} }

// saw says how many of what the check looked at.
func (f *finding) saw(n int, what string) {
	f.counted += n
	f.looked = append(f.looked, fmt.Sprintf("%d %s", n, what))
}

func (f *finding) fault(format string, args ...any) {
	if len(f.faults) >= faultsShown {
		f.more++
		return
	}
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

func (f *finding) done() Finding {
	verdict := OK
	switch {
	case len(f.faults) > 0:
		verdict = Failed
	case f.counted == 0:
		verdict = NotChecked
	}
	return Finding{f.promise, verdict, strings.Join(f.looked, ", "), f.faults, f.more}
}
