package audit

import (
	"fmt"
	"io"
	"strings"
)

// Verdict is what the auditor says of one promise.
type Verdict string

// The verdicts. OKKept: no fault in what is still kept, and some of it is gone. NotChecked: there was nothing to look at. Neither is ever taken
// for OK.
const (
	OK         Verdict = "ok"
	OKKept     Verdict = "ok in what is kept"
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
	Gone    []string `json:"not_looked_at,omitempty"` // what was removed for its age
	Faults  []string `json:"faults,omitempty"`
	More    int      `json:"more_faults,omitempty"`
}

// Report is the auditor's whole answer.
type Report struct {
	Product  string    `json:"product"`
	Findings []Finding `json:"findings"`
	Notes    []string  `json:"notes,omitempty"`
}

// OK says that no promise was broken. A promise that could not be checked, or only in part, does not make it false.
func (r Report) OK() bool {
	for _, f := range r.Findings {
		if f.Verdict == Failed {
			return false
		}
	}
	return true
}

// Partial says that some of the product's history is gone, so that nobody can say more than that the rest is in order.
func (r Report) Partial() bool {
	for _, f := range r.Findings {
		if len(f.Gone) > 0 {
			return true
		}
	}
	return false
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

// Print writes a line per promise, below it its faults and what is gone, the notes, and as the last line "audit: ok", "audit: ok in what is
// kept" or "audit: FAILED".
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
		for _, gone := range f.Gone {
			fmt.Fprintf(&b, "    not looked at: %s\n", gone)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	verdict := OK
	switch {
	case !r.OK():
		verdict = Failed
	case r.Partial():
		verdict = OKKept
	}
	fmt.Fprintf(&b, "audit: %s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}

// finding collects what one check looked at and found.
type finding struct {
	promise string
	looked  []string
	counted int
	gone    []string
	faults  []string
	more    int
}

func look(promise string) *finding { return &finding{promise: promise} }

// saw says how many of what the check looked at.
func (f *finding) saw(n int, what string) {
	f.counted += n
	f.looked = append(f.looked, fmt.Sprintf("%d %s", n, what))
}

// lost says what there was and is no longer there to look at.
func (f *finding) lost(format string, args ...any) {
	f.gone = append(f.gone, fmt.Sprintf(format, args...))
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
	case len(f.gone) > 0:
		verdict = OKKept
	}
	return Finding{f.promise, verdict, strings.Join(f.looked, ", "), f.gone, f.faults, f.more}
}
